"""A policy that misbehaves on purpose."""

from justitia_scheduling.core.model import Step
from justitia_scheduling.policies.fcfs import FCFS
from justitia_vocabulary.units import Seconds


class RaisesAtTheThirdStep(FCFS):
    """Or at the third time that it is told of several steps together."""

    steps = 0

    def on_stepped(self, step: Step, now: Seconds) -> None:
        self.steps += 1
        if self.steps == 3:
            raise RuntimeError("on purpose")
