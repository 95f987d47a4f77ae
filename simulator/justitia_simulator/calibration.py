"""Makes the coefficients of an engine's step time from measured steps and first tokens.

A step that prefills P prompt tokens, decodes n requests and reads K tokens of their KV is taken to last

    T = c_0 + c_p * P + c_a * A + c_d * n + c_kv * K + c_r * r

(the step time of the VTC artifact and of docs/design/tiered-justitia.md, with prompt tokens and decoding requests told
apart: a decoding request also costs sampling, detokenising and a chunk to send). A sums over the prompt tokens how
many of their own prompt each attends to, p^2 / 2 for a prompt of p tokens: attention, which a long prompt shows. r
counts the requests that begin in the step, and c_r is what each of them costs that others must wait for: the HTTP
server, a gateway, the client, as far as they take processors from the engine. Measured are

- decode steps of several batch sizes and contexts: c_0, c_d and c_kv;
- a lone prompt of p tokens, for several p: h + k * c_0 + c_p * p + c_a * p^2 / 2 + c_r, where h is a latency outside
  the engine that nobody else waits for, k = ceil(p / token_budget) are chunks, and each reads the KV of those before;
- N prompts of p tokens that come while n requests decode: from the first one's sending to the last one's first token
  the n saw S steps, which took S * (c_0 + c_d * n + c_kv * K) + N * (c_p * p + c_a * p^2 / 2 + c_r). The engine is
  never idle meanwhile, so that h does not matter, nor how fast a gateway lets the prompts in.

All seven are at least zero. Repeated measurements of one point count as their median, so that a stall of the client or
the engine does not; the fit is least squares of relative errors over the points. It is refused where the points cannot
tell the coefficients apart, and where its mean error exceeds `TOLERATED_ERROR`. Seconds and tokens; no I/O.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean, median

import numpy as np
from numpy.typing import NDArray

from justitia_simulator.occupancy import AdmissionRule
from justitia_simulator.profiles import EngineProfile, Front
from justitia_simulator.timing import LinearTiming
from justitia_vocabulary.units import Seconds, Tokens

TOLERATED_ERROR = 0.25
"""Mean relative error of the decode or of the prefill points beyond which no profile is made of a fit."""

LEAST_POINTS = 3
"""Different batch sizes, and different prompt lengths, that a fit needs."""


class CalibrationError(ValueError):
    """An engine cannot be measured, or a measurement supports no fit. One line: what is wrong and what to do."""


@dataclass(frozen=True, slots=True)
class DecodeSample:
    """Decode steps of `batch` requests, each reading `kv_tokens` in all, took `step` seconds on average."""

    batch: int
    kv_tokens: Tokens
    step: Seconds


@dataclass(frozen=True, slots=True)
class PrefillSample:
    """A lone prompt's first token came `first_token` after it was sent."""

    prompt_tokens: Tokens
    first_token: Seconds


@dataclass(frozen=True, slots=True)
class ArrivalSample:
    """While `batch` requests decoded and read `kv_tokens` a step, `prompts` of `prompt_tokens` each were sent at once.
    Until the last one's first token, `duration` later, each of the batch produced `steps` tokens.
    """

    batch: int
    kv_tokens: Tokens
    prompts: int
    prompt_tokens: Tokens
    steps: float
    duration: Seconds


@dataclass(frozen=True, slots=True)
class Residual:
    """A measured point beside what the fit says of it. `spread` is the relative half range of its repetitions."""

    point: str
    measured: Seconds
    fitted: Seconds
    spread: float

    @property
    def error(self) -> float:
        """Relative, positive where the fit is too slow."""
        return self.fitted / self.measured - 1.0


