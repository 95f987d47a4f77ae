"""The loop that learns beside serving. Decides which work is due when, on the clock of requests.

Runs are recorded each second. Models are loaded and samples counted each minute, and at once after the configuration
has changed. Samples go to the store each minute, and orphaned data is looked for each hour. Each piece of work ends
before the next begins.
"""

import asyncio
import math
from collections.abc import Callable

from justitia_sidecar.learning.erasing import Erasing
from justitia_sidecar.learning.flushing import Flushing
from justitia_sidecar.learning.lessons import SETTLE
from justitia_sidecar.learning.loading import Loading
from justitia_sidecar.learning.recording import Recording
from justitia_vocabulary.units import Seconds

WRITE_SECONDS: Seconds = 1.0
FLUSH_SECONDS: Seconds = 60.0
ORPHANS_SECONDS: Seconds = 3600.0
"""The time between two looks. Data that is orphaned at both is erased: a pod is a configuration behind for less time.
"""


class Background:
    def __init__(
        self,
        recording: Recording,
        loading: Loading,
        flushing: Flushing,
        erasing: Erasing,
        clock: Callable[[], Seconds],
    ) -> None:
        self._recording = recording
        self._loading = loading
        self._flushing = flushing
        self._erasing = erasing
        self._clock = clock
        self._flushed = self._looked = clock()
        self._changed = False

    def configuration_changed(self) -> None:
        """Load models in the next round."""
        self._changed = True

    async def work_forever(self) -> None:
        while True:
            await asyncio.sleep(WRITE_SECONDS)
            await self.round()

    async def round(self) -> None:
        """Do what is due."""
        await self._recording.write(self._clock() - SETTLE)
        flush = self._clock() - self._flushed >= FLUSH_SECONDS
        if not flush and not self._changed:
            return
        self._changed = False
        await self._loading.load()
        if flush:
            self._flushed = self._clock()
            await self._bring_samples()
        await self._flushing.count_stored()
        if self._clock() - self._looked >= ORPHANS_SECONDS:
            self._looked = self._clock()
            await self._erasing.erase_orphans()

    async def finish(self) -> None:
        """Record the runs that are over, and bring their samples to the store."""
        await self._recording.write(math.inf)
        await self._bring_samples()

    async def _bring_samples(self) -> None:
        await self._erasing.tidy_disk()
        await self._flushing.flush()
