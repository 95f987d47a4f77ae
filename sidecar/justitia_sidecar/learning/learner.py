"""What is learned from runs, and predicted of them, beside serving them: the parts, put together.

At a run's first request its cost is predicted (`predicting.py`), and a lesson is kept of it (`lessons.py`). When the
run is over, it becomes a sample and its predictions are compared with its cost (`recording.py`). Samples go to the
store (`flushing.py`), models come from there (`loading.py`), and orphaned data is erased (`erasing.py`), all in the
background (`background.py`).

Any of it may fail: the disk is full, the store is away, a model is damaged. A metric counts that, and less is learned.
No request ever fails by it.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from justitia_api.config import PoolConfig
from justitia_predictor.store import Store
from justitia_sidecar.learning.application_table import ApplicationTable
from justitia_sidecar.learning.attempts import Attempts
from justitia_sidecar.learning.background import Background
from justitia_sidecar.learning.erasing import Erasing
from justitia_sidecar.learning.flushing import Flushing
from justitia_sidecar.learning.lessons import Lessons
from justitia_sidecar.learning.loading import Loading
from justitia_sidecar.learning.model_table import ModelTable
from justitia_sidecar.learning.predicting import DEADLINE, Predicting
from justitia_sidecar.learning.recording import Recording
from justitia_sidecar.learning.samples import Samples
from justitia_sidecar.limits.held import HeldBytes
from justitia_sidecar.limits.memory import memory_limit, most_held
from justitia_sidecar.metrics import SidecarMetrics
from justitia_vocabulary.units import Seconds


@dataclass(frozen=True, slots=True)
class Learner:
    """The parts. Whoever needs one takes that one."""

    held: HeldBytes
    applications: ApplicationTable
    models: ModelTable
    predicting: Predicting
    lessons: Lessons
    recording: Recording
    loading: Loading
    flushing: Flushing
    erasing: Erasing
    background: Background
    attempts: Attempts

    def configure(self, config: PoolConfig) -> None:
        """Put a configuration in effect: applications and models that it does not name are forgotten."""
        self.applications.configure(config)
        learning = [a.learning for a in config.applications if a.learning is not None]
        self.models.want(
            (each.name, version) for each in learning for version in (each.version, each.candidate) if version
        )
        self.background.configuration_changed()

    async def close(self) -> None:
        """Keep what is over, and bring it to the store where that can be."""
        await self.predicting.close()
        await self.background.finish()
        self.attempts.close()


def build_learner(
    samples: Samples | None,
    store: Store | None,
    metrics: SidecarMetrics,
    clock: Callable[[], Seconds],
    time_of_day: Callable[[], Seconds],
    *,
    pod: str = "pod",
    shipped: Path | None = None,
    deadline: Seconds = DEADLINE,
) -> Learner:
    """`samples` and `store` are None where nothing is kept, or nothing outlives the pod. `clock` is that of requests,
    `time_of_day` in seconds since 1970; `pod` tells the batches of pods apart; `shipped` is a folder of models that
    came with an image; `deadline` is how long a first request waits for its prediction.
    """
    held = HeldBytes(most_held(memory_limit()))
    applications, models = ApplicationTable(), ModelTable()
    attempts = Attempts(ThreadPoolExecutor(1, "learn"), metrics)
    lessons = Lessons(held, metrics.unnoticed_runs.inc)
    recording = Recording(lessons, applications, samples, attempts, metrics=metrics, time_of_day=time_of_day)
    loading = Loading(models, store, shipped, attempts)
    flushing = Flushing(applications, samples, store, attempts, pod=pod, clock=clock, time_of_day=time_of_day)
    erasing = Erasing(applications, samples, store, attempts, time_of_day)
    return Learner(
        held=held,
        applications=applications,
        models=models,
        predicting=Predicting(applications, models, metrics, ThreadPoolExecutor(1, "look"), deadline),
        lessons=lessons,
        recording=recording,
        loading=loading,
        flushing=flushing,
        erasing=erasing,
        background=Background(recording, loading, flushing, erasing, clock),
        attempts=attempts,
    )
