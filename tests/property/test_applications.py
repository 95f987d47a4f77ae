"""Applications share their tenant's service as tenants share the engine, and only that.

For applications f and g of one tenant and one priority that wait, with weights w of applications and services W since
both have been waiting, whatever is predicted:

    |W_f / w_f - W_g / w_g| <= 2 B + U / w_f + U / w_g

Services are those of the policy's books, which `tests/conformance` checks; its counters and gates are not looked at. A
tenant with one application is served as if there were no such level, to the bit. Each has a control that fails.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from justitia_scheduling.core.cost import CostModel, KVTokenTimeCost, WeightedTokens
from justitia_scheduling.core.model import ApplicationShare, Request, Run
from justitia_scheduling.core.opened import OpenRequest, OpenRun
from justitia_scheduling.core.runqueue import RunKey, RunQueue
from justitia_scheduling.policies.applications import TenantQueue
from justitia_scheduling.policies.tiered import TieredJustitia
from justitia_vocabulary.units import ApplicationId, RequestId, RunId, Seconds, TenantId
from justitia_vocabulary.waiting import WaitingReason
from support import backlog
from support.examples import examples
from support.preempting_engine import PreemptingEngine
from support.reserving_engine import Job, ReservingEngine

CAPACITY = 64
TENANTS = [TenantId(f"t{i}") for i in range(3)]
COSTS: list[CostModel] = [KVTokenTimeCost(), WeightedTokens()]
NAMES = ["a", "b", "c"]
PREDICTED = st.none() | st.floats(1, 1e6)

Shares = dict[str, tuple[float, int]]


class OneQueue(TenantQueue):
    """A tenant's runs in the order of their keys, whatever application they are of: there is no such level."""

    def __bool__(self) -> bool:
        return bool(self._all)

    @property
    def _all(self) -> RunQueue:
        return self._runs.setdefault(ApplicationId(""), RunQueue())

    def push(self, request: OpenRequest, key: tuple[float, ...], now: Seconds) -> bool:
        self._front = self._all
        self._all.push(request, *key)
        return False

    def remove(self, request: OpenRequest, now: Seconds, *, admitted: bool) -> None:
        self._all.remove(request)

    def rekey(self, run: OpenRun, key: tuple[float, ...]) -> None:
        self._all.rekey(run.id, *key)

    def groups_before(self, application: ApplicationId) -> int:
        return 0

    def in_order(self) -> Iterator[tuple[int, RunKey, RequestId]]:
        return ((0, key, request) for key, request in self._all.in_order())


class WithoutLevel(TieredJustitia):
    """Tiered Justitia before applications shared."""

    def on_waiting(self, request: OpenRequest, now: Seconds) -> None:
        self._queues.setdefault(request.tenant, OneQueue(request.tenant, self._told))
        super().on_waiting(request, now)


def shares(names: list[str]) -> st.SearchStrategy[Shares]:
    """Any weights, or one for all."""

    def of(weight: st.SearchStrategy[float]) -> st.SearchStrategy[Shares]:
        return st.fixed_dictionaries({name: st.tuples(weight, st.integers(-1, 1)) for name in names})

    return of(st.floats(0.25, 4)) | of(st.just(2.0))


def jobs(draw_application: Callable[[TenantId, str], str]) -> st.SearchStrategy[list[Job]]:
    """Runs of up to three requests, of several tenants."""
    one = st.builds(
        lambda tenant, name, prompt, output, arrival, predicted, run, aborts: Job(
            tenant,
            prompt,
            output,
            arrival,
            predicted,
            f"{tenant}{draw_application(tenant, name)}{run}",
            draw_application(tenant, name),
            gives_up_after=output // 2 if aborts and output > 1 else None,
        ),
        tenant=st.sampled_from(TENANTS),
        name=st.sampled_from(NAMES),
        prompt=st.integers(1, 30),
        output=st.integers(1, 30),
        arrival=st.integers(0, 90),
        predicted=PREDICTED,
        run=st.integers(0, 20),
        aborts=st.booleans(),
    )
    return st.lists(one, min_size=10, max_size=60)


def history(policy: TieredJustitia, workload: list[Job], told: Shares, host: type[ReservingEngine]) -> list[object]:
    """All that the policy decided and counted, to the bit."""
    for name, (weight, priority) in told.items():
        policy.set_application(ApplicationId(name), weight, priority, 0)
    engine, seen = host(policy, CAPACITY, workload), list[object]()
    while not engine.done:
        engine.tick()
        waiting = [policy.requests[each] for each in policy.order()]
        seen.append(
            (
                [(each.id, policy.key(each), policy.why_waits(each)) for each in waiting],
                policy.victim(),
                policy.gives_way(),
                [policy.clocks.now(tenant) for tenant in TENANTS],
                dict(policy.counters.by_member),
                policy.revisions,
            )
        )
    return [engine.admissions, seen]


