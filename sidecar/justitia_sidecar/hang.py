"""Whether the engine hangs: it has work, and makes no step.

vLLM's server goes on answering probes while the process that computes stands still, so an engine is judged by what
changes with each step. A file tells the kubelet, by the engine's liveness probe: whether the engine is ended does not
depend on whether the scheduler answers at that moment.
"""

from collections.abc import Hashable
from pathlib import Path

import structlog

from justitia_scheduling.model import Seconds

HANG_SECONDS: Seconds = 120.0

log = structlog.get_logger("justitia.sidecar")


class HangWatch:
    """Told after each probe. `patience` is how long an engine may make no step; `file` exists while it hangs."""

    def __init__(self, patience: Seconds = HANG_SECONDS, file: Path | None = None) -> None:
        self.hangs = False
        self._patience = patience
        self._file = file
        self._progress: Hashable = None
        self._since: Seconds | None = None
        self._tell()

    def answered(self, progress: Hashable | None, busy: bool, now: Seconds) -> None:
        """The engine answers, and has work or not. `progress` is another after each step; None: it tells of none."""
        if self._since is None or progress is None or progress != self._progress or not busy:
            self._progress, self._since = progress, now
        self._judge(now)

    def silent(self, now: Seconds) -> None:
        """It does not answer. One that has not answered yet is starting."""
        self._judge(now)

    def absent(self, now: Seconds) -> None:
        """Nobody listens: the engine has ended. What was said of it does not hold for the next one, which starts."""
        self._since = None
        self._judge(now)

    def _judge(self, now: Seconds) -> None:
        hangs = self._since is not None and now - self._since >= self._patience
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
