"""Every policy in an engine of its own, whatever happens: runs with next stages, clients that give up, preemption,
changes of weight, time without progress and progress without a duration; and changes of the policy itself.

Books of the engine's own show that it is never left idle or half empty while the policy's head would fit, that no
token is produced twice, that virtual time and tenants' service never fall, and that it can be drained at any time.
"""

from collections import defaultdict
from dataclasses import dataclass

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from justitia_scheduling.baselines.registry import POLICIES, build_policy
from justitia_scheduling.core.cost import CostModel, EngineTime, StepTime, WeightedTokens
from justitia_scheduling.core.model import Progress, Request, Run, Step
from justitia_scheduling.core.opened import OpenRequest, OpenRun
from justitia_scheduling.core.policy import Policy
from justitia_scheduling.core.takeover import carry_over
from justitia_vocabulary.units import ApplicationId, RequestId, RunId, TenantId

CAPACITY = 100
TENANTS = [TenantId(f"t{i}") for i in range(3)]


@dataclass
class Asked:
    run: RunId
    prompt: int
    output: int
    produced: int = 0
    prefilled: bool = False
    lost: bool = False

    @property
    def needs(self) -> int:
        """KV tokens with the next token."""
        return self.prompt + self.produced + 1


class Engine(RuleBasedStateMachine):
    policy_name: str
    cost_model: CostModel = EngineTime(StepTime(0.01, 0.001, 0.00001))

    def __init__(self) -> None:
        super().__init__()
        self.policy: Policy = build_policy(self.policy_name, self.cost_model)
        self.policy.set_capacity(CAPACITY, 0)
        self.now, self.virtual_time, self.busy = 0.0, 0.0, 0.0
        self.asked: dict[RequestId, Asked] = {}
        self.running: set[RequestId] = set()
        self.stages: dict[RunId, list[list[tuple[int, int]]]] = {}
        self.finished: set[RequestId] = set()
        self.service: defaultdict[TenantId, float] = defaultdict(float)
        self.ids = 0

    @rule(
        tenant=st.sampled_from(TENANTS),
        application=st.sampled_from(["a", "b"]),
        predicted=st.none() | st.floats(1, 1e5),
        stages=st.lists(
            st.lists(st.tuples(st.integers(1, 40), st.integers(1, 12)), min_size=1, max_size=3), min_size=1, max_size=3
        ),
    )
    def run_arrives(
        self, tenant: TenantId, application: str, predicted: float | None, stages: list[list[tuple[int, int]]]
    ) -> None:
        self.ids += 1
        run = Run(RunId(f"run{self.ids}"), tenant, ApplicationId(application), predicted)
        self.policy.run_arrived(run, self.now)
        self.stages[run.id] = stages
        self.next_stage(run.id)
        self.admit()

    def next_stage(self, run: RunId) -> None:
        for prompt, output in self.stages[run].pop(0):
            self.ids += 1
            request = RequestId(f"q{self.ids}")
            self.asked[request] = Asked(run, prompt, output)
            self.policy.request_arrived(Request(request, run, prompt, float(output)), self.now)

    @rule(tenant=st.sampled_from(TENANTS), weight=st.sampled_from([0.1, 0.5, 2.0, 8.0]))
    def reweight(self, tenant: TenantId, weight: float) -> None:
        self.policy.set_weight(tenant, weight, self.now)
        self.admit()

    @rule(
        application=st.sampled_from(["a", "b"]),
        weight=st.sampled_from([0.1, 1.0, 8.0]),
        priority=st.sampled_from([0, 0, 1]),
    )
    def share(self, application: str, weight: float, priority: int) -> None:
        self.policy.set_application(ApplicationId(application), weight, priority, self.now)
        self.admit()

    @rule(by=st.sampled_from([0.001, 1.0, 1000.0]))
    def clock_stalls(self, by: float) -> None:
        self.now += by
        self.policy.time_passed(self.now)
        self.admit()

    @precondition(lambda self: self.running)
    @rule(observed=st.booleans(), steps=st.integers(1, 4))
    def iterate(self, observed: bool, steps: int) -> None:
        for _ in range(steps):
            self.step(observed)

    def step(self, observed: bool) -> None:
        self.make_room()
        progress = []
        for request in sorted(self.running):
            asked = self.asked[request]
            again = asked.prompt + asked.produced if asked.lost else 0
            progress.append(Progress(request, 0 if asked.prefilled else asked.prompt, 1, again))
            asked.produced += 1
            asked.prefilled, asked.lost = True, False
        if progress:
            self.busy += 0.02 if observed else 0.0
            self.policy.stepped(Step(progress, 0.02 if observed else None), self.now)
        for request in sorted(self.running):
            if self.asked[request].produced == self.asked[request].output:
                self.leave(request)
        self.admit()

    def make_room(self) -> None:
        while sum(self.asked[request].needs for request in self.running) > CAPACITY:
            victim = self.policy.victim()
            assert victim in self.running
            self.preempt(victim)

    def preempt(self, request: RequestId) -> None:
        self.policy.preempted(request, self.now)
        self.running.remove(request)
        self.asked[request].lost = self.asked[request].prefilled

    def leave(self, request: RequestId) -> None:
        assert request not in self.finished, "served once"
        self.policy.finished(request, self.now)
        self.finished.add(request)
        self.forget(request)

    def forget(self, request: RequestId) -> None:
        run = self.asked.pop(request).run
        self.running.discard(request)
        if not any(asked.run == run for asked in self.asked.values()):
            if self.stages[run]:
                self.next_stage(run)
            else:
                self.policy.run_ended(run, self.now)
                del self.stages[run]

    @precondition(lambda self: self.asked)
    @rule(data=st.data())
    def client_gives_up(self, data: st.DataObject) -> None:
        request = data.draw(st.sampled_from(sorted(self.asked)))
        self.policy.aborted(request, self.now)
        self.forget(request)
        self.admit()

    def admit(self) -> None:
        """The loop that `policy.py` gives to hosts."""
        free = CAPACITY - sum(self.asked[request].needs for request in self.running)
        while (head := self.policy.head()) is not None:
            assert head in self.asked
            assert head not in self.running
            if self.asked[head].needs <= free:
                self.policy.admitted(head, self.now)
                self.running.add(head)
                free -= self.asked[head].needs
            elif (loser := self.policy.gives_way()) is not None:
                free += self.asked[loser].needs
                self.preempt(loser)
            else:
                break

    @invariant()
    def the_engine_is_not_idle_while_work_waits(self) -> None:
        if self.asked and self.policy.held_until() is None:
            assert self.running, "every request fits the engine alone, so some head does"

    @invariant()
    def a_head_that_fits_has_been_admitted(self) -> None:
        head = self.policy.head()
        if head is not None:
            assert self.asked[head].needs > CAPACITY - sum(self.asked[request].needs for request in self.running)

    @invariant()
    def clocks_and_service_never_fall(self) -> None:
        now = self.policy.report().virtual_time
        if now is not None:
            assert now >= self.virtual_time
            self.virtual_time = now
        for tenant, service in self.policy.service.items():
            assert service >= self.service[tenant]
            self.service[tenant] = service

    @invariant()
    def what_is_open_is_what_the_engine_has_not_ended(self) -> None:
        assert self.policy.requests.keys() == self.asked.keys()
        assert self.policy.running.keys() == self.running
        assert self.policy.runs.keys() == self.stages.keys()

    def teardown(self) -> None:
        """The engine drains, each token taking an iteration at most, preempted ones more than once."""
        for _ in range(100_000):
            if not self.asked:
                return
            self.now = max(self.now, self.policy.held_until() or self.now)
            self.policy.time_passed(self.now)
            self.admit()
            self.step(observed=True)
        raise AssertionError("the engine does not drain")


