"""A sidecar's learner, where it keeps what it learned from, a clock that tests set, and what its parts are given."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from justitia_api.config import ApplicationConfig, LearningConfig, PoolConfig
from justitia_predictor.artifact import Artifact
from justitia_predictor.features import FirstRequest
from justitia_predictor.training import fitted
from justitia_sidecar.admission.runs import TrackedRun
from justitia_sidecar.learning.finished import FinishedRun
from justitia_sidecar.learning.learner import Learner
from justitia_sidecar.learning.lessons import SETTLE
from justitia_sidecar.learning.prediction import RunPrediction, run_prediction
from justitia_sidecar.learning.samples import Samples
from justitia_sidecar.metrics import SidecarMetrics
from justitia_vocabulary.units import RunId, TenantId
from support.misbehaving_store import MisbehavingStore
from support.sidecar_client import BODY, pool
from support.written_runs import written_runs

NAME = "uid-of-a"
TIME_OF_DAY = 1.8e9
"""When the clock is at 0."""
WRITTEN = [replace(s, cost=s.cost * math.exp(-10)) for s in written_runs(40, noise=0.3, seed=1)]
"""ln C is about 1 and more."""
FEATURES = WRITTEN[0].features.packed
FIRST = FirstRequest(b"please survey the system", 24, 5, 256, 1, 1)


def learning_pool(generation: int = 1, **learning: object) -> PoolConfig:
    return learning_pool_of(NAME, generation=generation, **learning)


def learning_pool_of(*names: str, generation: int = 1, **learning: object) -> PoolConfig:
    """A pool with an application for each of the names, which are those in the store. The first is ns/a, then ns/b."""
    applications = [
        ApplicationConfig(namespace="ns", name=chr(ord("a") + number), tenant="gold", learning=config)
        for number, config in enumerate(LearningConfig(name=name, **learning) for name in names)  # type: ignore[arg-type]
    ]
    return pool(generation, applications=tuple(applications))


def trained(samples: Sequence[object] = WRITTEN, name: str = NAME) -> Artifact:
    """A model that learned from these samples."""
    return fitted("linear", name, samples, seed=0)  # type: ignore[arg-type]


def finished(number: int = 0, name: str = NAME, *, at: float = TIME_OF_DAY) -> FinishedRun:
    sample = WRITTEN[number]
    return FinishedRun(name, at, False, sample.cost, (sample.cost,), sample.features.packed, None)


def tracked(number: int = 0, *, cost: float = 9.0, aborted: bool = False, tenant: str = "gold") -> TrackedRun:
    """A run that is over."""
    application = ApplicationConfig(namespace="ns", name="a", tenant=tenant)
    return TrackedRun(RunId(f"run-{number}"), TenantId(tenant), application, None, 0.0, 0.0, cost=cost, aborted=aborted)


def prediction(*, features: bytes | None = FEATURES, **fields: object) -> RunPrediction:
    """What is known of a run from its first request, whose features are made unless they are None."""
    found = run_prediction(LearningConfig(name=NAME, **fields), FIRST, "r", None)  # type: ignore[arg-type]
    found.features = features
    return found


@dataclass
class Clock:
    """`set_by`: by how much somebody has set the time of day since."""

    now: float = 100.0
    set_by: float = 0.0

    def __call__(self) -> float:
        return self.now

    def time_of_day(self) -> float:
        return TIME_OF_DAY + self.now + self.set_by


@dataclass
class Room:
    """What learns, and where it keeps what it learned from."""

    learner: Learner
    samples: Samples
    store: MisbehavingStore
    clock: Clock
    metrics: SidecarMetrics

    async def settle(self) -> None:
        self.clock.now += SETTLE
        await self.learner.recording.write(self.clock.now - SETTLE)

    async def flush(self) -> None:
        await self.learner.erasing.tidy_disk()
        await self.learner.flushing.flush()

    def failures(self, attempt: str) -> float:
        return self.counted("justitia_learning_failures_total", attempt=attempt)

    def counted(self, metric: str, **labels: str) -> float:
        return self.metrics.registry.get_sample_value(metric, labels) or 0.0


def request(run: str, *, ends: bool = False, **body: object) -> dict[str, object]:
    headers = {b"x-justitia-run": run.encode()} | ({b"x-justitia-run-end": b"true"} if ends else {})
    return {"headers": headers, "body": json.dumps(BODY | body).encode()}


async def predicted(learner: Learner, run: str = "r", **fields: object) -> RunPrediction:
    found = await learner.predicting.predict(LearningConfig(name=NAME, **fields), FIRST, run)  # type: ignore[arg-type]
    assert found is not None
    return found