@dataclass(frozen=True, slots=True)
class StepFit:
    """Coefficients as the module's text has them, and how well they describe what was measured."""

    per_step: Seconds
    per_prefill_token: Seconds
    per_attended: Seconds
    per_decode: Seconds
    per_kv_token: Seconds
    per_request: Seconds
    latency: Seconds
    decode: tuple[Residual, ...]
    prefill: tuple[Residual, ...]
    arrivals: tuple[Residual, ...]

    @property
    def error(self) -> float:
        """Mean absolute relative error of the points of a kind, of the kind for which it is largest."""
        return max(fmean(abs(r.error) for r in kind) for kind in (self.decode, self.prefill, self.arrivals))

    @property
    def points(self) -> tuple[Residual, ...]:
        return (*self.decode, *self.prefill, *self.arrivals)

    @property
    def worst(self) -> Residual:
        return max(self.points, key=lambda r: abs(r.error))


@dataclass(frozen=True, slots=True)
class _Point:
    name: str
    row: tuple[float, ...]
    values: Sequence[Seconds]


def fit_steps(
    decode: Sequence[DecodeSample],
    prefill: Sequence[PrefillSample],
    arrivals: Sequence[ArrivalSample],
    token_budget: Tokens | None = None,
) -> StepFit:
    """The coefficients that describe these samples best. `token_budget` None: a prompt is prefilled whole.

    Raises CalibrationError where they do not determine them, or do not follow T.
    """
    _check_variety(decode, prefill, arrivals)
    decoding, lone = _decode_points(decode), _prefill_points(prefill, token_budget)
    points = [*decoding, *lone, *_arrival_points(arrivals)]
    measured = np.array([median(p.values) for p in points])
    rows = np.array([p.row for p in points])
    found = nonnegative_least_squares(rows / measured[:, None], np.ones(len(points)))
    residuals = tuple(
        Residual(p.name, float(m), float(f), (max(p.values) - min(p.values)) / 2 / float(m))
        for p, m, f in zip(points, measured, rows @ found, strict=True)
    )
    first, second = len(decoding), len(decoding) + len(lone)
    per_step, per_prefill_token, per_attended, per_decode, per_kv_token, per_request, latency = map(float, found)
    fit = StepFit(
        per_step,
        per_prefill_token,
        per_attended,
        per_decode,
        per_kv_token,
        per_request,
        latency,
        decode=residuals[:first],
        prefill=residuals[first:second],
        arrivals=residuals[second:],
    )
    _check_error(fit)
    return fit


def _check_variety(
    decode: Sequence[DecodeSample], prefill: Sequence[PrefillSample], arrivals: Sequence[ArrivalSample]
) -> None:
    if (
        min((*(s.step for s in decode), *(s.first_token for s in prefill), *(s.duration for s in arrivals)), default=1)
        <= 0
    ):
        raise CalibrationError("a step or first token took no time: the clock or the stream cannot be trusted")
    batches = {s.batch for s in decode}
    if len(batches) < LEAST_POINTS:
        raise CalibrationError(
            f"decode steps were measured at batch sizes {sorted(batches)}: a fit needs {LEAST_POINTS} different ones "
            "(raise --max-requests or --kv-tokens)"
        )
    lengths = {s.prompt_tokens for s in prefill}
    if len(lengths) < LEAST_POINTS:
        raise CalibrationError(
            f"first tokens were measured at prompts of {sorted(lengths)} tokens: a fit needs {LEAST_POINTS} different "
            "lengths (the engine's longest request or KV space is too small)"
        )
    if not arrivals:
        raise CalibrationError(
            "no prompts came while others decoded, so what a request costs these is not known: the engine's longest "
            "request or KV space is too small"
        )
    rows = np.array([(1.0, s.batch, s.kv_tokens) for s in decode])
    if np.linalg.matrix_rank(rows / rows.max(axis=0)) < rows.shape[1]:
        raise CalibrationError(
            "batch size and KV grew together, so their costs cannot be told apart: measure short and long contexts"
        )


