from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from justitia_api.config import ApplicationConfig, PoolConfig, SchedulingConfig, TenantConfig
from justitia_api.wire import Refusal
from justitia_scheduling.baselines.registry import build_policy
from justitia_scheduling.core.cost import EngineTime, WeightedTokens
from justitia_scheduling.core.handover import LEAST, MOST
from justitia_scheduling.core.opened import OpenRequest
from justitia_scheduling.core.policy import Policy
from justitia_scheduling.core.step_time import PRIOR
from justitia_sidecar.admission.beginnings import PATIENCE, TRIES
from justitia_sidecar.admission.books import AT_A_TIME
from justitia_sidecar.admission.bounds import check_fits
from justitia_sidecar.admission.in_front import InFront
from justitia_sidecar.admission.outputs import OutputMeans
from justitia_sidecar.admission.request import TrackedRequest
from justitia_sidecar.admission.stages import Stage
from justitia_sidecar.engine.view import EngineView
from justitia_sidecar.refusals import RefusalError
from justitia_vocabulary.units import ApplicationId, RequestId, TenantId
from justitia_vocabulary.waiting import WaitingReason
from support.examples import examples
from support.tracked import tracked_request

GOLD = TenantId("gold")
READY = EngineView(ready=True, kv_tokens=1000, block_size=10, longest=900)
FULL = EngineView(ready=True, kv_tokens=1000, block_size=10, longest=900, waiting=3, for_capacity=3)
"""Three requests wait for capacity."""


def config(**tenant: Any) -> PoolConfig:
    return PoolConfig(
        generation=1,
        namespace="ns",
        name="pool",
        model="m",
        tenants=(TenantConfig(name="gold", weight=1, **tenant), TenantConfig(name="silver", weight=1)),
    )


def room(policy: str = "fcfs", view: EngineView = READY, **tenant: Any) -> InFront:
    admission = InFront(config(**tenant), build_policy(policy, WeightedTokens()))
    admission.engine_told(view, 0)
    return admission


class LatestFirst(Policy):
    """Each request goes before all that came before it."""

    parts = ("latest",)

    def key(self, request: OpenRequest) -> tuple[float, ...]:
        return (-request.sequence,)


def latest_first() -> InFront:
    admission = InFront(config(), LatestFirst(WeightedTokens()))
    admission.engine_told(READY, 0)
    return admission


class Counter:
    value = 0


def ask(
    admission: InFront,
    prompt: int = 100,
    output: int = 100,
    *,
    now: float = 0.0,
    tenant: str = "gold",
    run: str | None = None,
    streamed: bool = True,
    exact: bool = True,
    fixed: bool = False,
) -> TrackedRequest:
    Counter.value += 1
    application = ApplicationConfig(namespace="ns", name=tenant, tenant=tenant)
    ticket = tracked_request(
        f"q{Counter.value}",
        admission.books.runs.enter(TenantId(tenant), application, run, now),
        prompt=prompt,
        exact=exact,
        output=output,
        fixed=fixed,
        streamed=streamed,
        arrival=now,
    )
    admission.enter(ticket, now)
    admission.pump(now)
    return ticket


def reasons(admission: InFront, now: float = 0.0) -> dict[str, WaitingReason]:
    return {ticket.id: reason for ticket, reason in admission.waiting(now)}


def test_a_request_goes_at_once() -> None:
    assert ask(room()).stage is Stage.SENT


def test_priority_numbers_follow_the_policys_order() -> None:
    for admission, reverse in ((room(), False), (latest_first(), True)):
        numbers = [ask(admission).placement.number for _ in range(5)]
        assert numbers == sorted(numbers, reverse=reverse)


def test_the_engine_is_given_few_that_it_has_not_begun_and_go_before_the_head() -> None:
    admission = room()
    tickets = [ask(admission, 10, 10) for _ in range(LEAST + 2)]
    assert [t.stage for t in tickets] == [Stage.SENT] * LEAST + [Stage.QUEUED] * 2
    assert reasons(admission)[tickets[-2].id] is WaitingReason.ENGINE_BUSY
    assert reasons(admission)[tickets[-1].id] is WaitingReason.BEHIND_OTHERS
    admission.counted(tickets[0], 10, 1, 0.5)
    assert [t.stage for t in tickets[-2:]] == [Stage.SENT, Stage.QUEUED]


