"""What every policy owes its host, whatever order it chooses.

One state machine tells random but possible events to a policy and checks it against books of its own. A policy
joins by being in the registry.

The order is checked in every state against a sort by :meth:`Policy.key`: whatever index a policy keeps, its queue, its
head and its victim are those of its key. A policy that has another rule for its victim is named with it below.
"""

from collections import defaultdict
from collections.abc import Callable

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from justitia_benchmarks.baselines import TwoLevelVTC
from justitia_scheduling.baselines.registry import POLICIES, build_policy
from justitia_scheduling.core.cost import CostModel, EngineTime, KVTokenTimeCost, StepTime, WeightedTokens
from justitia_scheduling.core.model import Progress, Request, Run, Step
from justitia_scheduling.core.opened import EventOrderError, OpenRequest, UnknownIdError
from justitia_scheduling.core.policy import Policy
from justitia_scheduling.policies.fcfs import FCFS
from justitia_scheduling.policies.registry import BuildPolicy
from justitia_scheduling.policies.srpt import SRPT
from justitia_scheduling.policies.tiered import TieredJustitia
from justitia_vocabulary.units import ApplicationId, RequestId, RunId, TenantId
from support.examples import examples

TENANTS = [TenantId(f"t{i}") for i in range(4)]
APPLICATIONS = [ApplicationId(f"a{i}") for i in range(3)]
COSTS: dict[str, CostModel] = {
    "kv-token-time": KVTokenTimeCost(),
    "weighted-tokens": WeightedTokens(),
    "engine-time": EngineTime(StepTime(0.01, 0.001, 0.00001)),
}


ALL: dict[str, BuildPolicy] = POLICIES | {"TwoLevelVTC": TwoLevelVTC}


def latest_to_arrive(policy: Policy) -> OpenRequest:
    """A tenant's counter says who is served next, not whose KV is worth least."""
    return max(policy.running.values(), key=lambda r: r.sequence)


def last_to_decode(policy: Policy) -> OpenRequest:
    """The key orders prompts only."""
    return list(policy.running.values())[-1]


def not_late_if_any(policy: Policy) -> OpenRequest:
    """What is nearly done holds KV that is worth more than its place in the order."""
    assert isinstance(policy, SRPT)
    running = policy.running.values()
    return max([r for r in running if not policy.late(r)] or running, key=policy.key)


def of_who_holds_most(policy: Policy) -> OpenRequest:
    """Nobody's growth takes the place of who holds less KV for its weight, or of its own of a higher priority."""
    assert isinstance(policy, TieredJustitia)
    held: defaultdict[TenantId, float] = defaultdict(float)
    for r in policy.running.values():
        held[r.tenant] += (r.request.prompt_tokens + r.produced) / policy.weight(r.tenant)
    most = max(held.values())
    of_it = [r for r in policy.running.values() if held[r.tenant] == most]
    tenant = max(of_it, key=lambda r: (policy.place_in_application(r.run), r.sequence)).tenant
    lowest = min(policy.share(r.run.run.application).priority for r in of_it if r.tenant == tenant)
    last = [r for r in of_it if r.tenant == tenant and policy.share(r.run.run.application).priority == lowest]
    return max(last, key=lambda r: (policy.place_in_application(r.run), r.sequence))


VICTIMS: dict[str, Callable[[Policy], OpenRequest]] = {
    **dict.fromkeys(("VTC", "LCF", "DRR", "DLPM", "VTC-Predicted", "VTC-Oracle", "TwoLevelVTC"), latest_to_arrive),
    "DistBoost": last_to_decode,
    "SRPT": not_late_if_any,
    "TieredJustitia": of_who_holds_most,
}
"""Rules of policies whose victim is not the last of their order."""


class Books:
    """What must be true, kept without looking into the policy."""

    def __init__(self) -> None:
        self.waiting: dict[RequestId, tuple[Run, int]] = {}
        self.running: dict[RequestId, tuple[Run, int]] = {}
        self.prefilled: set[RequestId] = set()
        self.produced: defaultdict[RequestId, int] = defaultdict(int)
        self.open_runs: dict[RunId, Run] = {}
        self.admissions: defaultdict[RequestId, int] = defaultdict(int)
        self.kept: defaultdict[TenantId, int] = defaultdict(int)
        self.tokens: defaultdict[TenantId, list[int]] = defaultdict(lambda: [0, 0, 0])  # admitted p, d, C


