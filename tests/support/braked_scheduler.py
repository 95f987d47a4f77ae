"""Schedulers of the engine with a brake: an engine that is slow on purpose.

What a test does while a request runs has to be over before the request is, on however fast a machine; and clients that
are to keep the engine busy must not be too slow for it, on however slow a one. As long as the file exists that
`JUSTITIA_TEST_BRAKE` names, each step takes at least so many seconds as it says, and there is none while fewer requests
are open than it says. Loaded by vLLM in place of its own scheduler or of ours.
"""

import os
import time
from pathlib import Path
from typing import Any

from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.output import SchedulerOutput
from vllm.v1.request import Request

from justitia_engine import scheduler

_brake = Path(os.environ["JUSTITIA_TEST_BRAKE"])


PAUSE = 0.001
"""Seconds until the engine, which takes what has come between two steps, looks again whether enough has come."""


def _told() -> tuple[float, int]:
    try:
        seconds, least = _brake.read_text().split()
    except FileNotFoundError:
        return 0.0, 0
    return float(seconds), int(least)


class _Braked:
    requests: dict[str, Request]

    def schedule(self, throttle_prefills: bool = False) -> Any:
        seconds, least = _told()
        if len(self.requests) < least:
            time.sleep(PAUSE)
            return SchedulerOutput.make_empty()
        if seconds:
            time.sleep(seconds)
        return super().schedule(throttle_prefills)  # type: ignore[misc]


class StockScheduler(_Braked, AsyncScheduler):
    """vLLM's own."""


class JustitiaScheduler(_Braked, scheduler.JustitiaScheduler):
    """Ours."""
