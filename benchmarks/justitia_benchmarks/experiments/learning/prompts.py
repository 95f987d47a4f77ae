"""First prompts of agent runs, written so that they tell of a run's cost what can be known when it begins.

No recorded prompts are at hand, only lengths. What a run's calls have in common and how many there are is settled
before anything is produced (`agents.py`); what is left of the variance of ln C is chance, which no prompt tells. A
prompt has as many words as its call has tokens, two thirds of them the class's own filler. The rest tells of three
things, the number of calls and the two traits, each by words of its fifth (of its number) among the class's runs.

`degree` is the probability with which each of the three is told truly; else words of another fifth stand there. With 1
a prompt tells all that can be known. With 0 only its length tells anything.
"""

import math
import random
from bisect import bisect
from dataclasses import dataclass

from justitia_predictor.features import Features, FirstRequest, cut
from justitia_predictor.sample import Sample
from justitia_simulator.agents import Caller, agent_run
from justitia_simulator.workload import WorkloadRun

MOST_WORDS = 2_000
FILLER = tuple(f"word{number}" for number in range(400))
FREQUENCY = tuple(1 / rank for rank in range(1, len(FILLER) + 1))
"""The probabilities of filler words: Zipf's law."""
TOLD_PART = 1 / 3
FIFTHS = (-0.8416, -0.2533, 0.2533, 0.8416)
"""Quantiles of the standard normal distribution."""


@dataclass(frozen=True)
class WrittenRun:
    """A run and what is known of it when its first request comes."""

    run: WorkloadRun
    features: Features

    @property
    def sample(self) -> Sample:
        return Sample(self.features, float(self.run.cost))


def past_runs(application: str, count: int, degree: float, seed: int) -> list[WrittenRun]:
    """Runs of a class that are over."""
    keys = [f"{seed}/past/{application}/{number}" for number in range(count)]
    runs = [agent_run(application, key, "t0", 0.0, random.Random(key)) for key in keys]
    return [written(run, key, degree) for run, key in zip(runs, keys, strict=True)]


def written(run: WorkloadRun, key: str, degree: float) -> WrittenRun:
    """`key` seeded the generator that the run was drawn with."""
    first = run.stages[0].requests[0]
    text = telling_text(run, key, degree, min(first.prompt_tokens, MOST_WORDS)).encode()
    request = FirstRequest(cut(text), len(text), first.prompt_tokens, None, 1, 1)
    return WrittenRun(run, Features.of(request))


def telling_text(run: WorkloadRun, key: str, degree: float, count: int) -> str:
    """So many words (3 at least), of which some tell of the run. `key` as above."""
    traits = Caller(random.Random(key), run.id)
    told = {
        "calls": str(len(run.requests)),
        "length": str(bisect(FIFTHS, traits.prompt_trait)),
        "answer": str(bisect(FIFTHS, traits.output_trait)),
    }
    rng = random.Random(f"{key}/prompt/{degree}")
    each = max(1, math.ceil(count * TOLD_PART / len(told)))
    words = rng.choices(FILLER, FREQUENCY, k=max(0, count - each * len(told)))
    for name, value in told.items():
        said = value if rng.random() < degree else f"{rng.randrange(5)}"
        words += [f"{run.application}{name}{said}"] * each
    rng.shuffle(words)
    return " ".join(words)


def filler_text(rng: random.Random, count: int) -> str:
    """So many words that tell of nothing."""
    return " ".join(rng.choices(FILLER, FREQUENCY, k=count))
