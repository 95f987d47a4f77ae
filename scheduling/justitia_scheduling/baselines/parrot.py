"""Parrot: first come, first served by run. The baseline of application-level schedulers.

Source: Justitia, section V-A (baseline of that name). Key of a run: its arrival, so that a later stage of an
earlier run goes before all requests of later runs.
"""

from typing import ClassVar

from justitia_scheduling.core.opened import OpenRun
from justitia_scheduling.core.runorder import RunOrder


class Parrot(RunOrder):
    """The key of a run is its number in the order of arrival."""

    parts: ClassVar[tuple[str, ...]] = ("fresh", "runArrival")

    def run_key(self, run: OpenRun) -> float:
        return float(run.sequence)