def test_a_head_that_goes_before_those_that_have_not_begun_does_not_wait_for_them() -> None:
    for admission, waits in ((latest_first(), False), (room(), True)):
        for _ in range(LEAST):
            ask(admission)
        assert (ask(admission).stage is Stage.QUEUED) is waits


def test_the_head_that_is_not_sent_blocks() -> None:
    admission = room()
    for _ in range(LEAST):
        ask(admission, 10, 10)
    big, small = ask(admission, 300, 100), ask(admission, 10, 10)
    assert reasons(admission) == {big.id: WaitingReason.ENGINE_BUSY, small.id: WaitingReason.BEHIND_OTHERS}


def test_kv_space_is_the_engines_business() -> None:
    """It admits by what is really held. The sidecar tells what that is, as far as it has counted."""
    admission = room()
    first, second = ask(admission, 900, 500), ask(admission, 900, 500)
    assert (first.stage, second.stage, admission.held) == (Stage.SENT, Stage.SENT, 1800)
    admission.counted(first, 900, 7, 1.0)
    assert admission.held == 1807
    admission.leave(first, 1.0, completed=True)
    assert admission.held == 900


def test_more_is_sent_where_the_engine_begins_with_all_of_it() -> None:
    admission, now = room(), 0.0
    waiting = [ask(admission, 1, 1) for _ in range(400)]
    sent = 0
    for _ in range(6):
        given = [t for t in waiting if t.stage is Stage.SENT]
        sent = max(sent, len(given))
        for ticket in given:
            ticket.timing.answered = now + 0.01
        now += 0.05
        for ticket in given:
            admission.counted(ticket, 1, 1, now)
    assert sent == MOST


def test_outputs_are_predicted_by_the_applications_mean_with_a_margin() -> None:
    means = OutputMeans()
    application = ApplicationConfig(namespace="ns", name="a", tenant="t").id
    assert means.predict(application, 500) == 500
    for produced in (10, 30):
        means.observe(application, produced)
    assert means.predict(application, 500) == 30
    assert means.predict(application, 7) == 7


def test_text_prompts_are_charged_when_the_engine_has_counted_them() -> None:
    admission = room()
    ticket = ask(admission, 80, exact=False)
    assert admission.policy.service[GOLD] == 0
    admission.counted(ticket, 123, 1, 0)
    admission.counted(ticket, 123, 4, 0)
    assert admission.policy.service[GOLD] == 123 + 2 * 4


def test_what_is_expected_of_a_text_prompt_orders_runs_and_is_not_charged() -> None:
    admission = room("tiered-justitia")
    before = ask(admission, 800, 10, exact=False)
    admission.counted(before, 10, 10, 0)
    admission.leave(before, 0, completed=True)
    assert sum(admission.policy.service.values()) == 10 + 2 * 10
    for _ in range(LEAST):
        ask(admission, 10, 10)
    charged = sum(admission.policy.service.values())
    long, short = ask(admission, 900, 10, exact=False, run="a"), ask(admission, 5, 10, exact=False, run="b")
    assert list(reasons(admission)) == [short.id, long.id]
    assert sum(admission.policy.service.values()) == charged


def test_an_aborted_request_keeps_what_it_was_charged() -> None:
    admission = room()
    ticket = ask(admission)
    admission.counted(ticket, 100, 3, 0)
    admission.leave(ticket, 0, completed=False)
    assert admission.policy.service[GOLD] == 100 + 2 * 3
    assert not admission.policy.requests
    assert not admission.policy.runs


