"""Records runs that are over: each becomes a sample on the pod's disk, and the errors of its predictions are summed up.

Every settled run is compared once, whether or not it can be written. Aborted runs, and those that cost nothing, are
compared with nothing: what they cost says nothing about predictions.
"""

from collections.abc import Callable
from functools import partial

from justitia_sidecar.admission.runs import TrackedRun
from justitia_sidecar.learning.application_table import ApplicationTable
from justitia_sidecar.learning.attempts import Attempt, Attempts
from justitia_sidecar.learning.evidence import error_of
from justitia_sidecar.learning.finished import FinishedRun, finished_run
from justitia_sidecar.learning.lessons import Lessons
from justitia_sidecar.learning.prediction import RunPrediction
from justitia_sidecar.learning.samples import Samples
from justitia_sidecar.metrics import SidecarMetrics
from justitia_vocabulary.units import Seconds


class Recording:
    """`samples` is None where nothing is kept. `time_of_day` is in seconds since 1970."""

    def __init__(
        self,
        lessons: Lessons,
        applications: ApplicationTable,
        samples: Samples | None,
        attempts: Attempts,
        *,
        metrics: SidecarMetrics,
        time_of_day: Callable[[], Seconds],
    ) -> None:
        self._lessons = lessons
        self._applications = applications
        self._samples = samples
        self._attempts = attempts
        self._metrics = metrics
        self._time_of_day = time_of_day

    async def write(self, before: Seconds) -> None:
        """Record the runs that were over before then, on the clock of requests."""
        finished: list[FinishedRun] = []
        for run, prediction in self._lessons.settled(before):
            if not run.aborted and run.cost > 0:
                self._compare(run, prediction)
            if (sample := finished_run(run, prediction, self._time_of_day())) is not None:
                finished.append(sample)
        if finished and self._samples is not None:
            await self._attempts.run(
                Attempt.WRITE,
                partial(self._samples.add, finished),
                failed="samples not written to the pod's disk: these runs are not learned from",
            )

    def _compare(self, run: TrackedRun, prediction: RunPrediction) -> None:
        """Compare what was predicted with what the run cost."""
        learning, predicted = prediction.learning, prediction.by_version
        application = self._applications.learned(learning.name)
        if application is not None and prediction.begun is not None:
            application.evidence.end(prediction.begun, predicted, run.cost)
        labels = (run.application.tenant, run.application.id)
        for role, version in (("version", learning.version), ("candidate", learning.candidate)):
            if version is not None and version in predicted:
                error = error_of(predicted[version], run.cost)
                self._metrics.prediction_error.labels(*labels, role).observe(error)
