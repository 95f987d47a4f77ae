"""What is measured, and in which order.

First samples are kept of past runs. Then what contended runs are told is varied: the ways of one seed follow each
other, in an order that the seed draws, because the machine's speed drifts; ratios are taken inside a seed.
"""

import hashlib
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from justitia_benchmarks.reports.learning import ORDER

LOAD = 2.5
DEGREE = 1.0
"""To which prompts tell of a run: all that can be known when it begins."""


@dataclass(frozen=True)
class LearningPlan:
    """The size of the study. `past` runs of each class are served, `at_once` in a round. Models that learned from the
    first `counts` of them predict the last `unseen` ones. Models from the first `learned_from` then predict the
    contended runs: `runs` of all classes, before some are left out, for each seed.
    """

    past: int
    unseen: int
    counts: Sequence[int]
    learned_from: int
    runs: int
    seeds: int
    at_once: int = 10


WHOLE = LearningPlan(300, 100, (10, 20, 50, 100, 200), 100, runs=200, seeds=10)
QUICK = LearningPlan(61, 21, (10, 20, 40), 40, runs=150, seeds=2)


@dataclass(frozen=True)
class PastRuns:
    """They are served, and samples of them kept."""

    plan: LearningPlan
    text = "past runs"

    @property
    def digest(self) -> str:
        return _digest(self.plan.past, self.plan.at_once, DEGREE)


@dataclass(frozen=True)
class LearningCurve:
    """What is learned from those samples."""

    plan: LearningPlan
    text = "learning curve"

    @property
    def digest(self) -> str:
        return _digest(self.plan.past, self.plan.unseen, self.plan.counts, self.plan.learned_from, DEGREE)


@dataclass(frozen=True)
class Contended:
    """Runs of a seed, told what the prediction `told` says."""

    plan: LearningPlan
    seed: int
    told: str

    @property
    def text(self) -> str:
        return f"contended, seed {self.seed}: {self.told}"

    @property
    def digest(self) -> str:
        return _digest(self.plan.runs, self.plan.learned_from, DEGREE, LOAD, self.seed, self.told)


def contended_cells(plan: LearningPlan) -> Iterator[Contended]:
    """In the order of measuring."""
    for seed in range(1, plan.seeds + 1):
        ways = list(ORDER)
        random.Random(seed).shuffle(ways)
        yield from (Contended(plan, seed, told) for told in ways)


def _digest(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()