def test_several_tokens_in_one_chunk_cost_what_they_cost_one_by_one() -> None:
    services = []
    for chunks in ([1, 2, 3, 4, 5], [5]):
        admission = InFront(config(), build_policy("fcfs", EngineTime(PRIOR)))
        admission.engine_told(READY, 0)
        ticket = ask(admission)
        for produced in chunks:
            admission.counted(ticket, 100, produced, 0)
        services.append(admission.policy.service[GOLD])
    assert services[0] == pytest.approx(services[1])


def test_a_tenants_limit_of_running_requests_keeps_its_others_out() -> None:
    admission = room(limits={"running_requests": 1})
    first, second, other = ask(admission, 10, 10), ask(admission, 10, 10), ask(admission, 10, 10, tenant="silver")
    assert (first.stage, second.stage, other.stage) == (Stage.SENT, Stage.HELD, Stage.SENT)
    assert reasons(admission) == {second.id: WaitingReason.TENANT_LIMIT}
    admission.leave(first, 1, completed=False)
    assert second.stage is Stage.SENT


def test_a_held_request_can_leave() -> None:
    admission = room(limits={"running_requests": 1})
    ask(admission)
    held = ask(admission)
    admission.leave(held, 1, completed=False)
    assert admission.books.queued == 0
    assert not reasons(admission)


def test_full_queues_refuse() -> None:
    admission = room(limits={"queued_requests": 1}, view=EngineView())
    admission.books.check_room(GOLD, ApplicationId("ns/gold"))
    ask(admission)
    with pytest.raises(RefusalError) as refused:
        admission.books.check_room(GOLD, ApplicationId("ns/gold"))
    assert refused.value.refusal is Refusal.TENANT_QUEUE_FULL
    admission.books.check_room(TenantId("silver"), ApplicationId("ns/silver"))


def test_nothing_is_admitted_while_the_engine_is_away() -> None:
    admission = room(view=EngineView())
    ticket = ask(admission)
    assert reasons(admission) == {ticket.id: WaitingReason.ENGINE_UNAVAILABLE}
    admission.engine_told(READY, 1)
    assert ticket.stage is Stage.SENT


def test_a_request_that_can_never_fit_is_refused() -> None:
    check_fits(800, 100, READY.bounds)
    with pytest.raises(RefusalError) as refused:
        check_fits(801, 100, READY.bounds)
    assert refused.value.refusal is Refusal.PROMPT_TOO_LONG


def test_whole_answers_count_as_begun_when_their_prefill_should_be_over() -> None:
    admission = room()
    tickets = [ask(admission, 10, 10, streamed=False) for _ in range(LEAST + 1)]
    assert tickets[-1].stage is Stage.QUEUED
    start = admission.next_look(0)
    assert start is not None
    admission.pump(start)
    assert tickets[-1].stage is Stage.SENT


def test_no_more_whole_answers_are_taken_to_have_begun_between_two_probes_than_a_window_has() -> None:
    admission, now = room(), 0.0
    tenants = [f"t{i % 12}" for i in range(3 * MOST)]
    tickets = [ask(admission, 1, 1, streamed=False, tenant=tenant) for tenant in tenants]
    for probe in (1, 2):
        while (wake := admission.next_look(now)) is not None:
            now = wake
            admission.pump(now)
        assert sum(t.stage is Stage.SENT for t in tickets) == probe * MOST + LEAST
        admission.engine_told(READY, now)


def test_a_tenant_of_whole_answers_that_do_not_begin_gives_the_engine_a_few_windows_of_them() -> None:
    """Each is presumed to have begun, and the engine says that something is deferred."""
    admission, now = room(), 0.0
    slow = [ask(admission, 1, 1, tenant="silver", streamed=False) for _ in range(10 * LEAST)]
    deferred = EngineView(ready=True, kv_tokens=1000, block_size=10, longest=900, waiting=5, deferred=5)
    for _ in range(20):
        admission.engine_told(deferred, now)
        while (wake := admission.next_look(now)) is not None:
            now = wake
            admission.pump(now)
    assert sum(t.stage is Stage.SENT for t in slow) == 3 * LEAST
    assert ask(admission, 1, 1, now=now).stage is Stage.SENT
    admission.engine_told(READY, now)
    assert sum(t.stage is Stage.SENT for t in slow) > 3 * LEAST