class PolicyMachine(RuleBasedStateMachine):
    policy_name: str
    cost_model: CostModel

    def __init__(self) -> None:
        super().__init__()
        self.policy: Policy = ALL[self.policy_name](self.cost_model)
        self.books = Books()
        self.now = 0.0
        self.ids = 0
        self.virtual_time = 0.0
        self.revisions = 0

    def fresh(self, prefix: str) -> str:
        self.ids += 1
        return f"{prefix}{self.ids}"

    @initialize(capacity=st.integers(64, 4096))
    def tell_capacity(self, capacity: int) -> None:
        self.policy.set_capacity(capacity, self.now)

    @rule(by=st.floats(0, 10, allow_nan=False) | st.floats(0, 100, allow_nan=False))
    def time_passes(self, by: float) -> None:
        self.now += by
        self.policy.time_passed(self.now)

    @rule(tenant=st.sampled_from(TENANTS), weight=st.floats(0.1, 8))
    def reweight(self, tenant: TenantId, weight: float) -> None:
        self.policy.set_weight(tenant, weight, self.now)

    @rule(application=st.sampled_from(APPLICATIONS), weight=st.floats(0.1, 8), priority=st.integers(-1, 1))
    def share(self, application: ApplicationId, weight: float, priority: int) -> None:
        self.policy.set_application(application, weight, priority, self.now)

    @rule(
        tenant=st.sampled_from(TENANTS),
        application=st.sampled_from(APPLICATIONS),
        prediction=st.none() | st.floats(1, 1e7),
        prompts=st.lists(st.integers(1, 200), min_size=1, max_size=4),
    )
    def run_arrives(
        self, tenant: TenantId, application: ApplicationId, prediction: float | None, prompts: list[int]
    ) -> None:
        run = Run(RunId(self.fresh("run")), tenant, application, prediction)
        self.policy.run_arrived(run, self.now)
        self.books.open_runs[run.id] = run
        for prompt in prompts:
            self.ask(run, prompt)

    @precondition(lambda self: self.books.open_runs)
    @rule(data=st.data(), prompt=st.integers(1, 200))
    def next_stage(self, data: st.DataObject, prompt: int) -> None:
        self.ask(data.draw(st.sampled_from(list(self.books.open_runs.values()))), prompt)

    def ask(self, run: Run, prompt: int) -> None:
        known = self.policy.oracle or self.ids % 2
        output = self.ids % 7 + 1.5 if known else None
        request = Request(
            RequestId(self.fresh("req")), run.id, prompt, output, boosted_for=None if self.ids % 3 else self.ids % 50
        )
        self.policy.request_arrived(request, self.now)
        self.books.waiting[request.id] = (run, prompt)

    @precondition(lambda self: self.books.waiting)
    @rule(count=st.integers(1, 5))
    def admit(self, count: int) -> None:
        for _ in range(min(count, len(self.books.waiting))):
            head = self.policy.head()
            if head is None and (moment := self.policy.held_until()) is not None:
                assert moment > self.now, "what is held back is offered when its moment has come"
                return
            assert head in self.books.waiting, "work conserving: a request waits, so there is a head that waits"
            self.policy.admitted(head, self.now)
            run, prompt = self.books.waiting.pop(head)
            self.books.running[head] = (run, prompt)
            self.books.admissions[head] += 1
            if self.books.admissions[head] == 1:
                self.books.tokens[run.tenant][0] += prompt

    @precondition(lambda self: self.books.running)
    @rule(data=st.data(), observed=st.booleans())
    def step(self, data: st.DataObject, observed: bool) -> None:
        chosen = data.draw(st.lists(st.sampled_from(list(self.books.running)), min_size=1, unique=True))
        progress = []
        for request in chosen:
            run, prompt = self.books.running[request]
            first = request not in self.books.prefilled
            self.books.prefilled.add(request)
            progress.append(Progress(request, prefilled=prompt if first else 0, produced=1))
            tokens = self.books.tokens[run.tenant]
            tokens[1] += 1
            tokens[2] += prompt + self.books.produced[request] + 1
            self.books.produced[request] += 1
        self.policy.stepped(Step(progress, 0.02 if observed else None), self.now)

    @precondition(lambda self: len(self.books.running) > 1)
    @rule()
    def preempt(self) -> None:
        victim = self.policy.victim()
        assert victim in self.books.running
        self.policy.preempted(victim, self.now)
        self.books.waiting[victim] = self.books.running.pop(victim)

    @precondition(lambda self: self.books.running and self.books.waiting)
    @rule()
    def make_way(self) -> None:
        """The head is said never to fit: giving way comes to an end, and never takes the head itself."""
        for _ in range(len(self.books.running) + 1):
            if self.policy.head() is None or (loser := self.policy.gives_way()) is None:
                return
            assert loser in self.books.running
            self.policy.preempted(loser, self.now)
            self.books.waiting[loser] = self.books.running.pop(loser)
        raise AssertionError("more requests gave way than ran")

    @precondition(lambda self: self.books.running)
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        request = data.draw(st.sampled_from(list(self.books.running)))
        self.policy.finished(request, self.now)
        del self.books.running[request]

    @precondition(lambda self: self.books.running or self.books.waiting)
    @rule(data=st.data())
    def abort(self, data: st.DataObject) -> None:
        request = data.draw(st.sampled_from([*self.books.running, *self.books.waiting]))
        self.policy.aborted(request, self.now)
        self.books.running.pop(request, None)
        self.books.waiting.pop(request, None)

    @precondition(lambda self: self.books.waiting)
    @rule(data=st.data())
    def withdraw(self, data: st.DataObject) -> None:
        """What has not begun may come again; what has begun cannot be taken back."""
        request = data.draw(st.sampled_from(list(self.books.waiting)))
        run, _ = self.books.waiting[request]
        if self.policy.requests[request].begun:
            with pytest.raises(EventOrderError):
                self.policy.withdrawn(request, self.now)
            return
        announced = self.policy.requests[request].request
        aborted = self.policy.runs[run.id].aborted
        self.policy.withdrawn(request, self.now)
        assert request not in self.policy.order()
        assert self.policy.runs[run.id].aborted == aborted
        self.policy.request_arrived(announced, self.now)

    @precondition(lambda self: self.idle_runs())
    @rule(data=st.data())
    def end_run(self, data: st.DataObject) -> None:
        run = data.draw(st.sampled_from(self.idle_runs()))
        self.policy.run_ended(run, self.now)
        del self.books.open_runs[run]

    def idle_runs(self) -> list[RunId]:
        busy = {run.id for run, _ in [*self.books.waiting.values(), *self.books.running.values()]}
        return [run for run in self.books.open_runs if run not in busy]

    @invariant()
    def nothing_is_lost_or_invented(self) -> None:
        assert sorted(self.policy.order()) == sorted(self.books.waiting)
        assert set(self.policy.running) == set(self.books.running)

    @precondition(lambda self: self.books.open_runs)
    @rule(data=st.data(), kv_token_time=st.integers(1, 10_000))
    def keeps_kv_for_a_run(self, data: st.DataObject, kv_token_time: int) -> None:
        run = data.draw(st.sampled_from(sorted(self.books.open_runs)))
        tenant = self.books.open_runs[run].tenant
        self.policy.kept(run, kv_token_time, self.now)
        self.books.kept[tenant] += kv_token_time

    @invariant()
    def the_queue_is_in_the_order_of_the_keys(self) -> None:
        policy = self.policy
        order = [r.id for r in sorted(policy.waiting(), key=policy.key)]
        assert policy.order() == order
        head = policy.head()
        assert head == (order[0] if order else None) or (head is None and policy.held_until() is not None)

    @invariant()
    def the_victim_is_the_last_of_the_order_or_by_the_policys_own_rule(self) -> None:
        policy = self.policy
        if len(policy.running) > 1:
            rule = VICTIMS.get(self.policy_name, lambda p: max(p.running.values(), key=p.key))
            assert policy.victim() == rule(policy).id

    @invariant()
    def no_two_open_runs_have_the_same_place(self) -> None:
        runs = self.policy.runs.values()
        assert len({self.policy.place(run) for run in runs}) == len(runs)

    @invariant()
    def no_two_keys_are_equal(self) -> None:
        for requests in (list(self.policy.waiting()), list(self.policy.running.values())):
            assert len({self.policy.key(request) for request in requests}) == len(requests)

    @invariant()
    def only_a_policy_that_says_so_takes_back(self) -> None:
        assert self.policy.takes_back or self.policy.gives_way() is None

    @invariant()
    def the_first_in_order_are_those_of_the_whole_order(self) -> None:
        order = self.policy.order()
        for limit in (0, 1, 2, 3, len(order), len(order) + 1):
            assert self.policy.order(limit) == order[:limit]

    @invariant()
    def who_comes_first_has_no_larger_key(self) -> None:
        waiting = [self.policy.requests[request] for request in self.policy.order()]
        shown = [self.policy.order_key(request) for request in waiting]
        assert all(tuple(parts) == self.policy.parts[: len(parts)] != () for parts in shown)
        keys = [tuple(parts.values()) for parts in shown]
        assert keys == sorted(keys)
        assert all(type(part) in (int, float) for key in keys for part in key)

    @invariant()
    def kv_token_time_is_counted_whatever_the_cost_model(self) -> None:
        for tenant, (_, _, kv) in self.books.tokens.items():
            assert self.policy.kv_token_time[tenant] == pytest.approx(kv + self.books.kept[tenant])

    @invariant()
    def revisions_never_fall(self) -> None:
        assert self.policy.revisions >= self.revisions
        self.revisions = self.policy.revisions

    @invariant()
    def a_lone_running_request_is_never_a_victim(self) -> None:
        if len(self.books.running) < 2:
            assert self.policy.victim() is None

    @invariant()
    def every_token_is_charged_once(self) -> None:
        for tenant, (prompts, outputs, kv) in self.books.tokens.items():
            match self.cost_model:
                case WeightedTokens():
                    assert self.policy.service[tenant] == pytest.approx(prompts + 2 * outputs)
                case KVTokenTimeCost():
                    assert self.policy.service[tenant] == pytest.approx(kv + self.books.kept[tenant])

    @invariant()
    def what_applications_had_is_what_their_tenants_had(self) -> None:
        assert sum(self.policy.application_service.values()) == pytest.approx(sum(self.policy.service.values()))

    @invariant()
    def virtual_time_never_falls(self) -> None:
        now = self.policy.report().virtual_time
        if now is not None:
            assert now >= self.virtual_time
            self.virtual_time = now

    def teardown(self) -> None:
        """Everything that arrived can be served to the end."""
        while self.books.waiting.keys() & self.policy.requests.keys() - self.policy.running.keys():
            self.now = max(self.now, self.policy.held_until() or self.now)
            self.policy.time_passed(self.now)
            head = self.policy.head()
            assert head is not None
            self.policy.admitted(head, self.now)
        for request in list(self.policy.running):
            self.policy.finished(request, self.now)
        for run in self.books.open_runs:
            self.policy.run_ended(run, self.now)
        assert not self.policy.requests
        assert not self.policy.runs


