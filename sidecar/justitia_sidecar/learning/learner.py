"""What is learned from runs, and predicted of them, beside serving them.

At a run's first request a thread makes its features, and every model that the application's configuration names says
what the run will cost. The request waits for that `DEADLINE` at most, then goes on without. When the run is over, it
becomes a sample (`samples.py`), which goes to the store (`flushing.py`), and how far each model was off is summed up
(`evidence.py`).

All of it may fail, by a full disk, a store that is away, a damaged model: then there is a metric, and less is learned.
Nothing here ever fails a request.
"""

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

import structlog

from justitia_api.config import LearningConfig, PoolConfig
from justitia_api.status import LearningStatus
from justitia_predictor.artifact import Artifact, ArtifactError
from justitia_predictor.features import Features, FirstRequest
from justitia_predictor.sample import MOST_SAMPLES
from justitia_predictor.shipped import shipped_artifact
from justitia_predictor.store import NotStoredError, Store, StoreError
from justitia_sidecar.admission.runs import TrackedRun
from justitia_sidecar.learning.evidence import Begun, Evidence, Predicted, error_of, in_canary
from justitia_sidecar.learning.flushing import Flushing
from justitia_sidecar.learning.model_table import ModelTable
from justitia_sidecar.learning.samples import RETENTION, FinishedRun, Samples
from justitia_sidecar.limits.held import HeldBytes, Holding, Kind
from justitia_sidecar.limits.memory import memory_limit, most_held
from justitia_sidecar.metrics import Metrics
from justitia_sidecar.request.recognition import application_id
from justitia_vocabulary.units import KVTokenTime, Seconds, TenantId

DEADLINE: Seconds = 0.005
MOST_WAITING = 256
"""First requests that the thread has not looked at yet: beyond that runs go unnoticed."""
SETTLE: Seconds = 2.0
"""After a run's end: the engine may tell of its last requests later than their answers."""
MOST_FEATURE_BYTES = 2**15
MOST_ENDED = 10_000
"""Runs that are over and not written yet."""
WRITE_SECONDS, FLUSH_SECONDS, LOOK_SECONDS = 1.0, 60.0, 3600.0
"""Between two times that samples go to the disk, and to the store, and that the store is looked at where none went."""
MOST_STORED = 2 * MOST_SAMPLES
"""Samples of an application in the store, by whole batches."""

STRANGERS_SECONDS: Seconds = 3600.0
"""Between two looks for what is nobody's. What is so at both is erased: a pod may be a configuration behind."""

T = TypeVar("T")

log = structlog.get_logger("justitia.sidecar")


