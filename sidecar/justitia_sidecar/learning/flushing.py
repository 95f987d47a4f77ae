"""Brings samples from the pod's disk to the store, in batches, and counts what the store has.

A store that gives no answer may have taken a batch. The next attempt is with the same samples under the same name, so
that they are there once. The applications are asked about in turn (`application_table.py`), and a store that is away
ends the round.
"""

from collections.abc import Callable, Sequence
from functools import partial

from justitia_predictor.sample import MOST_SAMPLES, Sample
from justitia_predictor.store import Store
from justitia_sidecar.learning.application_table import ApplicationTable
from justitia_sidecar.learning.attempts import Attempt, Attempts, FailedAttempt
from justitia_sidecar.learning.samples import RETENTION, Samples
from justitia_vocabulary.units import Seconds

BATCH = 500
"""The most samples in a batch."""
MOST_STORED = 2 * MOST_SAMPLES
"""The most samples of an application in the store, by whole batches."""

Numbered = tuple[int, Sample]
"""A sample and its number on the pod's disk."""


def next_batch(unflushed: Sequence[Numbered], tried: int | None) -> Sequence[Numbered]:
    """What goes to the store next, among the samples that are not there. After an attempt without an answer, whose last
    sample had the number `tried`, these are its samples, as far as they are still on the disk; else all.
    """
    if tried is None:
        return unflushed
    return [(number, sample) for number, sample in unflushed if number <= tried] or unflushed


class Batches:
    """Puts batches into the store. Blocks: it belongs to the thread of disk and store. `pod` tells the batches of pods
    apart.
    """

    def __init__(self, samples: Samples, store: Store, pod: str) -> None:
        self._samples = samples
        self._store = store
        self._pod = pod
        self._tried: dict[str, int] = {}

    def put(self, application: str) -> bool:
        """Put one batch. False: there is nothing to put. Raises StoreError and SamplesError."""
        batch = next_batch(self._samples.unflushed(application, BATCH), self._tried.get(application))
        if not batch:
            return False
        numbers, samples = zip(*batch, strict=True)
        self._tried[application] = numbers[-1]
        # A database may be a new one under the pod's old name: time tells its batches from those of the one before.
        at = max(sample.finished for sample in samples)
        self._store.put_samples(application, at, f"{self._pod}-{numbers[-1]}", list(samples))
        del self._tried[application]
        self._samples.flushed(numbers)
        return True


class Flushing:
    """`samples` and `store` are None where nothing is kept, or nothing outlives the pod. `clock` is that of requests,
    `time_of_day` in seconds since 1970.
    """

    def __init__(
        self,
        applications: ApplicationTable,
        samples: Samples | None,
        store: Store | None,
        attempts: Attempts,
        *,
        pod: str,
        clock: Callable[[], Seconds],
        time_of_day: Callable[[], Seconds],
    ) -> None:
        self._applications = applications
        self._store = store
        self._batches = None if samples is None or store is None else Batches(samples, store, pod)
        self._attempts = attempts
        self._clock = clock
        self._time_of_day = time_of_day

    async def flush(self) -> None:
        """Bring to the store what is not there yet."""
        if self._batches is None:
            return
        for name, application in self._applications.in_turn():
            while (
                put := await self._attempts.run(
                    Attempt.STORE,
                    partial(self._batches.put, name),
                    failed="samples not brought to the store: tried again in the next round",
                    application=name,
                )
            ) is True:
                application.brought()
            if isinstance(put, FailedAttempt) and put.store_is_away:
                self._applications.put_last(name)
                return

    async def count_stored(self) -> None:
        """Count the samples in the store of each application for which that is due, and erase those that are too old or
        too many.
        """
        if self._store is None:
            return
        oldest = self._time_of_day() - RETENTION
        for name, application in self._applications.in_turn():
            if not application.is_due(self._clock()):
                continue
            count = await self._attempts.run(
                Attempt.STORE,
                partial(self._store.tidy_samples, name, MOST_STORED, oldest),
                failed="samples in the store not counted: tried again in the next round",
                application=name,
            )
            if not isinstance(count, FailedAttempt):
                application.counted(count, self._clock())
            elif count.store_is_away:
                self._applications.put_last(name)
                return