def test_whole_answers_that_wait_for_capacity_by_the_engines_count_have_not_begun() -> None:
    admission = room()
    tickets = [ask(admission, 1, 1, streamed=False) for _ in range(2 * LEAST)]
    admission.engine_told(FULL, 1.0)
    assert [t.stage for t in tickets] == [Stage.SENT] * (2 * LEAST - FULL.for_capacity) + [
        Stage.QUEUED
    ] * FULL.for_capacity


def test_streams_that_do_not_begin_keep_others_waiting_for_a_time_only() -> None:
    admission = room()
    slow = [ask(admission, 10, 10, tenant="silver") for _ in range(LEAST + 3)]
    light = ask(admission, 10, 10)
    assert [t.stage for t in slow] == [Stage.SENT] * LEAST + [Stage.QUEUED] * 3
    assert admission.next_look(0) == PATIENCE
    admission.pump(PATIENCE)
    assert light.stage is Stage.SENT
    assert [t.stage for t in slow[LEAST:]] == [Stage.HELD] * 3
    assert set(reasons(admission).values()) == {WaitingReason.TENANT_NOT_BEGUN}
    later = ask(admission, 10, 10, tenant="silver", now=2.0)
    assert later.stage is Stage.HELD

    for ticket in slow[: LEAST - TRIES]:
        admission.counted(ticket, 10, 1, 3.0)
    assert [t.stage for t in (*slow[LEAST:], later)] == [Stage.HELD] * 4
    admission.counted(slow[LEAST - TRIES], 10, 1, 3.0)
    assert [t.stage for t in (*slow[LEAST:], later)] == [Stage.SENT] + [Stage.HELD] * 3
    assert not admission.policy.runs[slow[LEAST].run.id].aborted


def test_streams_that_wait_for_capacity_are_not_overdue() -> None:
    admission = room()
    waiting = [ask(admission, 10, 10) for _ in range(LEAST + 1)]
    admission.engine_told(FULL, 0.5)
    admission.pump(100 * PATIENCE)
    assert waiting[-1].stage is Stage.QUEUED
    assert admission.next_look(100 * PATIENCE) is None
    admission.engine_told(READY, 100 * PATIENCE)
    assert waiting[-1].stage is Stage.QUEUED
    assert admission.next_look(100 * PATIENCE) == 101 * PATIENCE


def test_a_stream_is_not_passed_over_by_one_that_the_engine_got_before_it() -> None:
    """The later one goes first, and reaches an engine that is just beginning with the earlier one."""
    admission = latest_first()
    earlier, later = ask(admission, 10, 10, now=0.0), ask(admission, 10, 10, now=0.1)
    assert later.placement.number < earlier.placement.number
    admission.engine_told(FULL, 0.1)
    admission.counted(earlier, 10, 1, 0.11)
    admission.pump(5 * PATIENCE)
    ask(admission, 10, 10, now=5 * PATIENCE)
    assert ask(admission, 10, 10, now=5 * PATIENCE).stage is Stage.SENT


def test_streams_that_the_engine_passes_over_are_overdue_though_others_wait_for_capacity() -> None:
    """One of those that it passes over waits for capacity itself, so that the engine's count is never 0."""
    admission = room()
    slow = [ask(admission, 10, 10, tenant="silver") for _ in range(LEAST - 1)]
    other = ask(admission, 10, 10)
    behind = ask(admission, 10, 10)
    admission.engine_told(FULL, 0.5)
    admission.counted(other, 10, 1, 0.6)
    assert behind.stage is Stage.SENT
    late = ask(admission, 10, 10, now=0.7)
    assert late.stage is Stage.QUEUED
    admission.pump(PATIENCE)
    assert late.stage is Stage.SENT
    assert ask(admission, 10, 10, tenant="silver", now=PATIENCE).stage is Stage.HELD
    assert all(t.stage is Stage.SENT for t in slow)


