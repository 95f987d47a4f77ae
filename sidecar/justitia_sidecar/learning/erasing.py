"""Erases samples that are too old or too many, and orphaned data: what was learned of applications that are gone.

On the pod's disk orphaned data goes at once. In the store, which all pods share, it goes when it is orphaned at two
looks in succession (`application_table.py`). Nothing is erased before the first configuration.
"""

from collections.abc import Callable
from functools import partial

import structlog

from justitia_predictor.store import Store
from justitia_sidecar.learning.application_table import ApplicationTable
from justitia_sidecar.learning.attempts import Attempt, Attempts, FailedAttempt
from justitia_sidecar.learning.samples import Samples
from justitia_vocabulary.units import Seconds

log = structlog.get_logger("justitia.sidecar")


class Erasing:
    """`samples` and `store` are None where nothing is kept, or nothing outlives the pod. `time_of_day` is in seconds
    since 1970.
    """

    def __init__(
        self,
        applications: ApplicationTable,
        samples: Samples | None,
        store: Store | None,
        attempts: Attempts,
        time_of_day: Callable[[], Seconds],
    ) -> None:
        self._applications = applications
        self._samples = samples
        self._store = store
        self._attempts = attempts
        self._time_of_day = time_of_day

    async def tidy_disk(self) -> None:
        """Erase samples on the pod's disk that are too old, too many, or orphaned."""
        if self._samples is None or self._applications.known is None:
            return
        await self._attempts.run(
            Attempt.WRITE,
            partial(_tidy, self._samples, self._applications.known, self._time_of_day()),
            failed="samples on the pod's disk not tidied: tried again in the next round",
        )

    async def erase_orphans(self) -> None:
        """Look for orphaned data in the store, and erase what was orphaned at the last look too."""
        if self._store is None or self._applications.known is None:
            return
        stored = await self._attempts.run(
            Attempt.STORE,
            self._store.applications,
            failed="applications in the store not listed: orphaned data is looked for again later",
        )
        if isinstance(stored, FailedAttempt):
            return
        for name in self._applications.orphaned_twice(stored):
            erased = await self._attempts.run(
                Attempt.STORE,
                partial(self._store.erase, name),
                failed="data of an application that is gone not erased in the store: tried again later",
                application=name,
            )
            if not isinstance(erased, FailedAttempt):
                log.info("erased what was learned of an application that is gone", application=name)


def _tidy(samples: Samples, known: frozenset[str], now: Seconds) -> None:
    samples.prune(now)
    for name in samples.counts().keys() - known:
        samples.erase(name)
