"""Runs whose first prompts tell something of what they cost, and something else besides."""

import math
import random

from justitia_predictor.features import Features, FirstRequest
from justitia_predictor.sample import Sample

FILLER = ("the", "of", "and", "please", "report", "system", "number", "check", "value", "each", "result", "table")
TOPICS = {"glance": 0.0, "read": 1.0, "compare": 2.0, "survey": 3.0, "exhaust": 4.0}
"""Words that a prompt has one of, and what each adds to ln C."""


def written_run(rng: random.Random, noise: float) -> Sample:
    """ln C is 11, what the topic adds, and a normal error with the standard deviation `noise`."""
    topic, added = rng.choice(list(TOPICS.items()))
    words = [*rng.choices(FILLER, k=rng.randint(30, 200)), topic]
    rng.shuffle(words)
    text = " ".join(words).encode()
    features = Features.of(FirstRequest(text, len(text), len(words), 256, 1, 1))
    return Sample(features, math.exp(11 + added + rng.gauss(0, noise)))


def written_runs(count: int, noise: float, seed: int) -> list[Sample]:
    rng = random.Random(seed)
    return [written_run(rng, noise) for _ in range(count)]
