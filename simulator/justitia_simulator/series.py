"""Time series of a policy's results: what tenants were served, and how long the light one waited."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from justitia_simulator.records import PolicyResults, RequestResult
from justitia_simulator.summary import service_unit

Array = npt.NDArray[np.float64]
POINTS = 300


@dataclass(frozen=True)
class Series:
    """Values of one tenant at moments, in seconds from the start of the workload."""

    times: Array
    values: Array


def service_series(results: PolicyResults) -> tuple[str, dict[str, Series]]:
    """Unit, and per tenant the service received so far divided by its weight.

    From the recorded charges; without them p + 2d weighted tokens, prompts at the first token, output evenly after it.
    """
    unit = service_unit(results)
    raw = sampled(results, "service") if results.service else _from_tokens(results)
    return unit, {t: Series(s.times, s.values / results.weights.get(t, 1.0)) for t, s in raw.items()}


def sampled(results: PolicyResults, field: str) -> dict[str, Series]:
    """Per tenant a column of the recorded time series."""
    rows: dict[str, list[tuple[float, float]]] = {}
    for sample in results.service:
        rows.setdefault(sample.tenant, []).append((sample.time, getattr(sample, field)))
    return {t: Series(*np.array(points, dtype=float).T) for t, points in sorted(rows.items())}


def lightest_tenant(results: PolicyResults) -> str | None:
    """The tenant that asks least: the fewest weighted tokens p + 2d in all its requests."""
    asked: dict[str, float] = {}
    for r in results.requests:
        asked[r.tenant] = asked.get(r.tenant, 0.0) + r.prompt_tokens + 2.0 * r.output_tokens
    return min(asked, key=lambda t: (asked[t], t), default=None)


def waiting_series(results: PolicyResults, tenant: str) -> Series:
    """Ready to first token of the tenant's requests, by the moment they became ready."""
    rows = sorted(
        (r.ready, r.first_token - r.ready) for r in results.requests if r.tenant == tenant and r.first_token is not None
    )
    return Series(*np.array(rows, dtype=float).reshape(-1, 2).T)


def _from_tokens(results: PolicyResults) -> dict[str, Series]:
    served = [r for r in results.requests if r.first_token is not None]
    times = np.linspace(0.0, max((r.finished or r.first_token or 0.0 for r in served), default=1.0), POINTS)
    tenants = sorted({r.tenant for r in results.requests})
    total = {t: np.zeros(POINTS) for t in tenants}
    for r in served:
        total[r.tenant] += _cost_until(r, times)
    return {t: Series(times, values) for t, values in total.items()}


def _cost_until(request: RequestResult, times: Array) -> Array:
    first = request.first_token or 0.0
    span = max((request.finished or first) - first, 1e-9)
    produced = np.clip((times - first) / span, 0.0, 1.0) * request.output_tokens
    return np.where(times >= first, request.prompt_tokens + 2.0 * produced, 0.0)
