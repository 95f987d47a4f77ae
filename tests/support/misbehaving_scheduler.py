"""The scheduler of the engine with a policy that misbehaves on purpose in the place of `justitia`.

Loaded by vLLM in place of `justitia_engine.scheduler.JustitiaScheduler`.
"""

from justitia_engine.scheduler import JustitiaScheduler
from justitia_scheduling import registry
from justitia_scheduling.fcfs import FCFS
from justitia_scheduling.model import Seconds, Step

__all__ = ["JustitiaScheduler"]


class RaisesAtTheThirdStep(FCFS):
    """Misbehaves on purpose."""

    steps = 0

    def on_stepped(self, step: Step, now: Seconds) -> None:
        self.steps += 1
        if self.steps == 3:
            raise RuntimeError("on purpose")


registry.POLICIES["justitia"] = RaisesAtTheThirdStep