@pytest.mark.parametrize("host", [ReservingEngine, PreemptingEngine])
@given(
    workload=jobs(lambda tenant, _: f"of {tenant}"),
    told=shares([f"of {tenant}" for tenant in TENANTS]),
    burst=st.floats(0, 500),
    heartbeat=st.sampled_from([5.0, 60.0]),
)
@examples(60)
def test_with_one_application_a_tenant_nothing_changes_whatever_its_weight_and_priority(
    host: type[ReservingEngine], workload: list[Job], told: Shares, burst: float, heartbeat: float
) -> None:
    ours = TieredJustitia(KVTokenTimeCost(), burst=burst, heartbeat=heartbeat)
    before = WithoutLevel(KVTokenTimeCost(), burst=burst, heartbeat=heartbeat)
    assert history(ours, workload, told, host) == history(before, workload, {}, host)


def flood(name: str, count: int, tenant: TenantId = TENANTS[0], predicted: float | None = 1.0) -> list[Job]:
    return [Job(tenant, 10, 20, predicted=predicted, application=name) for _ in range(count)]


def test_with_two_applications_a_tenant_is_served_in_another_order() -> None:
    workload, told = flood("a", 20) + flood("b", 20), {"a": (1.0, 0), "b": (3.0, 0)}
    ours, before = (policy(KVTokenTimeCost(), burst=0.0) for policy in (TieredJustitia, WithoutLevel))
    assert history(ours, workload, told, ReservingEngine) != history(before, workload, told, ReservingEngine)


def largest_in_engine(cost: CostModel, workload: list[Job]) -> float:
    """U of the bounds, from the workload itself and not from the policy."""
    longest = max(job.output for job in workload)
    return 2.0 * CAPACITY if isinstance(cost, WeightedTokens) else float(CAPACITY * longest)


def excess(
    policy: TieredJustitia,
    workload: list[Job],
    told: Shares,
    burst: float,
    host: type[ReservingEngine] = ReservingEngine,
) -> float:
    """How far the bound of two applications of one tenant and priority was overstepped at the worst moment."""
    for name, (weight, priority) in told.items():
        policy.set_application(ApplicationId(name), weight, priority, 0)
    u = largest_in_engine(policy.cost_model, workload)
    engine = host(policy, CAPACITY, workload)
    since: dict[tuple[str, str], float] = {}
    worst = -math.inf
    while not engine.done:
        engine.tick()
        waiting = Counter((r.tenant, r.run.run.application) for r in policy.waiting())
        of = {application: tenant for tenant, application in waiting}
        service = policy.application_service
        for f, g in permutations(told, 2):
            mine, theirs = ApplicationId(f), ApplicationId(g)
            if mine not in of or of.get(theirs) != of[mine] or told[f][1] != told[g][1]:
                since.pop((f, g), None)
                continue
            w_f, w_g = told[f][0], told[g][0]
            gap = service[mine] / w_f - service[theirs] / w_g
            start = since.setdefault((f, g), gap)
            worst = max(worst, gap - start - 2 * burst - u / w_f - u / w_g)
    return worst


NAMED = [f"{tenant}/{name}" for tenant in TENANTS for name in NAMES]


@pytest.mark.parametrize(
    "engine",
    [(WeightedTokens(), ReservingEngine), *((KVTokenTimeCost(), host) for host in (ReservingEngine, PreemptingEngine))],
    ids=["weighted-tokens", "kv-token-time", "kv-token-time, preempting"],
)
@given(
    workload=jobs(lambda tenant, name: f"{tenant}/{name}"),
    told=shares(NAMED),
    burst=st.floats(0, 200),
    tuned=st.fixed_dictionaries(
        {
            "beta": st.sampled_from([0.0, 3.0, math.inf]),
            "heartbeat": st.sampled_from([1.0, 60.0]),
        }
    ),
)
@examples(60)
def test_applications_that_wait_stay_within_the_bound_whatever_is_predicted(
    engine: tuple[CostModel, type[ReservingEngine]],
    workload: list[Job],
    told: Shares,
    burst: float,
    tuned: dict[str, float],
) -> None:
    cost, host = engine
    policy = TieredJustitia(cost, burst=burst, **tuned)
    assert excess(policy, workload, told, burst, host) <= 1e-6


