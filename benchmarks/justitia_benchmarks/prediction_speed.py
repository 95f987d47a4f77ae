"""How long a run's first request waits for its prediction, by kind of model and length of the text.

`python -m justitia_benchmarks.prediction_speed` (or `make benchmark`) has a sidecar's `Predicting` look at first
requests, one after the other, each with two models of the kind: a version in effect and its candidate. Texts are drawn
from 5,000 words, so that they have about as many different terms as texts of their length can. Timed is the whole wait
of the request on the wall clock: the hand-over to the thread and back, features, and both predictions. A request waits
for 5 ms at most; then it goes on *without* one.
"""

import asyncio
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import numpy as np
import typer
from rich.progress import track

from justitia_api.config import ApplicationConfig, LearningConfig, PoolConfig
from justitia_benchmarks.document import table
from justitia_benchmarks.speed import machine, publish
from justitia_cli.console import errors, mistakes
from justitia_predictor.artifact import digest
from justitia_predictor.features import Features, FirstRequest, cut
from justitia_predictor.models import Linear, Network, Trees
from justitia_predictor.sample import Sample
from justitia_predictor.training import fitted
from justitia_sidecar.learning.learner import build_learner
from justitia_sidecar.metrics import SidecarMetrics

KINDS = (Linear.kind, Network.kind, Trees.kind)
KIBIBYTES = (1, 4, 16, 256)
WORDS = [f"word{number}" for number in range(5_000)]
LEARNED_FROM = 100
NAME = "measured"


@dataclass(frozen=True)
class Waits:
    """Milliseconds that requests with one length of text waited, and how many of them for nothing."""

    kind: str
    kibibytes: int
    times: Sequence[float]
    without: int


def first_request(kibibytes: int, rng: random.Random) -> FirstRequest:
    text = " ".join(rng.choices(WORDS, k=kibibytes * 2**10 // 8)).encode()[: kibibytes * 2**10]
    return FirstRequest(cut(text), len(text), len(text) // 4, 256, 1, 1)


def artifacts(kind: str, seed: int) -> list[bytes]:
    """A version and its candidate, learned from texts of all lengths."""
    rng = random.Random(seed)
    samples = [
        Sample(Features.of(first_request(KIBIBYTES[number % len(KIBIBYTES)], rng)), rng.lognormvariate(11, 1))
        for number in range(LEARNED_FROM + 1)
    ]
    return [fitted(kind, NAME, part, seed).to_bytes() for part in (samples[:-1], samples[1:])]


async def measure(kind: str, requests: int, seed: int) -> list[Waits]:
    """Times of one kind of model, by length of text. A tenth of the requests come before, as warm-up."""
    rng = random.Random(seed)
    with TemporaryDirectory() as folder:
        models = artifacts(kind, seed)
        versions = [digest(model) for model in models]
        for version, model in zip(versions, models, strict=True):
            (Path(folder) / version).write_bytes(model)
        config = LearningConfig(name=NAME, version=versions[0], candidate=versions[1])
        learner = build_learner(None, None, SidecarMetrics(), time.monotonic, time.time, shipped=Path(folder))
        application = ApplicationConfig(namespace="measured", name="measured", tenant="measured", learning=config)
        learner.configure(
            PoolConfig(generation=1, namespace="measured", name="measured", model="m", applications=(application,))
        )
        await learner.loading.load()
        found = []
        for kibibytes in KIBIBYTES:
            times, without = [], 0
            for number in range(-(requests // 10), requests):
                request = first_request(kibibytes, rng)
                started = time.perf_counter()
                prediction = await learner.predicting.predict(config, request, f"{kibibytes}/{number}")
                if number >= 0:
                    times.append(1000 * (time.perf_counter() - started))
                    without += prediction is None or prediction.predicted_cost is None
            found.append(Waits(kind, kibibytes, times, without))
        await learner.close()
    return found


def document(waits: Sequence[Waits]) -> str:
    """The table, in Markdown."""
    lengths = sorted({w.kibibytes for w in waits})
    by_cell = {(w.kind, w.kibibytes): w for w in waits}
    kinds = dict.fromkeys(w.kind for w in waits)
    parts = [
        "# Wait for a prediction",
        "Written by `make benchmark`; `benchmarks/justitia_benchmarks/prediction_speed.py` says what is timed. "
        "Milliseconds of the wall clock that a run's first request waits for two models: median (P99) of "
        f"{len(waits[0].times):,} requests, and the share that goes on without.",
        machine(),
        table(
            ["kind", *(f"{n} KiB of text" for n in lengths)],
            [[kind, *(_cell(by_cell[kind, n]) for n in lengths)] for kind in kinds],
        ),
    ]
    return "\n\n".join(parts) + "\n"


def _cell(waits: Waits) -> str:
    middle, p99 = np.percentile(waits.times, (50, 99))
    return f"{middle:.2f} ({p99:.2f}), {100 * waits.without / len(waits.times):.2g} %"


def benchmark(
    *,
    requests: Annotated[int, typer.Option(min=10, help="First requests for each kind and length")] = 2000,
    out: Annotated[Path | None, typer.Option(help="Markdown file for the table")] = None,
) -> None:
    """Measure how long first requests wait for a prediction."""
    with mistakes():
        waits = [
            each
            for kind in track(KINDS, "predicting", console=errors, transient=True)
            for each in asyncio.run(measure(kind, requests, seed=1))
        ]
        publish(document(waits), out)


if __name__ == "__main__":
    typer.run(benchmark)