@pytest.mark.parametrize("name", POLICIES)
def test_any_history_is_served(name: str) -> None:
    machine = type(f"{name} engine", (Engine,), {"policy_name": name})
    run_state_machine_as_test(machine, settings=settings(max_examples=30, stateful_step_count=40))


ORDERED_BY_WHAT_IS_CARRIED = {"fcfs", "sarathi", "parrot", "mlfq", "srpt", "sjf"}
"""Policies whose order follows from the open requests alone, where each is told its length."""


def books(policy: Policy) -> tuple[object, ...]:
    """All that a change of policy must keep."""

    def of_run(run: OpenRun) -> tuple[object, ...]:
        return (run.run, run.arrival, run.kv_token_time, run.aborted, run.requests)

    def of_request(request: OpenRequest) -> tuple[object, ...]:
        done = (request.prefilled, request.produced, request.preemptions, request.cached, request.charged)
        return (request.request, request.run.id, request.arrival, request.status, request.begun, *done)

    requests = policy.requests.values()
    return (
        {run.id: of_run(run) for run in policy.runs.values()},
        {request.id: of_request(request) for request in requests},
        [r.id for r in sorted(requests, key=lambda r: r.sequence)],
        [r.id for r in sorted(requests, key=lambda r: r.waits_since) if r.preemptions],
        list(policy.running),
        policy.service,
        policy.application_service,
        policy.weights,
        policy.shares,
        policy.capacity,
    )