@pytest.mark.parametrize("cost", COSTS)
@pytest.mark.parametrize("name", ALL)
def test_policy_conforms(name: str, cost: str) -> None:
    machine = type(f"{name} {cost}", (PolicyMachine,), {"policy_name": name, "cost_model": COSTS[cost]})
    run_state_machine_as_test(machine, settings=examples(40, stateful_step_count=40))


def test_who_has_a_rule_of_its_own_for_its_victim() -> None:
    made = {name: build_policy(name, WeightedTokens()) for name in POLICIES}
    own = {name for name, policy in made.items() if type(policy).victim is not Policy.victim}
    assert own == VICTIMS.keys() - {"TwoLevelVTC"}


@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_that_says_it_takes_back_may_do_so(name: str) -> None:
    policy = build_policy(name, WeightedTokens())
    assert policy.takes_back == (type(policy).gives_way is not Policy.gives_way)


class Backwards(FCFS):
    """Its queue is not in the order of its keys."""

    def head(self) -> RequestId | None:
        return next(reversed(self.order()), None)


def test_a_queue_that_is_not_in_the_order_of_the_keys_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    class Machine(PolicyMachine):
        policy_name = "Backwards"
        cost_model = WeightedTokens()

    monkeypatch.setitem(ALL, "Backwards", Backwards)
    machine = Machine()
    machine.run_arrives(TENANTS[0], APPLICATIONS[0], None, [1])
    machine.the_queue_is_in_the_order_of_the_keys()
    machine.run_arrives(TENANTS[0], APPLICATIONS[0], None, [1])
    with pytest.raises(AssertionError):
        machine.the_queue_is_in_the_order_of_the_keys()


