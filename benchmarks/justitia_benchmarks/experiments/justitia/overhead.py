"""Figure 12: how long scheduling takes, against the rate at which runs arrive.

The paper updates virtual time and picks the next run whenever one arrives or completes, and gives that time's mean.
Here a *scheduling point* is a moment at which a run arrives or ends; its time is the CPU time of all that the policy is
told and asked at that moment, the charges of the step that ended there included, in milliseconds. `per_run` is all CPU
time of the policy over the whole serving, divided by the runs. CPU time of the thread, garbage collection off, reading
the clock included: it differs from machine to machine, and a little from one time to the next.
"""

import gc
import inspect
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

from justitia_benchmarks.experiment import Cell, Claim, Figures, Row
from justitia_benchmarks.experiments.justitia.serving import REFERENCE, as_served, built, serve_under
from justitia_benchmarks.reports.justitia_checks import report_overhead
from justitia_benchmarks.statistics import quantile
from justitia_scheduling.core.policy import Policy
from justitia_simulator.prediction import TRUE
from justitia_simulator.suite import agent_suite
from justitia_vocabulary.units import Seconds

RATES = (15, 50, 100)
POLICIES = ("justitia", "tiered-justitia")
RUN_EVENTS = frozenset({"run_arrived", "run_ended"})


class SchedulingTime:
    """The 7B model; 300 runs at each rate, in runs a minute."""

    name = "justitia-scheduling-time"
    title = "Time that scheduling takes"
    paper = "justitia"

    def cells(self, quick: bool) -> Sequence[Cell]:
        seeds, count, rates = (2, 100, (15, 100)) if quick else (10, 300, RATES)
        return [
            Cell({"policy": policy, "rate": rate, "runs": count}, seed)
            for seed in range(seeds) for rate in rates for policy in POLICIES
        ]  # fmt: skip

    def run(self, cell: Cell) -> Figures:
        p = cell.parameters
        count = int(p["runs"])
        workload = [as_served(r) for r in agent_suite(count, seed=cell.seed, window=count / int(p["rate"]) * 60)]
        timed = Timed(built(str(p["policy"])))
        gc.disable()
        try:
            serve_under([cast(Policy, timed)], str(p["policy"]), workload, TRUE, REFERENCE)
        finally:
            gc.enable()
        points = [milliseconds for milliseconds, of_run in timed.moments() if of_run]
        everything = sum(milliseconds for milliseconds, _ in timed.moments())
        return {
            "median": quantile(points, 0.5),
            "mean": sum(points) / len(points),
            "p99": quantile(points, 0.99),
            "per_run": everything / count,
        }

    def report(self, rows: Sequence[Row], folder: Path) -> Sequence[Claim]:
        return report_overhead(rows, folder)


class Timed:
    """Stands before a policy and adds up the CPU time of its methods, by the moment that the host told last."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._now: Seconds = 0.0
        self._spent: dict[Seconds, int] = {}
        self._of_run: set[Seconds] = set()

    def __getattr__(self, name: str) -> object:
        value = getattr(self._policy, name)
        if not inspect.ismethod(value):
            return value
        timed = self._timed(name, value)
        setattr(self, name, timed)
        return timed

    def moments(self) -> list[tuple[float, bool]]:
        """Milliseconds at each moment, and whether a run arrived or ended at it."""
        return [(nanoseconds / 1e6, now in self._of_run) for now, nanoseconds in self._spent.items()]

    def _timed(self, name: str, method: Callable[..., object]) -> Callable[..., object]:
        parameters = list(inspect.signature(method).parameters)
        now_at = parameters.index("now") if "now" in parameters else None

        def call(*arguments: object) -> object:
            if now_at is not None:
                self._now = cast(Seconds, arguments[now_at])
            if name in RUN_EVENTS:
                self._of_run.add(self._now)
            start = time.thread_time_ns()
            answer = method(*arguments)
            spent = time.thread_time_ns() - start
            self._spent[self._now] = self._spent.get(self._now, 0) + spent
            return answer

        return call