class ChangingEngine(Engine):
    """Weighted tokens, so that what a request must have been charged by now is known to the token."""

    cost_model = WeightedTokens()

    @rule(name=st.sampled_from(sorted(POLICIES)))
    def the_policy_changes(self, name: str) -> None:
        old, new = self.policy, build_policy(name, self.cost_model)
        before = books(old)
        carry_over(old, new, self.now, keep_service=True)
        assert books(new) == before == books(old)
        assert (new.head() is not None) == any(new.waiting()) or new.held_until() is not None
        assert sorted(new.order()) == sorted(r.id for r in new.waiting())
        if type(old) is type(new) and name in ORDERED_BY_WHAT_IS_CARRIED:
            assert new.order() == old.order()
        self.policy = new
        self.virtual_time = 0.0
        self.admit()

    @rule()
    def the_policy_is_made_anew(self) -> None:
        self.the_policy_changes(next(name for name, made in POLICIES.items() if made is type(self.policy)))

    @invariant()
    def each_token_was_charged_once(self) -> None:
        for request, asked in self.asked.items():
            opened = self.policy.requests[request]
            assert opened.charged == (asked.prompt if opened.begun else 0) + 2 * asked.produced


@pytest.mark.parametrize("name", POLICIES)
def test_whatever_the_policy_is_changed_to_nothing_is_lost_or_charged_twice(name: str) -> None:
    machine = type(f"changing {name} engine", (ChangingEngine,), {"policy_name": name})
    run_state_machine_as_test(machine, settings=settings(max_examples=30, stateful_step_count=40))


def test_a_policy_that_keeps_its_head_back_is_found_out() -> None:
    class Idle(Engine):
        policy_name = "fcfs"

        def __init__(self) -> None:
            super().__init__()
            self.policy.head = lambda: None  # type: ignore[method-assign]

    engine = Idle()
    engine.run_arrives(TENANTS[0], "a", None, [[(10, 2)]])
    with pytest.raises(AssertionError, match="some head does"):
        engine.the_engine_is_not_idle_while_work_waits()


def test_a_clock_that_falls_is_found_out() -> None:
    class Falling(Engine):
        policy_name = "justitia"

    engine = Falling()
    engine.run_arrives(TENANTS[0], "a", 1e3, [[(10, 4)]])
    engine.iterate(observed=True, steps=2)
    engine.clocks_and_service_never_fall()
    engine.virtual_time += 1e9
    with pytest.raises(AssertionError):
        engine.clocks_and_service_never_fall()
