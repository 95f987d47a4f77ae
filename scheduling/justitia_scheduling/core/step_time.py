"""An engine's step time, learnt: T = c0 + c_tok * tokens processed + c_kv * KV tokens resident.

A host inside the engine sees steps. One in front of it does not, but the interval between two chunks of one request is
the duration of the steps that made them. `StepTimeFit` takes either and keeps a fit of least squared relative errors
that

- is non-negative: of the eight sets of coefficients that may be zero, the feasible one with least error;
- forgets exponentially, with a memory of `MEMORY` intervals;
- starts at the A10G decode and prefill constants, weighing as much as `PRIOR_WEIGHT` intervals each, so that it is
  sane before there is data and in directions that the load does not excite;
- is robust: an interval counts as at most `CLIP` times what the fit expects, so stalls hardly move it, while a
  slower engine is followed geometrically.

Units: seconds, tokens. No clock here.
"""

from collections.abc import Sequence
from itertools import combinations

from justitia_scheduling.core.cost import StepTime
from justitia_vocabulary.units import Seconds, Tokens

PRIOR = StepTime(per_step=0.019, per_token=0.00024, per_kv_token=0.000002)
PRIOR_WEIGHT = 1.0
MEMORY = 1000
CLIP = 4.0
REFIT_EVERY = 32

_TYPICAL = (1.0, 16.0, 4000.0)
"""Sizes of the three regressors, to weigh the prior's directions alike."""

_Vector = list[float]


class StepTimeFit:
    def __init__(self, prior: StepTime = PRIOR) -> None:
        self.step_time = prior
        self.observed = 0
        start = (prior.per_step, prior.per_token, prior.per_kv_token)
        self._prior = [c * s for c, s in zip(start, _TYPICAL, strict=True)]
        self._matrix = [[0.0] * 3 for _ in range(3)]
        self._moment = [0.0] * 3

    def observe(self, interval: Seconds, steps: int, tokens: Tokens, kv_tokens: Tokens) -> None:
        """`steps` steps took `interval` together, processed `tokens` together, with `kv_tokens` resident."""
        if interval <= 0 or steps < 1:
            return
        t = self.step_time
        expected = t.per_step * steps + t.per_token * tokens + t.per_kv_token * kv_tokens * steps
        seen = min(interval, CLIP * expected) / steps
        scale = steps / expected
        x = (scale, scale * tokens / steps / _TYPICAL[1], scale * kv_tokens / _TYPICAL[2])
        keep, seen = 1.0 - 1.0 / MEMORY, seen * scale
        for i, row in enumerate(self._matrix):
            x_i = x[i]
            row[:] = [row[0] * keep + x_i * x[0], row[1] * keep + x_i * x[1], row[2] * keep + x_i * x[2]]
        self._moment = [moment * keep + x_i * seen for moment, x_i in zip(self._moment, x, strict=True)]
        self.observed += 1
        if self.observed % REFIT_EVERY == 0:
            self._refit()

    def _refit(self) -> None:
        """The prior is a ridge around its coefficients, relative to the larger of prior and present fit."""
        present = (self.step_time.per_step, self.step_time.per_token, self.step_time.per_kv_token)
        sizes = [max(c * s, p) for c, s, p in zip(present, _TYPICAL, self._prior, strict=True)]
        ridge = [PRIOR_WEIGHT / size**2 for size in sizes]
        matrix = [[self._matrix[i][j] + (ridge[i] if i == j else 0.0) for j in range(3)] for i in range(3)]
        moment = [m + r * p for m, r, p in zip(self._moment, ridge, self._prior, strict=True)]
        c = nonnegative_least_squares(matrix, moment)
        self.step_time = StepTime(*(value / scale for value, scale in zip(c, _TYPICAL, strict=True)))


def nonnegative_least_squares(matrix: Sequence[Sequence[float]], moment: Sequence[float]) -> _Vector:
    """Minimise c'Ac - 2b'c over c >= 0 for a positive definite A, by trying every set of free coefficients."""
    n = len(moment)
    best, best_value = [0.0] * n, 0.0
    for size in range(1, n + 1):
        for free in combinations(range(n), size):
            solved = _solve([[matrix[i][j] for j in free] for i in free], [moment[i] for i in free])
            if min(solved) < 0:
                continue
            value = -sum(c * moment[i] for c, i in zip(solved, free, strict=True))
            if value < best_value:
                best_value = value
                best = [0.0] * n
                for c, i in zip(solved, free, strict=True):
                    best[i] = c
    return best


def _solve(matrix: list[_Vector], moment: _Vector) -> _Vector:
    """Gaussian elimination with partial pivoting."""
    n = len(moment)
    rows = [[*row, b] for row, b in zip(matrix, moment, strict=True)]
    for k in range(n):
        pivot = max(range(k, n), key=lambda r: abs(rows[r][k]))
        rows[k], rows[pivot] = rows[pivot], rows[k]
        for r in range(k + 1, n):
            factor = rows[r][k] / rows[k][k]
            for c in range(k, n + 1):
                rows[r][c] -= factor * rows[k][c]
    solution = [0.0] * n
    for k in reversed(range(n)):
        solution[k] = (rows[k][n] - sum(rows[k][c] * solution[c] for c in range(k + 1, n))) / rows[k][k]
    return solution
