"""Runs served on a real vLLM with our scheduler inside: behind the real sidecar, which keeps samples of them, and told
directly what a prediction says of each.
"""

import asyncio
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from justitia_benchmarks.engine.measure import direct, figures, replay_told
from justitia_benchmarks.engine.servers import ARGUMENTS, KEYS, MODEL, RunningPool, documents, running_pool, telling
from justitia_benchmarks.engine.workload import KV_TOKENS, NAMESPACE, WEIGHTS
from justitia_benchmarks.engine_learning.workload import LONGEST_CONTEXT, SERVED, TENANT, TellingRun, application_of
from justitia_cli.local.launch import LocalModel
from justitia_cli.local.pool import Progress
from justitia_cli.replay import Target, replay
from justitia_cli.runtime import EngineRuntime
from justitia_predictor.sample import MOST_SAMPLES, Sample
from justitia_predictor.store import Store
from justitia_simulator.prediction import TRUE, PredictionSource, Told
from justitia_simulator.records import PolicyResults
from justitia_vocabulary.units import ApplicationId, RunId, Seconds

POLICY, COST_MODEL = "tiered-justitia", "engine-time"
Samples = Mapping[ApplicationId, Sequence[Sample]]


class LearningBench:
    """A running pool whose sidecar keeps what it learns in the folder `kept`, which is wiped between two uses."""

    def __init__(self, running: RunningPool, kept: Path) -> None:
        self._running = running
        self._kept = kept

    def serve_past(self, rounds: Iterable[Sequence[TellingRun]], store: Path) -> None:
        """One round after the other through a new sidecar. When it has ended, samples of all runs are in the folder
        `store`.
        """
        pool = self._running.pool
        pool.stop_sidecar()
        for folder in (self._kept, store):
            shutil.rmtree(folder, ignore_errors=True)
        self._kept.mkdir()
        pool.start_sidecar()
        for runs in rounds:
            target = Target(f"{pool.base_url}/v1", model=MODEL, api_keys=KEYS)
            check(runs, asyncio.run(replay([each.run for each in runs], writing(target, runs))))
        pool.stop_sidecar()
        shutil.copytree(self._kept / "store", store)

    def samples(self, store: Path) -> Samples:
        """Samples by application, in the order in which its runs were over."""
        kept, found = Store(f"file://{store}"), {}
        for application in self._running.pool.config.applications:
            assert application.learning is not None
            name = ApplicationId(f"{NAMESPACE}/{application.name}")
            found[name], _ = kept.samples(application.learning.name, MOST_SAMPLES)
        return found

    def complete(self, runs: Sequence[TellingRun], prediction: PredictionSource) -> dict[str, Any]:
        """Figures of the runs, each told what `prediction` says of it, and what that was."""
        plain = [each.run for each in runs]
        told = prediction.tell(plain)
        self._running.pool.stop_sidecar()
        results = asyncio.run(self._tell(runs, told))
        check(runs, results)
        return {**figures(results, plain), "told": [told[run.id].cost for run in plain]}

    async def _tell(self, runs: Sequence[TellingRun], told: Mapping[RunId, Told]) -> PolicyResults:
        async with telling(self._running.socket) as teller:
            await teller.configure(POLICY, COST_MODEL, WEIGHTS)
            target = writing(direct(self._running, cell=0), runs)
            return await replay_told(teller, [each.run for each in runs], target, told)

    def full_step(self, runs: Sequence[TellingRun]) -> Seconds:
        """In which the engine, with all the work that it can take, delivers as much as its KV space holds."""
        seconds: Seconds = self.complete(runs, TRUE)["seconds"]
        return KV_TOKENS * seconds / sum(each.run.cost for each in runs)


@contextmanager
def learning_bench(directory: Path, runtime: EngineRuntime, model: Path, progress: Progress) -> Iterator[LearningBench]:
    """No prompt is found in the engine's cache: costs are those of the runs."""
    kept = directory / "kept"
    kept.mkdir()
    with running_pool(
        documents("Engine", "TieredJustitia", {application_of(c): TENANT for c in SERVED}, learning=True),
        directory / "pool",
        runtime,
        LocalModel(str(model), True),
        progress,
        arguments=(*ARGUMENTS, f"--max-model-len={LONGEST_CONTEXT}", "--no-enable-prefix-caching"),
        sidecar_environment={
            "JUSTITIA_SAMPLES_FILE": str(kept / "samples.sqlite"),
            "JUSTITIA_STORE_URL": f"file://{kept / 'store'}",
        },
    ) as running:
        yield LearningBench(running, kept)


def writing(target: Target, runs: Sequence[TellingRun]) -> Target:
    """The same, with these runs' prompts."""
    by_id = {each.run.id: each for each in runs}
    return replace(target, write=lambda run, number: by_id[run.id].body(number))


def check(runs: Sequence[TellingRun], results: PolicyResults) -> None:
    """Raises RuntimeError where an answer is not as long as it should be."""
    produced: dict[str, list[int]] = {}
    for request in results.requests:
        produced.setdefault(request.run, []).append(request.output_tokens)
    for each in runs:
        wanted = [request.output_tokens for request in each.run.requests]
        if sorted(produced.get(each.run.id, [])) != sorted(wanted):
            raise RuntimeError(f"run {each.run.id}: answers of {produced.get(each.run.id)} tokens instead of {wanted}")