WEIGHTED: Shares = {"a": (1.0, 0), "b": (4.0, 0)}
LIARS = flood("a", 120, predicted=1.0) + flood("b", 120, predicted=1e9)


def test_the_control_without_the_level_breaks_the_bound() -> None:
    assert excess(WithoutLevel(WeightedTokens(), burst=50), LIARS, WEIGHTED, 50) > 0
    assert excess(TieredJustitia(WeightedTokens(), burst=50), LIARS, WEIGHTED, 50) <= 0


@pytest.mark.parametrize(("weight", "leads"), [(1.0, True), (2.0, False)], ids=["alike", "not alike"])
def test_where_weights_are_alike_the_order_of_runs_decides_within_the_burst(weight: float, leads: bool) -> None:
    """Applications a and b flood, whose runs are alike but for what they are expected to cost: a's go first."""
    burst = 400.0
    policy = TieredJustitia(WeightedTokens(), burst=burst, beta=1.0)
    policy.set_application(ApplicationId("b"), weight, 0, 0)
    workload = flood("a", 60, predicted=10.0) + flood("b", 60, predicted=20.0)
    engine, ahead = ReservingEngine(policy, CAPACITY, workload), 0.0
    while {r.run.run.application for r in policy.waiting()} >= {"a", "b"} or not engine.admissions:
        engine.tick()
        had = policy.application_service
        ahead = max(ahead, had[ApplicationId("a")] - had[ApplicationId("b")] / weight)
    assert (ahead >= burst) is leads


def test_weights_that_are_alike_again_let_the_order_of_runs_decide_again() -> None:
    def served(*weights: float) -> list[RequestId]:
        policy = TieredJustitia(WeightedTokens(), burst=400.0, beta=1.0)
        workload = flood("a", 60, predicted=10.0) + flood("b", 60, predicted=20.0)
        engine = ReservingEngine(policy, CAPACITY, workload)
        engine.tick()
        for weight in weights:
            policy.set_application(ApplicationId("b"), weight, 0, 1)
        while not engine.done:
            engine.tick()
        return engine.admissions

    assert served(3.0, 1.0) == served() != served(3.0)


def test_the_control_that_ignores_weights_breaks_the_bound() -> None:
    class Unweighted(TieredJustitia):
        def share(self, application: ApplicationId) -> ApplicationShare:
            return ApplicationShare()

    assert excess(Unweighted(WeightedTokens(), burst=0.0), LIARS, WEIGHTED, 0) > 0
    assert excess(TieredJustitia(WeightedTokens(), burst=0.0), LIARS, WEIGHTED, 0) <= 0


@pytest.mark.parametrize("cost", COSTS, ids=lambda cost: cost.unit)
@given(
    workload=jobs(lambda tenant, name: f"{tenant}/{name}"),
    told=shares(NAMED),
    weight=backlog.weights(TENANTS),
    burst=st.floats(0, 500),
)
@examples(60)
def test_the_bound_of_tenants_holds_whatever_their_applications_declare(
    cost: CostModel, workload: list[Job], told: Shares, weight: dict[TenantId, float], burst: float
) -> None:
    policy = TieredJustitia(cost, burst=burst)
    for name, (share, priority) in told.items():
        policy.set_application(ApplicationId(name), share, priority, 0)
    u = largest_in_engine(cost, workload)
    for gap in backlog.gaps(policy, CAPACITY, workload, weight):
        assert gap.service <= 2 * burst + u / weight[gap.ahead] + u / weight[gap.behind] + 1e-6
        assert gap.counter <= burst + u / weight[gap.ahead] + 1e-6


def test_weights_1_3_are_met_in_a_long_flood_beside_another_tenant() -> None:
    policy = TieredJustitia(WeightedTokens(), burst=100)
    policy.set_application(ApplicationId("a"), 1.0, 0, 0)
    policy.set_application(ApplicationId("b"), 3.0, 0, 0)
    workload = flood("a", 900) + flood("b", 900) + flood("c", 900, TENANTS[1])
    engine = ReservingEngine(policy, CAPACITY, workload)
    for _ in range(4000):
        engine.tick()
    had = policy.application_service
    assert {r.run.run.application for r in policy.waiting()} == set(NAMES)
    assert had[ApplicationId("b")] / had[ApplicationId("a")] == pytest.approx(3, rel=0.05)
    assert policy.service[TENANTS[0]] / policy.service[TENANTS[1]] == pytest.approx(1, rel=0.05)