@dataclass(slots=True, eq=False)
class RunPrediction:
    """A run's first request. A thread fills in `features`, packed, and what is `predicted`, maybe after the request
    has gone on. With `canary` the candidate's prediction counts, if there is one. `begun` is None where the
    application has just left the configuration.
    """

    learning: LearningConfig
    text: bytes | None
    canary: bool
    begun: Begun | None
    features: bytes | None = None
    predicted: Predicted = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Bytes that are kept until the run is over; of features that are not made yet, the most."""
        features = MOST_FEATURE_BYTES if self.features is None else len(self.features)
        return features + len(self.text or b"")

    @property
    def told(self) -> KVTokenTime | None:
        """What counts."""
        asked = (self.learning.candidate if self.canary else None, self.learning.version)
        return next((self.predicted[version] for version in asked if version and version in self.predicted), None)


@dataclass(slots=True)
class _Application:
    """`stored` samples were in the store when it was looked at, on the clock of requests."""

    evidence: Evidence = field(default_factory=Evidence)
    stored: int | None = None
    looked_at: Seconds = -math.inf


@dataclass(frozen=True, slots=True)
class _Failed:
    """An attempt in the thread of disk and store."""

    error: Exception

    @property
    def store_is_away(self) -> bool:
        return isinstance(self.error, StoreError) and not isinstance(self.error, NotStoredError)


class Learner:
    """`samples` and `store` are None where nothing is kept, or nothing outlives the pod. `clock` is that of requests,
    `time_of_day` in seconds since 1970; `pod` tells the batches of pods apart; `shipped` is a folder of models that
    came with an image.
    """

    def __init__(
        self,
        samples: Samples | None,
        store: Store | None,
        metrics: Metrics,
        clock: Callable[[], Seconds],
        time_of_day: Callable[[], Seconds],
        *,
        pod: str = "pod",
        shipped: Path | None = None,
        held: HeldBytes | None = None,
    ) -> None:
        self._samples = samples
        self._store = store
        self._shipped = shipped
        self._flushing = None if samples is None or store is None else Flushing(samples, store, pod)
        self._metrics = metrics
        self._clock = clock
        self._time_of_day = time_of_day
        self._models = ModelTable()
        self._applications: dict[str, _Application] | None = None
        self._known: frozenset[str] = frozenset()
        self._strangers: frozenset[str] = frozenset()
        self._changed = False
        self._looking = ThreadPoolExecutor(1, "look")
        self._disk = ThreadPoolExecutor(1, "learn")
        self._looks: dict[tuple[str, str], tuple[RunPrediction, asyncio.Future[tuple[bytes, Predicted]]]] = {}
        self.held = held or HeldBytes(most_held(memory_limit()))
        self._open: dict[TrackedRun, tuple[RunPrediction, Holding]] = {}
        self._ended: deque[tuple[Seconds, TrackedRun, RunPrediction, Holding]] = deque()

    def configure(self, config: PoolConfig) -> None:
        """Applications that are not in it any more are forgotten, those that are gone with their samples."""
        learning = [a.learning for a in config.applications if a.learning is not None]
        known = self._applications or {}
        self._applications = {each.name: known.get(each.name) or _Application() for each in learning}
        for each in learning:
            self._applications[each.name].evidence.configure(each)
        self._models.want(
            (each.name, version) for each in learning for version in (each.version, each.candidate) if version
        )
        self._known = frozenset(config.learned_from) | frozenset(self._applications)
        self._changed = True

    def status(self, config: PoolConfig) -> tuple[LearningStatus, ...]:
        """Of the configuration in force."""
        return tuple(
            self._status(application.namespace, application.name, application.learning)
            for application in config.applications
            if application.learning is not None
        )

    def _status(self, namespace: str, name: str, learning: LearningConfig) -> LearningStatus:
        assert self._applications is not None
        application = self._applications[learning.name]
        evidence = application.evidence
        return LearningStatus(
            namespace=namespace,
            name=name,
            samples=application.stored,
            version=self._models.status(learning.name, learning.version, evidence.of_version),
            candidate=self._models.status(learning.name, learning.candidate, evidence.of_candidate),
        )

    # Requests.

    async def notice(self, learning: LearningConfig, request: FirstRequest, run: str) -> RunPrediction | None:
        """The first request of the run with this id, or one that came beside it, and is not looked at then. None where
        there is no time to look at it.
        """
        if (beside := self._looks.get((learning.name, run))) is not None:
            noticed, looking = beside
            await asyncio.wait({looking}, timeout=DEADLINE)
            return noticed
        if len(self._looks) >= MOST_WAITING:
            self._metrics.unnoticed_runs.inc()
            return None
        application = (self._applications or {}).get(learning.name)
        noticed = RunPrediction(
            learning,
            request.text if learning.keep_text else None,
            in_canary(learning, run),
            None if application is None else application.evidence.begin(),
        )
        models = self._models.of(learning.name, (learning.version, learning.candidate))
        looking = asyncio.get_running_loop().run_in_executor(self._looking, self._look, request, models)
        self._looks[learning.name, run] = (noticed, looking)
        looking.add_done_callback(lambda done: self._looked(noticed, run, done))
        await asyncio.wait({looking}, timeout=DEADLINE)
        return noticed

    def _look(self, request: FirstRequest, models: Mapping[str, Artifact]) -> tuple[bytes, Predicted]:
        """In the thread."""
        started = time.perf_counter()
        features = Features.of(request)
        predicted: dict[str, KVTokenTime] = {}
        for version, model in models.items():
            try:
                predicted[version] = model.predict(features)
            except Exception as error:
                # One model's fault: the features are good, and so may the other one's prediction be.
                self._not_predicted(error)
        self._metrics.prediction.observe(time.perf_counter() - started)
        return features.packed, predicted

    def _not_predicted(self, error: BaseException) -> None:
        self._metrics.learning_failures.labels("predict").inc()
        log.warning("a run is not predicted", reason=repr(error))

    def _looked(self, noticed: RunPrediction, run: str, done: "asyncio.Future[tuple[bytes, Predicted]]") -> None:
        del self._looks[noticed.learning.name, run]
        if done.cancelled():
            return
        if (error := done.exception()) is not None:
            self._not_predicted(error)
            return
        noticed.features, noticed.predicted = done.result()

    def opened(self, run: TrackedRun, noticed: RunPrediction) -> None:
        """The run began with what was noticed, unless another request was faster. Nothing is learned of the run if
        there is no room for that, or what other tenants hold takes it.
        """
        if run in self._open:
            return
        holding = Holding(TenantId(run.application.tenant), Kind.LESSON, lambda: self._forget(run))
        self._open[run] = noticed, holding
        if not self.held.put(holding, noticed.size):
            self._forget(run)

    def ended(self, run: TrackedRun) -> None:
        if (opened := self._open.pop(run, None)) is not None:
            self.held.pin(opened[1])
            self._ended.append((self._clock(), run, *opened))
            if len(self._ended) > MOST_ENDED:
                self.held.put(self._ended.popleft()[-1], 0)

    def _forget(self, run: TrackedRun) -> None:
        del self._open[run]
        self._metrics.unnoticed_runs.inc()

    # In the background.

    async def work_forever(self) -> None:
        """What happens each `WRITE_SECONDS`, `FLUSH_SECONDS` and `STRANGERS_SECONDS`, and after the configuration has
        changed.
        """
        flushed = looked = self._clock()
        while True:
            await asyncio.sleep(WRITE_SECONDS)
            await self.write(self._clock() - SETTLE)
            due = self._clock() - flushed >= FLUSH_SECONDS
            if not due and not self._changed:
                continue
            self._changed = False
            await self.load()
            if due:
                flushed = self._clock()
                await self.flush()
            await self.look()
            if self._clock() - looked >= STRANGERS_SECONDS:
                looked = self._clock()
                await self.erase_strangers()

    async def write(self, before: Seconds) -> None:
        """Runs that were over before then go to the disk."""
        finished: list[FinishedRun] = []
        while self._ended and self._ended[0][0] <= before:
            _, run, noticed, holding = self._ended.popleft()
            self.held.put(holding, 0)
            self._compare(run, noticed)
            if noticed.features is not None and (run.cost > 0 or run.aborted):
                finished.append(self._finished(run, noticed, noticed.features))
        if finished and self._samples is not None:
            await self._attempt("write", partial(self._samples.add, finished))

    async def load(self) -> None:
        """Models that are wanted and not here. A store that is away is asked once."""
        away = "there is no store" if self._store is None else None
        for name, version in self._models.missing():
            if self._shipped is not None:
                brought = await self._attempt("load", partial(shipped_artifact, self._shipped, version))
                if isinstance(brought, Artifact):
                    self._loaded(name, version, brought)
                    continue
            if self._store is None or away is not None:
                self._models.not_asked_for((name, version), away or "")
                continue
            model = await self._attempt("load", partial(self._store.artifact, name, version))
            if isinstance(model, _Failed):
                reason = _reason(model.error)
                self._models.failed((name, version), reason, unusable=isinstance(model.error, ArtifactError))
                away = reason if model.store_is_away else None
            else:
                self._loaded(name, version, model)

    def _loaded(self, name: str, version: str, model: Artifact) -> None:
        self._models.loaded((name, version), model)
        log.info("predictor loaded", application=name, version=version, kind=model.about.kind)

    async def flush(self) -> None:
        """To the store goes what is not there yet, unless it is away. What is too old, or of nobody any more, goes."""
        if self._samples is None or self._applications is None:
            return
        await self._attempt("write", partial(self._tidy, self._samples, self._known))
        if self._flushing is None:
            return
        for name, application in list(self._applications.items()):
            while (put := await self._attempt("store", partial(self._flushing.put, name))) is True:
                application.looked_at = -math.inf
            if isinstance(put, _Failed) and put.store_is_away:
                self._put_last(name)
                return

    async def look(self) -> None:
        """How many samples the store has of an application that is new here, or had some brought, or has not been
        looked at for `LOOK_SECONDS`; what is too old or too much goes.
        """
        if self._store is None:
            return
        oldest = self._time_of_day() - RETENTION
        for name, application in list((self._applications or {}).items()):
            if self._clock() - application.looked_at < LOOK_SECONDS:
                continue
            count = await self._attempt("store", partial(self._store.tidy_samples, name, MOST_STORED, oldest))
            if not isinstance(count, _Failed):
                application.stored, application.looked_at = count, self._clock()
            elif count.store_is_away:
                self._put_last(name)
                return

    async def erase_strangers(self) -> None:
        """What was nobody's at the last look and is not now: of applications that were deleted."""
        if self._store is None or self._applications is None:
            return
        names = await self._attempt("store", self._store.applications)
        if isinstance(names, _Failed):
            return
        strangers = names - self._known
        for name in sorted(strangers & self._strangers):
            if not isinstance(await self._attempt("store", partial(self._store.erase, name)), _Failed):
                log.info("erased what was learned of an application that is gone", application=name)
        self._strangers = strangers

    def _put_last(self, name: str) -> None:
        """Maybe it is not the store: an application whose batches never get through keeps no others waiting."""
        if self._applications is not None and name in self._applications:
            self._applications[name] = self._applications.pop(name)

    async def close(self) -> None:
        """What is over is kept, and brought to the store where that can be."""
        if self._looks:
            await asyncio.wait([looking for _, looking in self._looks.values()], timeout=SETTLE)
        await self.write(math.inf)
        await self.flush()
        self._looking.shutdown(wait=False, cancel_futures=True)
        self._disk.shutdown(wait=False)

    def _compare(self, run: TrackedRun, noticed: RunPrediction) -> None:
        """What was predicted with what came of it."""
        if run.aborted or run.cost <= 0:
            return
        known = (self._applications or {}).get(noticed.learning.name)
        if known is not None and noticed.begun is not None:
            known.evidence.end(noticed.begun, noticed.predicted, run.cost)
        labels = (run.application.tenant, application_id(run.application))
        for role, version in (("version", noticed.learning.version), ("candidate", noticed.learning.candidate)):
            if version is not None and version in noticed.predicted:
                error = error_of(noticed.predicted[version], run.cost)
                self._metrics.prediction_error.labels(*labels, role).observe(error)

    def _finished(self, run: TrackedRun, noticed: RunPrediction, features: bytes) -> FinishedRun:
        stages = tuple(after - before for before, after in pairwise([0.0, *run.stages[:-1], run.cost]))
        return FinishedRun(
            noticed.learning.name, self._time_of_day(), run.aborted, run.cost, stages, features, noticed.text
        )

    def _tidy(self, samples: Samples, names: frozenset[str]) -> None:
        samples.prune(self._time_of_day())
        for name in samples.counts().keys() - names:
            samples.erase(name)

    async def _attempt(self, what: str, work: Callable[[], T]) -> T | _Failed:
        """In the thread of disk and store. Whatever the reason that it does not succeed: requests are served."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._disk, work)
        except Exception as error:
            self._metrics.learning_failures.labels(what).inc()
            log.warning("learning fails", attempt=what, reason=_reason(error))
            return _Failed(error)


def _reason(error: Exception) -> str:
    return str(error) or repr(error)
