"""Whether the engine hangs: it has work, and makes no step.

vLLM's server goes on answering probes while the process that computes stands still, so an engine is judged by what
changes with each step, and whether it has work by its own counts. Time in which nobody looked is not its silence: a
laptop that slept, or a process that stood still, blames no engine. A file tells the kubelet, by the engine's liveness
probe: whether the engine is ended does not depend on whether the scheduler answers at that moment.
"""

from pathlib import Path

import structlog

from justitia_sidecar.engine.view import EngineView
from justitia_vocabulary.units import Seconds

HANG_SECONDS: Seconds = 120.0
LONGEST_LOOK: Seconds = 6.0
"""From one probe to the next where one was not answered: its timeout, and the pause after it."""

log = structlog.get_logger("justitia.sidecar")


def has_work(view: EngineView, owed: int) -> bool:
    """Whether the engine should make steps, when it owes so many answers.

    Its counts are those of its last step: what it hung on at once is not in them. What it defers waits for something
    else than a step, as for a grammar.
    """
    return view.running + view.waiting > view.deferred or (not view.deferred and owed > 0)


class HangWatch:
    """Told after each probe. `patience` is how long an engine may make no step; `file` exists while it hangs."""

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
        """The engine answers, and has work or not. `progress` is another after each step; None: it tells of none."""
        goes_on = not self._known or progress is None or progress != self._progress or not busy
        self._known, self._progress = True, progress
        self._look(now)
        if goes_on:
            self._silent = 0.0
        self._judge()

    def silent(self, now: Seconds) -> None:
        """It does not answer. One that has not answered yet is starting."""
        self._look(now)
        self._judge()

    def absent(self, now: Seconds) -> None:
        """Nobody listens: the engine has ended. What was said of it does not hold for the next one, which starts."""
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
            log.error("engine hangs", seconds_without_a_step=round(self._patience))
        else:
            log.info("engine goes on")

    def _tell(self) -> None:
        if self._file is None:
            return
        if self.hangs:
            self._file.touch()
        else:
            self._file.unlink(missing_ok=True)