def policy_with_one_request(name: str) -> Policy:
    policy = build_policy(name, WeightedTokens())
    policy.run_arrived(Run(RunId("r"), TenantId("t"), ApplicationId("a")), 0)
    policy.request_arrived(Request(RequestId("q"), RunId("r"), 10), 0)
    return policy


@pytest.mark.parametrize("name", POLICIES)
def test_impossible_events_are_refused_and_change_nothing(name: str) -> None:
    policy = policy_with_one_request(name)
    with pytest.raises(EventOrderError, match="waiting, not running"):
        policy.finished(RequestId("q"), 0)
    with pytest.raises(EventOrderError, match="arrived already"):
        policy.request_arrived(Request(RequestId("q"), RunId("r"), 10), 0)
    with pytest.raises(EventOrderError, match="1 requests open"):
        policy.run_ended(RunId("r"), 0)
    with pytest.raises(UnknownIdError, match="is not open"):
        policy.admitted(RequestId("x"), 0)
    with pytest.raises(ValueError, match="positive"):
        policy.set_weight(TenantId("t"), 0, 0)
    assert policy.order() == ["q"]


@pytest.mark.parametrize("name", POLICIES)
def test_admitting_twice_is_refused(name: str) -> None:
    policy = policy_with_one_request(name)
    policy.admitted(RequestId("q"), 0)
    with pytest.raises(EventOrderError, match="running, not waiting"):
        policy.admitted(RequestId("q"), 0)


def test_an_unknown_policy_is_refused_with_the_names_that_exist() -> None:
    with pytest.raises(ValueError, match=r"unknown policy 'best'.*FCFS.*TieredJustitia.*VTC"):
        build_policy("best", WeightedTokens())
