"""A sidecar's learner, where it keeps what it learned from, and a clock that tests set."""

import json
import math
from dataclasses import dataclass, replace

from justitia_api.config import ApplicationConfig, LearningConfig, PoolConfig
from justitia_predictor.features import FirstRequest
from justitia_predictor.store import Store
from justitia_sidecar.learning.learner import Learner
from justitia_sidecar.learning.lessons import SETTLE
from justitia_sidecar.learning.prediction import RunPrediction
from justitia_sidecar.learning.samples import Samples
from justitia_sidecar.metrics import Metrics
from support.sidecar_client import BODY, pool
from support.written_runs import written_runs

NAME = "uid-of-a"
TIME_OF_DAY = 1.8e9
"""When the clock is at 0."""
WRITTEN = [replace(s, cost=s.cost * math.exp(-10)) for s in written_runs(40, noise=0.3, seed=1)]
"""ln C is about 1 and more."""
FIRST = FirstRequest(b"please survey the system", 24, 5, 256, 1, 1)


def learning_pool(generation: int = 1, **learning: object) -> PoolConfig:
    config = LearningConfig(name=NAME, **learning)  # type: ignore[arg-type]
    application = ApplicationConfig(namespace="ns", name="a", tenant="gold", learning=config)
    return pool(generation, applications=(application,))


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
    store: Store
    clock: Clock
    metrics: Metrics

    async def settle(self) -> None:
        self.clock.now += SETTLE
        await self.learner.recording.write(self.clock.now - SETTLE)

    async def flush(self) -> None:
        await self.learner.erasing.tidy_disk()
        await self.learner.flushing.flush()

    def failures(self, attempt: str) -> float:
        value = self.metrics.registry.get_sample_value("justitia_learning_failures_total", {"attempt": attempt})
        return value or 0.0


def request(run: str, *, ends: bool = False, **body: object) -> dict[str, object]:
    headers = {b"x-justitia-run": run.encode()} | ({b"x-justitia-run-end": b"true"} if ends else {})
    return {"headers": headers, "body": json.dumps(BODY | body).encode()}


async def predicted(learner: Learner, run: str = "r", **fields: object) -> RunPrediction:
    found = await learner.predicting.predict(LearningConfig(name=NAME, **fields), FIRST, run)  # type: ignore[arg-type]
    assert found is not None
    return found
