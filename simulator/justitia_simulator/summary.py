"""What a policy's results come to. Pure functions; definitions:

- JCT: a run's arrival to the last token of its last request, tool time included; `jct_net_of_tools` without it.
- TTFT: ready to first token. TTLT: ready to last token. TPOT: first to last token, per token after the first.
- Percentiles are linear between closest ranks. The largest decile is the tenth of the finished runs with most cost.
- A tenant's `service` is what it was charged by the end, in `service_unit`; where no charges were seen it is p + 2d
  weighted tokens of what was processed. `share` is its part of all tenants' service.
- `fairness`: see :mod:`justitia_simulator.fairness`, in weighted tokens p + 2d divided by weight.
- `throughput`: p + d tokens, and requests, per second from the first arrival to the last token.

Unfinished requests and runs are counted and left out of the distributions.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from justitia_simulator.fairness import Served, service_difference
from justitia_simulator.records import FINISHED, PolicyResults, RequestResult, RunResult
from justitia_vocabulary.units import Seconds, TenantId

PERCENTILES = (50, 90, 95, 99)
WEIGHTED_TOKENS = "weighted tokens"


def summarise(results: PolicyResults) -> dict[str, object]:
    """The policy's entry of `summary.json`."""
    done = [r for r in results.requests if r.status == FINISHED]
    runs = [r for r in results.runs if r.jct is not None]
    tools = tool_time(results.requests)
    return {
        "runs": len(results.runs),
        "runs_finished": len(runs),
        "requests": len(results.requests),
        "requests_finished": len(done),
        "preemptions": sum(r.preemptions for r in results.requests),
        "jct": distribution(_jct(runs)),
        "jct_net_of_tools": distribution(j - tools.get(r.run, 0.0) for r, j in zip(runs, _jct(runs), strict=True)),
        "jct_largest_decile": distribution(_jct(largest_decile(runs))),
        "ttft": distribution(ttft(done)),
        "ttlt": distribution(ttlt(done)),
        "tpot": distribution(tpot(done)),
        "throughput": throughput(done),
        "service_unit": service_unit(results),
        "tenants": _tenants(results, done, runs),
        "fairness": _fairness(done, results.weights),
        "conditions": dict(results.conditions),
    }


def distribution(values: Iterable[float]) -> dict[str, float] | None:
    """Mean, percentiles and maximum; None if there are no values."""
    array = np.fromiter(values, dtype=float)
    if not array.size:
        return None
    points = np.percentile(array, PERCENTILES)
    return {
        "mean": float(array.mean()),
        **{f"p{p}": float(v) for p, v in zip(PERCENTILES, points, strict=True)},
        "max": float(array.max()),
    }


def ttft(requests: Iterable[RequestResult]) -> list[Seconds]:
    return [r.first_token - r.ready for r in requests if r.first_token is not None]


def ttlt(requests: Iterable[RequestResult]) -> list[Seconds]:
    return [r.finished - r.ready for r in requests if r.finished is not None]


def tpot(requests: Iterable[RequestResult]) -> list[Seconds]:
    return [
        (r.finished - r.first_token) / (r.output_tokens - 1)
        for r in requests
        if r.finished is not None and r.first_token is not None and r.output_tokens > 1
    ]


def largest_decile(runs: Sequence[RunResult]) -> list[RunResult]:
    """The tenth of the runs with the largest cost, at least one if there are any."""
    return sorted(runs, key=lambda r: (-r.cost, r.run))[: math.ceil(len(runs) / 10)]


def tool_time(requests: Iterable[RequestResult]) -> dict[str, Seconds]:
    """Per run the time that it waited for its tools: before each stage, from the end of the stage before."""
    stages: dict[str, dict[int, list[RequestResult]]] = {}
    for request in requests:
        stages.setdefault(request.run, {}).setdefault(request.stage, []).append(request)
    total: dict[str, Seconds] = {}
    for run, by_stage in stages.items():
        before = next(iter(by_stage.values()))[0].arrival
        waited = 0.0
        for _, requests_of_stage in sorted(by_stage.items()):
            waited += requests_of_stage[0].ready - before
            before = max((r.finished for r in requests_of_stage if r.finished is not None), default=before)
        total[run] = waited
    return total


def throughput(requests: Sequence[RequestResult]) -> dict[str, float] | None:
    """Tokens (p + d) and requests per second over the time from first arrival to last token."""
    ends = [r.finished for r in requests if r.finished is not None]
    span = max(ends, default=0.0) - min((r.arrival for r in requests), default=0.0)
    if span <= 0:
        return None
    tokens = sum(r.prompt_tokens + r.output_tokens for r in requests)
    return {"tokens_per_second": tokens / span, "requests_per_second": len(requests) / span}


def service_unit(results: PolicyResults) -> str:
    return results.service_unit if results.service else WEIGHTED_TOKENS


def final_service(results: PolicyResults) -> dict[str, float]:
    """What each tenant was charged by the end."""
    service = dict.fromkeys(sorted({r.tenant for r in results.requests}), 0.0)
    if results.service:
        for sample in results.service:
            service[sample.tenant] = sample.service
    else:
        for r in results.requests:
            if r.first_token is not None:
                service[r.tenant] += r.prompt_tokens + 2.0 * r.output_tokens
    return service


def _jct(runs: Iterable[RunResult]) -> list[Seconds]:
    return [r.jct for r in runs if r.jct is not None]


def _tenants(results: PolicyResults, done: Sequence[RequestResult], runs: Sequence[RunResult]) -> dict[str, object]:
    service = final_service(results)
    total = sum(service.values())
    return {
        tenant: {
            "weight": results.weights.get(tenant, 1.0),
            "service": amount,
            "share": amount / total if total else 0.0,
            "runs_finished": sum(r.tenant == tenant for r in runs),
            "requests_finished": sum(r.tenant == tenant for r in done),
            "jct": distribution(_jct(r for r in runs if r.tenant == tenant)),
            "ttft": distribution(ttft(r for r in done if r.tenant == tenant)),
        }
        for tenant, amount in service.items()
    }


def _fairness(done: Sequence[RequestResult], weights: Mapping[str, float]) -> dict[str, float] | None:
    horizon = max((r.ready for r in done), default=0.0)
    if horizon <= 0:
        return None
    served = [
        Served(TenantId(r.tenant), r.ready, r.first_token, r.finished, r.prompt_tokens, r.output_tokens)
        for r in done
        if r.first_token is not None and r.finished is not None
    ]
    figures = service_difference(served, horizon, {TenantId(t): w for t, w in weights.items()})
    return {
        "horizon_seconds": horizon,
        "maximum": figures.maximum,
        "average": figures.average,
        "variance": figures.variance,
    }