def order_of_another_tenant(weight: float, applications: int) -> list[RequestId]:
    """Whom an engine serves, of a tenant beside one whose applications all declare this weight."""
    policy = TieredJustitia(WeightedTokens(), burst=200)
    names = [f"a{i}" for i in range(applications)]
    for name in names:
        policy.set_application(ApplicationId(name), weight, 0, 0)
    workload = [job for name in names for job in flood(name, 60 // applications)] + flood("c", 60, TENANTS[1])
    engine = ReservingEngine(policy, CAPACITY, workload)
    while not engine.done:
        engine.tick()
    return engine.admissions


@pytest.mark.parametrize("applications", [1, 3])
def test_weights_that_all_applications_of_a_tenant_raise_alike_gain_nothing_beside_another_tenant(
    applications: int,
) -> None:
    modest, greedy = (order_of_another_tenant(weight, applications) for weight in (1.0, 2.0**10))
    assert [r for r in greedy if int(r[1:]) >= 60] == [r for r in modest if int(r[1:]) >= 60]
    assert [int(r[1:]) >= 60 for r in greedy] == [int(r[1:]) >= 60 for r in modest]


class OnePlace:
    """An engine of one place that serves a request each second."""

    def __init__(self, heartbeat: Seconds = math.inf, burst: float = math.inf) -> None:
        self.policy = TieredJustitia(KVTokenTimeCost(), burst=burst, beta=math.inf, heartbeat=heartbeat)
        self.now = 0.0
        self.asked = 0

    def share(self, application: str, weight: float = 1.0, priority: int = 0) -> None:
        self.policy.set_application(ApplicationId(application), weight, priority, self.now)

    def ask(self, application: str, count: int = 1) -> None:
        for _ in range(count):
            self.asked += 1
            run = RunId(f"{application}{self.asked}")
            self.policy.run_arrived(Run(run, TENANTS[0], ApplicationId(application), 1.0), self.now)
            self.policy.request_arrived(Request(RequestId(run), run, 1), self.now)

    def serve(self, seconds: int) -> str:
        """Whom it serves: the first letters of their applications."""
        return "".join(self._serve() for _ in range(seconds))

    def _serve(self) -> str:
        self.policy.time_passed(self.now)
        head = self.policy.head()
        assert head is not None
        assert head == self.policy.order()[0]
        self.policy.admitted(head, self.now)
        run = self.policy.requests[head].run
        self.policy.finished(head, self.now)
        self.policy.run_ended(run.id, self.now)
        self.now += 1
        return run.run.application[0]

    def reasons(self) -> dict[str, set[WaitingReason]]:
        found: dict[str, set[WaitingReason]] = {}
        for request in self.policy.waiting():
            found.setdefault(request.run.run.application, set()).add(self.policy.why_waits(request))
        return found


def test_a_higher_priority_goes_first_and_the_lower_one_is_held_back() -> None:
    engine = OnePlace()
    engine.share("high", priority=1)
    engine.ask("low", 3)
    engine.ask("high", 3)
    held = {WaitingReason.APPLICATION_HELD_BACK}
    assert engine.reasons() == {"low": held, "high": {WaitingReason.BEHIND_OTHERS}}
    assert engine.serve(6) == "hhhlll"


def test_a_priority_that_changes_while_requests_wait_counts_at_once() -> None:
    engine = OnePlace()
    engine.ask("low", 6)
    engine.ask("high", 6)
    engine.share("high", priority=1)
    assert engine.serve(2) == "hh"
    engine.share("low", priority=2)
    assert engine.serve(2) == "ll"
    engine.share("low", priority=-1)
    assert engine.serve(4) == "hhhh"


def test_a_lower_priority_is_served_once_in_each_heartbeat_and_never_without_one() -> None:
    def served(heartbeat: Seconds) -> str:
        engine = OnePlace(heartbeat)
        engine.share("high", priority=1)
        engine.ask("high", 100)
        engine.ask("low", 100)
        return engine.serve(60)

    assert served(10.0) == "h" * 10 + "l" + ("h" * 9 + "l") * 4 + "h" * 9
    assert served(math.inf) == "h" * 60


def test_the_heartbeat_changes_nothing_between_applications_of_one_priority() -> None:
    def served(heartbeat: Seconds) -> str:
        engine = OnePlace(heartbeat)
        engine.ask("first", 60)
        engine.ask("second", 60)
        return engine.serve(120)

    assert served(10.0) == served(math.inf)
