"""Boosted requests under tiered Justitia: single requests that go by their tail, inside their tenant's share."""

import pytest

from justitia_scheduling.core.cost import KVTokenTimeCost
from justitia_scheduling.core.model import Progress, Request, Run, Step
from justitia_scheduling.policies.tiered import TieredJustitia
from justitia_vocabulary.policies import Knob
from justitia_vocabulary.units import ApplicationId, RequestId, RunId, TenantId

GOLD, SILVER = TenantId("gold"), TenantId("silver")
CHAT, AGENTS = ApplicationId("chat"), ApplicationId("agents")


def policy(gamma: float = 0.01) -> TieredJustitia:
    made = TieredJustitia(KVTokenTimeCost(), burst=1e9)
    made.set_capacity(10_000, 0)
    made.tune({Knob.BURST: 1e9, Knob.GAMMA_FLOOR: gamma, Knob.GAMMA_CEILING: gamma})
    return made


def ask(
    to: TieredJustitia,
    name: str,
    prompt: int = 100,
    *,
    lasts: float | None = None,
    at: float = 0.0,
    tenant: TenantId = GOLD,
    application: ApplicationId = CHAT,
    run: str | None = None,
    cost: float = 1e4,
) -> RequestId:
    to.time_passed(at)
    of = RunId(run or name)
    if of not in to.runs:
        to.run_arrived(Run(of, tenant, application, cost), at)
    to.request_arrived(Request(RequestId(name), of, prompt, boosted_for=lasts), at)
    return RequestId(name)


def test_a_boosted_request_goes_before_a_smaller_run_of_its_tenant() -> None:
    on = policy()
    ask(on, "run", cost=10.0, application=AGENTS)
    ask(on, "chat", lasts=5.0)
    assert on.order() == ["chat", "run"]


def test_boosted_requests_go_by_arrival_minus_a_boost_that_shrinks_with_their_work() -> None:
    small_gamma, large_gamma = policy(0.001), policy(100.0)
    for on in (small_gamma, large_gamma):
        ask(on, "long", 8_000, lasts=50.0, at=0.0)
        ask(on, "short", 100, lasts=50.0, at=1.0)
    assert small_gamma.order() == ["short", "long"]
    assert large_gamma.order() == ["long", "short"]


def test_the_boost_ends_when_the_objective_is_missed_and_frees_the_place_for_those_that_can_be_in_time() -> None:
    on = policy(100.0)
    ask(on, "late", lasts=5.0)
    ask(on, "run", cost=10.0, application=AGENTS)
    ask(on, "in time", lasts=5.0, at=4.0)
    assert on.order() == ["late", "in time", "run"]
    on.time_passed(5.0)
    assert on.order() == ["in time", "run", "late"]


def test_a_run_that_asks_for_more_is_a_run_like_others() -> None:
    on = policy()
    ask(on, "run", cost=10.0, application=AGENTS)
    ask(on, "first", lasts=5.0, run="chat")
    ask(on, "second", lasts=5.0, run="chat")
    assert on.order() == ["run", "first", "second"]


def take_back(on: TieredJustitia, request: RequestId, at: float) -> None:
    """The request is withdrawn and arrives again."""
    announced = on.requests[request].request
    on.withdrawn(request, at)
    on.request_arrived(announced, at)


def test_a_boosted_request_that_is_taken_back_arrives_boosted_and_its_boost_ends_no_later() -> None:
    on = policy()
    ask(on, "run", cost=10.0, application=AGENTS)
    chat = ask(on, "chat", lasts=5.0)
    take_back(on, chat, 4.0)
    assert on.order() == ["chat", "run"]
    on.time_passed(5.0)
    assert on.order() == ["run", "chat"]


def test_a_run_of_two_requests_is_not_boosted_because_they_are_taken_back() -> None:
    on = policy()
    ask(on, "run", cost=10.0, application=AGENTS)
    requests = [ask(on, name, lasts=5.0, run="chat") for name in ("first", "second")]
    for request in reversed(requests):
        take_back(on, request, 1.0)
    assert on.head() == "run"


def test_a_run_whose_first_request_began_is_not_boosted_for_its_second() -> None:
    on = policy()
    first = ask(on, "first", lasts=5.0, run="chat")
    on.admitted(first, 0)
    on.aborted(first, 1.0)
    ask(on, "run", cost=10.0, application=AGENTS)
    ask(on, "second", lasts=5.0, run="chat", at=2.0)
    assert on.head() == "run"


def test_a_preempted_request_is_boosted_by_what_it_is_known_to_need_by_then() -> None:
    on = policy(0.001)
    grown = ask(on, "grown", 100, lasts=50.0)
    on.admitted(grown, 0)
    ask(on, "middle", 300, lasts=50.0)
    on.stepped(Step([Progress(grown, prefilled=100, produced=5_000)], 1.0), 1.0)
    on.preempted(grown, 1.0)
    assert on.order() == ["middle", "grown"]


def test_a_tenant_that_the_gate_holds_back_is_not_let_in_by_a_boost() -> None:
    on = policy()
    on.tune({Knob.BURST: 0.0})
    on.admitted(ask(on, "had"), 0)
    ask(on, "theirs", tenant=SILVER, application=AGENTS)
    ask(on, "boosted", lasts=5.0)
    on.stepped(Step([Progress(RequestId("had"), prefilled=100, produced=50)], 1.0), 1.0)
    assert on.order() == ["theirs", "boosted"]


def test_gamma_is_reported_once_something_is_boosted_and_learned_from_boosted_requests_only() -> None:
    on = policy()
    on.admitted(ask(on, "run"), 0)
    assert on.report().gamma is None
    on.finished(RequestId("run"), 1.0)
    ask(on, "chat", lasts=5.0)
    assert on.report().gamma == 0.01


def test_bounds_of_gamma_that_cross_are_refused_and_change_nothing() -> None:
    on = policy()
    with pytest.raises(ValueError, match="TieredJustitia takes no such gammaFloor and gammaCeiling"):
        on.tune({Knob.GAMMA_FLOOR: 2.0, Knob.GAMMA_CEILING: 1.0, Knob.BURST: 7.0})
    assert on.burst == 1e9
