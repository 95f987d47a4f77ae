"""Parrot: first come, first served by run. The baseline of application-level schedulers.

Source: Justitia, section V-A (baseline of that name). Key of a run: its arrival, so that a later stage of an
earlier run goes before all requests of later runs.
"""

from typing import ClassVar

from justitia_scheduling.core.opened import OpenRun
from justitia_scheduling.core.runorder import RunOrder


class Parrot(RunOrder):
    """Order key: (preempted first, arrival of the run)."""

    key_name: ClassVar[str] = "runArrival"

    def key(self, run: OpenRun) -> float:
        return float(run.sequence)