def test_a_tenant_has_a_few_windows_in_the_engine_and_then_waits_for_itself() -> None:
    admission = latest_first()
    tickets = [ask(admission) for _ in range(100)]
    assert sum(t.stage is Stage.SENT for t in tickets) == 3 * LEAST
    assert ask(admission, tenant="silver").stage is Stage.SENT
    assert set(reasons(admission).values()) == {WaitingReason.TENANT_NOT_BEGUN}


def test_a_prompt_that_takes_long_to_read_is_not_overdue_while_it_is_read() -> None:
    admission = room(view=EngineView(ready=True, kv_tokens=10**7, block_size=10, longest=10**6))
    prefill = PRIOR.per_step + PRIOR.per_token * 10**6
    for _ in range(LEAST + 1):
        ask(admission, 10**6, 10)
    assert admission.next_look(0) == pytest.approx(4 * prefill)


def test_so_many_enter_and_leave_the_policy_at_a_time_and_none_is_forgotten() -> None:
    admission = room()
    slow = [ask(admission, 1, 1, tenant="silver") for _ in range(LEAST + 3 * AT_A_TIME)]
    light = ask(admission, 1, 1, now=0.5)
    pumps = 0
    while (when := admission.next_look(2.0)) is not None and when <= 2.0 and pumps < 9:
        admission.pump(2.0)
        pumps += 1
    assert light.stage is Stage.SENT
    assert pumps == 3
    for ticket in slow[:LEAST]:
        admission.leave(ticket, 3.0, completed=False)
    while admission.next_look(3.0) == 3.0:
        admission.pump(3.0)
    assert not admission.books.load[TenantId("silver")].held


def test_a_ceiling_of_the_burst_reaches_a_policy_that_has_one() -> None:
    for name, bounded in (("tiered-justitia", True), ("vtc", False)):
        admission = room(name)
        before = admission.gate
        narrow = config().model_copy(update={"scheduling": SchedulingConfig(burst_seconds=0.0)})
        admission.reconfigure(narrow, admission.policy, 0, keep_service=True)
        assert (before is not None and before.burst > 0) == bounded
        assert (admission.gate is not None and admission.gate.burst == 0) == bounded


def test_a_change_of_weight_reaches_the_policy() -> None:
    admission = room()
    changed = PoolConfig(
        generation=2, namespace="ns", name="pool", model="m", tenants=(TenantConfig(name="gold", weight=7),)
    )
    admission.reconfigure(changed, admission.policy, 1, keep_service=True)
    assert admission.policy.weight(GOLD) == 7


def test_the_share_of_an_application_reaches_the_policy_and_the_one_that_takes_over() -> None:
    admission, application = room("tiered-justitia"), ApplicationConfig(namespace="ns", name="chat", tenant="gold")
    weighty = config().model_copy(
        update={"applications": (application.model_copy(update={"weight": 3.0, "priority": 2}),)}
    )
    admission.reconfigure(weighty, admission.policy, 1, keep_service=True)
    assert admission.policy.share(application.id) == (3.0, 2)
    admission.reconfigure(weighty, build_policy("vtc", WeightedTokens()), 1, keep_service=True)
    assert admission.policy.share(application.id) == (3.0, 2)
    plain = config().model_copy(update={"applications": (application,)})
    admission.reconfigure(plain, admission.policy, 2, keep_service=True)
    assert admission.policy.share(application.id) == (1.0, 0)


