"""Runs work on the disk or the store in one thread, one piece at a time. A piece that fails is counted and logged.

Nothing is raised: requests are served even if work fails here.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

import structlog

from justitia_predictor.store import NotStoredError, StoreError
from justitia_sidecar.metrics import SidecarMetrics

T = TypeVar("T")

log = structlog.get_logger("justitia.sidecar")


class Attempt(StrEnum):
    """What is attempted: the label of the metric of failures."""

    OPEN = "open"
    """To open the samples file or the store."""
    PREDICT = "predict"
    """To look at a first request."""
    WRITE = "write"
    """To change the samples file."""
    LOAD = "load"
    """To load a model."""
    STORE = "store"
    """To bring samples to the store, count them or erase them there."""


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    """Why a piece of work failed."""

    error: Exception

    @property
    def reason(self) -> str:
        return str(self.error) or repr(self.error)

    @property
    def store_is_away(self) -> bool:
        """Whether the store would fail at any other work, too."""
        return isinstance(self.error, StoreError) and not isinstance(self.error, NotStoredError)


class Attempts:
    """Runs work in `thread`, which it owns. That must be one single thread: the connection to the disk and the order of
    batches rely on it.
    """

    def __init__(self, thread: Executor, metrics: SidecarMetrics) -> None:
        self._thread = thread
        self._metrics = metrics

    async def run(self, attempt: Attempt, work: Callable[[], T], *, failed: str, **concerns: str) -> T | FailedAttempt:
        """Run `work` and return its result. If it fails, log `failed`, which says what failed, and the objects that it
        `concerns`.
        """
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except Exception as error:
            failure = FailedAttempt(error)
            self._metrics.learning_failures.labels(attempt.value).inc()
            log.warning(failed, attempt=attempt.value, reason=failure.reason, **concerns)
            return failure

    def close(self) -> None:
        """End the thread without waiting: a volume that does not answer would never let it end."""
        self._thread.shutdown(wait=False)