def _check_error(fit: StepFit) -> None:
    if fit.error <= TOLERATED_ERROR:
        return
    spread = fmean(r.spread for r in fit.points)
    cause = (
        f"the same point varies by ±{spread:.0%}: repeat it on a quieter machine"
        if spread >= fit.error / 2
        else f"the same point varies by only ±{spread:.0%}: this engine's steps do not follow a linear step time"
    )
    worst = fit.worst
    raise CalibrationError(
        f"the fit is off by {fit.error:.0%} on average (by {worst.error:+.0%} at {worst.point}), "
        f"more than {TOLERATED_ERROR:.0%}; {cause}"
    )


def _decode_points(samples: Iterable[DecodeSample]) -> list[_Point]:
    values: defaultdict[tuple[int, Tokens], list[Seconds]] = defaultdict(list)
    for s in samples:
        values[s.batch, s.kv_tokens].append(s.step)
    return [
        _Point(f"{batch} decoding, {kv_tokens} KV tokens", _row(1, decoded=batch, read=kv_tokens), taken)
        for (batch, kv_tokens), taken in sorted(values.items())
    ]


def _prefill_points(samples: Iterable[PrefillSample], token_budget: Tokens | None) -> list[_Point]:
    values: defaultdict[Tokens, list[Seconds]] = defaultdict(list)
    for s in samples:
        values[s.prompt_tokens].append(s.first_token)
    points = []
    for tokens, taken in sorted(values.items()):
        chunks = 1 if token_budget is None else -(-tokens // token_budget)
        read = (token_budget or 0) * chunks * (chunks - 1) / 2
        points.append(
            _Point(f"first token of {tokens} prompt tokens", _row(chunks, (tokens,), read=read, lone=1), taken)
        )
    return points


def _arrival_points(samples: Iterable[ArrivalSample]) -> list[_Point]:
    alike: defaultdict[tuple[int, Tokens, int, Tokens], list[ArrivalSample]] = defaultdict(list)
    for s in samples:
        alike[s.batch, s.kv_tokens, s.prompts, s.prompt_tokens].append(s)
    points = []
    for (batch, kv_tokens, prompts, each), repeated in sorted(alike.items()):
        steps = median(s.steps for s in repeated)
        row = _row(steps, (each,) * prompts, decoded=batch * steps, read=kv_tokens * steps)
        points.append(_Point(f"{prompts} prompts of {each} beside {batch}", row, [s.duration for s in repeated]))
    return points


def _row(
    steps: float, prompts: Sequence[Tokens] = (), *, decoded: float = 0.0, read: float = 0.0, lone: int = 0
) -> tuple[float, ...]:
    """What each coefficient is multiplied by, in the order of :class:`StepFit`."""
    attended = sum(p * p for p in prompts) / 2
    return steps, sum(prompts), attended, decoded, read, len(prompts), lone


def build_profile(
    name: str,
    fit: StepFit,
    *,
    kv_tokens: Tokens,
    block_size: Tokens,
    token_budget: Tokens,
    max_requests: int,
) -> EngineProfile:
    """The engine behind a gateway that keeps the order as the sidecar does. The latency h is the gateway's."""
    timing = LinearTiming(fit.per_step, fit.per_prefill_token, fit.per_decode, fit.per_kv_token)
    return EngineProfile(
        name,
        timing,
        kv_tokens,
        block_size=block_size,
        admission=AdmissionRule.OPTIMISTIC,
        token_budget=token_budget,
        max_requests=max_requests,
        per_request=fit.per_request,
        per_attended=fit.per_attended,
        front=Front(fit.latency),
    )


def nonnegative_least_squares(rows: NDArray[np.float64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Minimise |rows @ c - values| over c >= 0, by trying every set of coefficients that may be positive."""
    width = rows.shape[1]
    best, least = np.zeros(width), float(values @ values)
    for size in range(1, width + 1):
        for free in combinations(range(width), size):
            columns = rows[:, free]
            solved, *_ = np.linalg.lstsq(columns, values, rcond=None)
            error = float(((columns @ solved - values) ** 2).sum())
            if solved.min() >= 0 and error < least:
                least = error
                best = np.zeros(width)
                best[list(free)] = solved
    return best