class Sidecar(RuleBasedStateMachine):
    """Requests arrive, start, produce, end and vanish under policies that change: nothing is lost or kept."""

    tickets = Bundle("tickets")

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.admission = room("tiered-justitia", limits={"running_requests": 3})
        self.open: set[RequestId] = set()
        self.expected = 0.0

    def pass_time(self, by: float = 0.01) -> None:
        """As its host does: pump when a request that shows nothing should have begun."""
        wake = self.admission.next_look(self.now)
        self.now += by
        if wake is not None and wake <= self.now:
            self.admission.pump(self.now)

    @rule(
        target=tickets,
        prompt=st.integers(1, 400),
        output=st.integers(1, 400),
        tenant=st.sampled_from(["gold", "silver"]),
        run=st.sampled_from([None, "a", "b"]),
        exact=st.booleans(),
        streamed=st.booleans(),
    )
    def arrive(self, **request: Any) -> TrackedRequest:
        self.pass_time()
        ticket = ask(self.admission, now=self.now, **request)
        self.open.add(ticket.id)
        return ticket

    @rule(ticket=tickets, tokens=st.integers(1, 50))
    def produce(self, ticket: TrackedRequest, tokens: int) -> None:
        self.pass_time()
        if ticket.stage in (Stage.SENT, Stage.STARTED):
            self.admission.counted(ticket, ticket.account.prompt, ticket.account.produced + tokens, self.now)

    @rule(ticket=consumes(tickets), completed=st.booleans())
    def end(self, ticket: TrackedRequest, completed: bool) -> None:
        self.pass_time()
        if ticket.account.prompt_exact and ticket.in_engine:
            self.expected += ticket.account.prompt
        self.expected += 2 * ticket.account.produced
        self.admission.leave(ticket, self.now, completed=completed)
        self.open.discard(ticket.id)

    @rule()
    def wait(self) -> None:
        self.pass_time(2 * PATIENCE)
        while (wake := self.admission.next_look(self.now)) is not None and wake <= self.now:
            self.admission.pump(self.now)

    @rule(policy=st.sampled_from(["fcfs", "vtc", "justitia", "tiered-justitia"]))
    def change_policy(self, policy: str) -> None:
        self.admission.reconfigure(config(), build_policy(policy, WeightedTokens()), self.now, keep_service=True)

    @invariant()
    def books_balance(self) -> None:
        admission = self.admission
        assert set(admission.books.requests) == self.open
        running = [t for t in admission.books.requests.values() if t.stage in (Stage.SENT, Stage.STARTED)]
        assert admission.held == sum(t.placement.resident for t in running)
        assert set(admission.policy.running) == {t.id for t in running}
        assert admission.books.queued == len(self.open) - len(running)
        assert admission.books.queued == len(list(admission.waiting(self.now)))
        assert sum(load.queued for load in admission.books.load.values()) == admission.books.queued

    @invariant()
    def nobody_is_held_for_nothing(self) -> None:
        for name, load in self.admission.books.load.items():
            of = [t for t in self.admission.books.requests.values() if t.tenant == name]
            if load.held and sum(t.stage is Stage.SENT for t in of) < TRIES:
                assert name == "gold"
                assert load.released >= 3

    @invariant()
    def every_token_is_charged_once(self) -> None:
        still = sum(
            2 * t.account.produced + (t.account.prompt if t.account.prompt_exact and t.in_engine else 0)
            for t in self.admission.books.requests.values()
        )
        assert sum(self.admission.policy.service.values()) == pytest.approx(self.expected + still)

    @invariant()
    def work_is_conserved(self) -> None:
        """The head waits only where it does not fit."""
        head = self.admission.policy.head()
        if head is not None:
            assert reasons(self.admission, self.now)[head] is not WaitingReason.BEHIND_OTHERS


Sidecar.TestCase.settings = examples(60, stateful_step_count=30)
TestSidecar = Sidecar.TestCase


@pytest.mark.parametrize(
    ("after", "streamed", "prefilled", "produced"),
    [(0.0, True, 8, 1), (0.012, True, 58, 1), (60.0, True, 800, 1), (0.012, False, 58, 1), (60.0, False, 800, 50)],
)
def test_what_is_over_before_its_answer_was_seen_is_charged_what_the_engine_should_have_done(
    after: float, streamed: bool, prefilled: int, produced: int
) -> None:
    admission = room()
    ticket = ask(admission, 800, 50, streamed=streamed, exact=False)
    # The step under way reads 8 tokens in the time that the prior gives to a token of output, and to the 800 KV tokens.
    assert admission.abandoned(ticket, after) == produced
    admission.leave(ticket, after, completed=False)
    assert (ticket.account.prompt, ticket.account.produced) == (prefilled, produced)
    assert admission.service[GOLD] == ticket.account.prompt + 2 * produced
