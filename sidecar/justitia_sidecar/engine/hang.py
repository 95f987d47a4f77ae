"""Finds out whether the engine hangs: it has work, and makes no step.

vLLM's server answers probes even while the process that computes stands still. So progress is what changes with each
step, and whether there is work is decided by the engine's own counts. Time in which nobody looked does not count: a
laptop that slept, or a sidecar that stood still, is not the engine's fault. A file tells the engine's liveness probe
about a hang, so the kubelet restarts the engine even if the sidecar does not answer at that moment.
"""

from pathlib import Path

import structlog

from justitia_sidecar.engine.view import EngineView
from justitia_vocabulary.units import Seconds

HANG_SECONDS: Seconds = 120.0
LONGEST_LOOK: Seconds = 6.0
"""The longest time between two probes, where one was not answered: its timeout and the pause after it."""

log = structlog.get_logger("justitia.sidecar")


def has_work(view: EngineView, owed: int) -> bool:
    """Whether the engine should make steps, if it owes so many answers.

    Its counts are those of its last step, so they lack a request on which it hung at once. A deferred request does not
    wait for a step but for something else, such as a grammar.
    """
    return view.running + view.waiting > view.deferred or (not view.deferred and owed > 0)


class HangWatch:
    """Judges the engine after each probe. `patience` is how long it may make no step; `file` exists while it hangs."""

    def __init__(self, patience: Seconds = HANG_SECONDS, file: Path | None = None) -> None:
        self.hangs = False
        self._patience = patience
        self._file = file
        self._progress: tuple[str, ...] | None = None
        self._known = False
        self._silent: Seconds = 0.0
        self._looked: Seconds | None = None
        self._tell()

    def answered(self, progress: tuple[str, ...] | None, busy: bool, now: Seconds) -> None:
        """Note an answer. `busy` says whether the engine has work. `progress` changes with each step; None: unknown."""
        goes_on = not self._known or progress is None or progress != self._progress or not busy
        self._known, self._progress = True, progress
        self._look(now)
        if goes_on:
            self._silent = 0.0
        self._judge()

    def silent(self, now: Seconds) -> None:
        """Note that the engine did not answer. One that has not answered yet is starting."""
        self._look(now)
        self._judge()

    def absent(self, now: Seconds) -> None:
        """Note that the engine has ended. What was known of it does not hold for the next one, which starts."""
        self._known, self._silent = False, 0.0
        self._look(now)
        self._judge()

    def _look(self, now: Seconds) -> None:
        if self._known and self._looked is not None:
            self._silent += min(now - self._looked, LONGEST_LOOK)
        self._looked = now

    def _judge(self) -> None:
        hangs = self._silent >= self._patience
        if hangs == self.hangs:
            return
        self.hangs = hangs
        self._tell()
        if hangs:
            log.error("engine hangs: it has work and made no step", seconds=round(self._patience))
        else:
            log.info("engine makes steps again")

    def _tell(self) -> None:
        if self._file is None:
            return
        if self.hangs:
            self._file.touch()
        else:
            self._file.unlink(missing_ok=True)
