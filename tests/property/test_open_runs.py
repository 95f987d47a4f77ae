"""Whose run ends at the bound of open runs, under any history. Dues are reckoned from a list of all runs."""

from dataclasses import dataclass, field
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from justitia_api.config import ApplicationConfig, RunConfig
from justitia_sidecar.admission.runs import Hear, RunTable, TrackedRun
from justitia_vocabulary.units import RunId, TenantId

TENANTS = [TenantId(name) for name in "abc"]
LIMITS = RunConfig(idle_timeout_seconds=1e6, maximum_age_seconds=1e6)
Asked = tuple[str, TenantId, int]
HISTORIES = st.lists(
    st.one_of(
        st.tuples(st.just("begin"), st.sampled_from(TENANTS), st.integers(0, 9)),
        st.tuples(st.just("leave"), st.sampled_from(TENANTS), st.integers(0, 9)),
        st.tuples(st.just("reweight"), st.sampled_from(TENANTS), st.sampled_from([1, 2, 3, 50, 1000])),
    ),
    max_size=150,
)


class WhoeverWasIdleLongest(RunTable):
    """The negative control: the bound is nobody's."""

    def __init__(self, opened: Hear, ended: Hear, maximum: int) -> None:
        super().__init__(opened, ended)
        self.bound = maximum

    def enter(
        self,
        tenant: TenantId,
        application: ApplicationConfig,
        run: str | None,
        now: float,
        predicted_cost: float | None = None,
    ) -> TrackedRun:
        tracked = super().enter(tenant, application, run, now, predicted_cost)
        self.keep_bound(now)
        return tracked

    def leave(self, run: TrackedRun, now: float, *, ends: bool = False) -> None:
        super().leave(run, now, ends=ends)
        self.keep_bound(now)

    def keep_bound(self, now: float) -> None:
        idle = [run for run in self.open if not run.open_requests]
        if len(self) > self.bound and idle:
            longest = min(idle, key=lambda run: run.last_activity)
            self.end(longest.tenant, longest.application.id, longest.name or "", now)


@dataclass
class Oracle:
    """Knows every open run, and nothing of how the table finds the one that ends."""

    table: RunTable
    maximum: int
    runs: list[TrackedRun] = field(default_factory=list)
    weights: dict[TenantId, int] = field(default_factory=lambda: dict.fromkeys(TENANTS, 1))

    def __post_init__(self) -> None:
        self.table.on_ended = self.ended

    def over(self, tenant: str) -> bool:
        weights = sum(self.weights[TenantId(t)] for t in {run.application.tenant for run in self.runs})
        due = Fraction(self.maximum * self.weights[TenantId(tenant)], weights)
        return len(self.of(tenant)) > due

    def of(self, tenant: str) -> list[TrackedRun]:
        return [run for run in self.runs if run.application.tenant == tenant]

    def ended(self, run: TrackedRun) -> None:
        owner = run.application.tenant
        assert len(self.runs) > self.maximum, "ended without need"
        assert self.over(owner), "lost a run within its due"
        assert run.open_requests == 0
        idle = [other for other in self.of(owner) if other.open_requests == 0]
        assert run.last_activity == min(other.last_activity for other in idle), "not its longest idle run"
        self.runs.remove(run)

    def begin(self, tenant: TenantId, name: str, now: float) -> None:
        application = ApplicationConfig(namespace="ns", name="chat", tenant=tenant, run=LIMITS)
        known = next((run for run in self.of(tenant) if run.name == name), None)
        if known is None:
            # The table ends others before it returns the run, which counts already.
            known = TrackedRun(
                RunId(""), tenant, application, (tenant, application.id, name), now, now, open_requests=1
            )
            self.runs.append(known)
            self.runs[self.runs.index(known)] = self.table.enter(tenant, application, name, now)
        else:
            assert self.table.enter(tenant, application, name, now) is known

    def within_bound(self) -> None:
        idle = {run.application.tenant for run in self.runs if run.open_requests == 0}
        assert len(self.table) == len(self.runs)
        assert len(self.runs) <= self.maximum or not any(map(self.over, idle)), "passed without need"


def check(history: list[Asked], maximum: int, kind: type[RunTable]) -> None:
    table = kind(lambda run, now: None, lambda run, now: None, maximum)
    oracle = Oracle(table, maximum)
    for now, (what, tenant, value) in enumerate(history):
        match what:
            case "begin":
                oracle.begin(tenant, str(value), now)
            case "leave":
                busy = [run for run in oracle.of(tenant) if run.open_requests]
                if busy:
                    table.leave(busy[value % len(busy)], now)
            case "reweight":
                oracle.weights[tenant] = value
                table.reweight(oracle.weights)
        if what != "reweight":
            oracle.within_bound()


@given(HISTORIES, st.integers(1, 12))
def test_nobody_loses_a_run_within_its_due(history: list[Asked], maximum: int) -> None:
    check(history, maximum, RunTable)


def test_the_longest_idle_run_of_all_is_somebody_s_within_its_due() -> None:
    flood: list[Asked] = [(what, TENANTS[1], run) for run in range(9) for what in ("begin", "leave")]
    with pytest.raises(AssertionError, match="lost a run within its due"):
        check([("begin", TENANTS[0], 0), ("leave", TENANTS[0], 0), *flood], 5, WhoeverWasIdleLongest)
