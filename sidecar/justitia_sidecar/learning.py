"""What is learned from runs, and predicted of them, beside serving them.

At a run's first request a thread makes its features, and every model that the application's configuration names says
what the run will cost. The request waits for that `DEADLINE` at most, then goes on without. When the run is over, it
becomes a sample (`samples.py`), and a metric tells how far each model was off.

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
from typing import TypeVar

import structlog

from justitia_api.config import LearningConfig, PoolConfig
from justitia_predictor.artifact import Artifact
from justitia_predictor.features import Features, FirstRequest
from justitia_predictor.store import Store
from justitia_scheduling.model import KVTokenTime, Seconds
from justitia_sidecar.metrics import Metrics
from justitia_sidecar.runs import TrackedRun
from justitia_sidecar.samples import Finished, Samples

DEADLINE: Seconds = 0.005
MOST_WAITING = 256
"""First requests that the thread has not looked at yet: beyond that runs go unnoticed."""
SETTLE: Seconds = 2.0
"""After a run's end: the engine may tell of its last requests later than their answers."""
MOST_ENDED = 10_000
"""Runs that are over and not written yet."""
WRITE_SECONDS, FLUSH_SECONDS = 1.0, 60.0
"""Between two times that samples go to the disk, and to the store."""
BATCH = 500
"""Samples in one."""

T = TypeVar("T")

log = structlog.get_logger("justitia.sidecar")

Predicted = Mapping[str, KVTokenTime]
"""By version."""


@dataclass(slots=True, eq=False)
class Noticed:
    """A run's first request. A thread fills in `features`, packed, and what is `predicted`, maybe after the request
    has gone on.
    """

    learning: LearningConfig
    text: bytes | None
    features: bytes | None = None
    predicted: Predicted = field(default_factory=dict)

    @property
    def told(self) -> KVTokenTime | None:
        """What counts."""
        return None if self.learning.version is None else self.predicted.get(self.learning.version)


