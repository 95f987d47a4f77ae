"""Decides how long a run's first request waits for its prediction, and which first requests are not looked at.

A thread looks at one first request after the other (`prediction.py`). The request waits for that until the deadline,
then goes on without; a look that comes later still counts for the run's sample. Requests that begin one run together
are looked at once. Beyond `MOST_WAITING` first requests that the thread has not looked at, runs go unnoticed. Nothing
that fails here fails a request.
"""

import asyncio
import time
from collections.abc import Mapping
from concurrent.futures import Executor

import structlog

from justitia_api.config import LearningConfig
from justitia_predictor.artifact import Artifact
from justitia_predictor.features import FirstRequest
from justitia_sidecar.learning.application_table import ApplicationTable
from justitia_sidecar.learning.attempts import Attempt
from justitia_sidecar.learning.model_table import ModelTable
from justitia_sidecar.learning.prediction import FirstLook, RunPrediction, look_at, run_prediction
from justitia_sidecar.metrics import SidecarMetrics
from justitia_vocabulary.units import Seconds

DEADLINE: Seconds = 0.005
MOST_WAITING = 256
"""The most first requests that wait for the thread."""
LAST_LOOKS: Seconds = 2.0
"""The time for the looks that are under way when the pod ends."""

log = structlog.get_logger("justitia.sidecar")


class Predicting:
    """Looks at first requests in `thread`, which it owns."""

    def __init__(
        self,
        applications: ApplicationTable,
        models: ModelTable,
        metrics: SidecarMetrics,
        thread: Executor,
        deadline: Seconds = DEADLINE,
    ) -> None:
        self._applications = applications
        self._models = models
        self._metrics = metrics
        self._thread = thread
        self.deadline = deadline
        self._looks: dict[tuple[str, str], tuple[RunPrediction, asyncio.Future[FirstLook]]] = {}

    async def predict(self, learning: LearningConfig, request: FirstRequest, run: str) -> RunPrediction | None:
        """What is known of the run with this id, by its first request or one that came beside it. None where there is
        no time to look at the request.
        """
        if (beside := self._looks.get((learning.name, run))) is not None:
            prediction, looking = beside
        elif len(self._looks) >= MOST_WAITING:
            self._metrics.unnoticed_runs.inc()
            return None
        else:
            prediction, looking = self._begin(learning, request, run)
        await asyncio.wait({looking}, timeout=self.deadline)
        return prediction

    async def close(self) -> None:
        """Complete the looks that are under way, for samples."""
        if self._looks:
            await asyncio.wait([looking for _, looking in self._looks.values()], timeout=LAST_LOOKS)
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _begin(
        self, learning: LearningConfig, request: FirstRequest, run: str
    ) -> tuple[RunPrediction, "asyncio.Future[FirstLook]"]:
        application = self._applications.learned(learning.name)
        prediction = run_prediction(
            learning, request, run, None if application is None else application.evidence.begin()
        )
        models = self._models.loaded_of(learning.name, (learning.version, learning.candidate))
        looking = asyncio.get_running_loop().run_in_executor(self._thread, self._timed_look, request, models)
        self._looks[learning.name, run] = prediction, looking
        looking.add_done_callback(lambda done: self._looked(prediction, run, done))
        return prediction, looking

    def _timed_look(self, request: FirstRequest, models: Mapping[str, Artifact]) -> FirstLook:
        """Look at a first request, in the thread, and measure how long that takes."""
        started = time.perf_counter()
        look = look_at(request, models)
        self._metrics.prediction.observe(time.perf_counter() - started)
        return look

    def _looked(self, prediction: RunPrediction, run: str, done: "asyncio.Future[FirstLook]") -> None:
        del self._looks[prediction.learning.name, run]
        if done.cancelled():
            return
        if (error := done.exception()) is not None:
            self._failed(error, "first request not read: its run becomes no sample", prediction)
            return
        look = done.result()
        prediction.complete(look)
        for each in look.errors:
            self._failed(each, "model failed to predict a run", prediction)

    def _failed(self, error: BaseException, failed: str, prediction: RunPrediction) -> None:
        self._metrics.learning_failures.labels(Attempt.PREDICT.value).inc()
        log.warning(failed, application=prediction.learning.name, reason=repr(error))
