"""Schedulers of the engine with a brake: an engine that is slow on purpose.

What a test does while a request runs has to be over before the request is, on however fast a machine. As long as the
file exists that `JUSTITIA_TEST_BRAKE` names, each step takes at least so many seconds as it says. Loaded by vLLM in
place of its own scheduler or of ours.
"""

import os
import time
from pathlib import Path
from typing import Any

from vllm.v1.core.sched.async_scheduler import AsyncScheduler

from justitia_engine import scheduler

_brake = Path(os.environ["JUSTITIA_TEST_BRAKE"])


def _seconds() -> float:
    try:
        return float(_brake.read_text())
    except FileNotFoundError:
        return 0.0


class _Braked:
    def schedule(self, throttle_prefills: bool = False) -> Any:
        if seconds := _seconds():
            time.sleep(seconds)
        return super().schedule(throttle_prefills)  # type: ignore[misc]


class StockScheduler(_Braked, AsyncScheduler):
    """vLLM's own."""


class JustitiaScheduler(_Braked, scheduler.JustitiaScheduler):
    """Ours."""