class Learning:
    """`samples` and `store` are None where nothing is kept, or nothing outlives the pod. `clock` is that of requests,
    `time_of_day` in seconds since 1970; `pod` tells the batches of pods apart.
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
    ) -> None:
        self._samples = samples
        self._store = store
        self._metrics = metrics
        self._clock = clock
        self._time_of_day = time_of_day
        self._pod = pod
        self._models: dict[tuple[str, str], Artifact] = {}
        self._wanted: set[tuple[str, str]] = set()
        self._names: frozenset[str] | None = None
        self._changed = False
        self._looking = ThreadPoolExecutor(1, "look")
        self._disk = ThreadPoolExecutor(1, "learn")
        self._looks: set[asyncio.Future[tuple[bytes, Predicted]]] = set()
        self._open: dict[TrackedRun, Noticed] = {}
        self._ended: deque[tuple[Seconds, TrackedRun, Noticed]] = deque(maxlen=MOST_ENDED)

    def configure(self, config: PoolConfig) -> None:
        """Applications that are not in it any more are forgotten with their samples."""
        learning = [a.learning for a in config.applications if a.learning is not None]
        self._names = frozenset(each.name for each in learning)
        self._wanted = {
            (each.name, version) for each in learning for version in (each.version, each.candidate) if version
        }
        for known in self._models.keys() - self._wanted:
            del self._models[known]
        self._changed = True

    # Requests.

    async def notice(self, learning: LearningConfig, request: FirstRequest) -> Noticed | None:
        """The first request of a run. None where there is no time to look at it."""
        if len(self._looks) >= MOST_WAITING:
            self._metrics.unnoticed_runs.inc()
            return None
        noticed = Noticed(learning, request.text if learning.keep_text else None)
        models = {
            version: model
            for version in (learning.version, learning.candidate)
            if version and (model := self._models.get((learning.name, version))) is not None
        }
        looking = asyncio.get_running_loop().run_in_executor(self._looking, self._look, request, models)
        self._looks.add(looking)
        looking.add_done_callback(lambda done: self._looked(noticed, done))
        await asyncio.wait({looking}, timeout=DEADLINE)
        return noticed

    def _look(self, request: FirstRequest, models: Mapping[str, Artifact]) -> tuple[bytes, Predicted]:
        """In the thread."""
        started = time.perf_counter()
        features = Features.of(request)
        predicted = {version: model.predict(features) for version, model in models.items()}
        self._metrics.prediction.observe(time.perf_counter() - started)
        return features.packed(), predicted

    def _looked(self, noticed: Noticed, done: "asyncio.Future[tuple[bytes, Predicted]]") -> None:
        self._looks.discard(done)
        if done.cancelled():
            return
        if (error := done.exception()) is not None:
            self._metrics.learning_failures.labels("predict").inc()
            log.warning("a run is not predicted", reason=repr(error))
            return
        noticed.features, noticed.predicted = done.result()

    def opened(self, run: TrackedRun, noticed: Noticed) -> None:
        """The run began with what was noticed, unless another request was faster."""
        self._open.setdefault(run, noticed)

    def ended(self, run: TrackedRun) -> None:
        noticed = self._open.pop(run, None)
        if noticed is not None:
            self._ended.append((self._clock(), run, noticed))

    # In the background.

    async def work_forever(self) -> None:
        """What happens each `WRITE_SECONDS`, and each `FLUSH_SECONDS`."""
        flushed = self._clock()
        while True:
            await asyncio.sleep(WRITE_SECONDS)
            await self.write(self._clock() - SETTLE)
            due = self._clock() - flushed >= FLUSH_SECONDS
            if due or self._changed:
                self._changed = False
                await self.load()
            if due:
                flushed = self._clock()
                await self.flush()

    async def write(self, before: Seconds) -> None:
        """Runs that were over before then go to the disk."""
        finished: list[Finished] = []
        while self._ended and self._ended[0][0] <= before:
            _, run, noticed = self._ended.popleft()
            self._compare(run, noticed)
            if noticed.features is not None and (run.cost > 0 or run.aborted):
                finished.append(self._finished(run, noticed, noticed.features))
        if finished and self._samples is not None:
            await self._attempt("write", partial(self._samples.add, finished))

    async def load(self) -> None:
        """Models that are wanted and not here."""
        if self._store is None:
            return
        for name, version in self._wanted - self._models.keys():
            model = await self._attempt("load", partial(self._store.artifact, name, version))
            if model is not None and (name, version) in self._wanted:
                self._models[name, version] = model
                log.info("predictor loaded", application=name, version=version, kind=model.about.kind)

    async def flush(self) -> None:
        """To the store goes what is not there yet; what is too old, or of nobody's any more, goes."""
        samples, names = self._samples, self._names
        if samples is None or names is None:
            return
        await self._attempt("write", partial(self._tidy, samples, names))
        if self._store is not None:
            for name in names:
                await self._attempt("store", partial(self._put, samples, self._store, name))

    async def close(self) -> None:
        """What is over is kept, and brought to the store where that can be."""
        if self._looks:
            await asyncio.wait(self._looks, timeout=SETTLE)
        await self.write(math.inf)
        await self.flush()
        self._looking.shutdown(wait=False, cancel_futures=True)
        self._disk.shutdown(wait=True)

    def _compare(self, run: TrackedRun, noticed: Noticed) -> None:
        """What was predicted with what came of it."""
        if run.aborted or run.cost <= 0:
            return
        application = run.application
        labels = (application.tenant, f"{application.namespace}/{application.name}")
        for role, version in (("version", noticed.learning.version), ("candidate", noticed.learning.candidate)):
            if version is not None and version in noticed.predicted:
                error = abs(math.log(noticed.predicted[version] / run.cost))
                self._metrics.prediction_error.labels(*labels, role).observe(error)

    def _finished(self, run: TrackedRun, noticed: Noticed, features: bytes) -> Finished:
        stages = tuple(after - before for before, after in pairwise([0.0, *run.stages[:-1], run.cost]))
        return Finished(
            noticed.learning.name, self._time_of_day(), run.aborted, run.cost, stages, features, noticed.text
        )

    def _tidy(self, samples: Samples, names: frozenset[str]) -> None:
        samples.prune(self._time_of_day())
        for name in samples.counts().keys() - names:
            samples.erase(name)

    def _put(self, samples: Samples, store: Store, name: str) -> None:
        while batch := samples.unflushed(name, BATCH):
            numbers, rows = zip(*batch, strict=True)
            # The database may be a new one under the pod's old name: time keeps the names of batches apart.
            store.put_samples(name, f"{self._time_of_day():020.6f}-{self._pod}", list(rows))
            samples.flushed(numbers)

    async def _attempt(self, what: str, work: Callable[[], T]) -> T | None:
        """In the thread of disk and store. None where it does not succeed: whatever the reason, requests are served."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._disk, work)
        except Exception as error:
            self._metrics.learning_failures.labels(what).inc()
            log.warning("learning fails", attempt=what, reason=str(error) or repr(error))
            return None
