"""Who makes room under tiered Justitia, each decision in numbers that can be checked by hand. Who may be concerned, how
often, and what it is worth: `tests/property/test_gives_way.py`.
"""

import math

import pytest

from justitia_scheduling.core.cost import CostModel, EngineTime, KVTokenTimeCost, StepTime
from justitia_scheduling.core.model import Progress, Step
from justitia_scheduling.policies.giving_way import LONG_RUN, PATIENCE, SHORT_RUN
from justitia_scheduling.policies.tiered import TieredJustitia
from justitia_vocabulary.units import RequestId, RunId
from support.tiered_host import WIDE, A, B, Host, tiered


def test_nobody_is_preempted_who_is_alone() -> None:
    policy = tiered()
    host = Host(policy)
    assert policy.victim() is None
    only = host.run("only")
    policy.admitted(only, 0)
    assert policy.victim() is None


def test_the_victim_is_the_last_in_order_of_the_tenant_that_holds_most_for_its_weight() -> None:
    policy = tiered(burst=WIDE)
    policy.set_weight(A, 4.0, 0)
    host = Host(policy)
    for name, tenant, cost, prompt in (
        ("a", A, 1.0, 1100),
        ("b small", B, 10.0, 150),
        ("b large", B, 1e6, 150),
        ("b medium", B, 1e3, 5),
    ):
        policy.admitted(host.run(name, tenant, cost, prompt), 0)
    assert policy.victim() == "b large"
    policy.finished(RequestId("b large"), 0)
    assert policy.victim() == "a"


def test_of_one_runs_requests_the_latest_is_the_victim_and_what_is_produced_is_held_too() -> None:
    policy = tiered(burst=WIDE)
    host = Host(policy)
    first, second = host.run("run", A, cost=WIDE), host.ask("run", "second")
    other = host.run("other", B, cost=WIDE, prompt=205)
    for request in (first, second, other):
        policy.admitted(request, 0)
    assert policy.victim() == "other"
    policy.stepped(Step([Progress(first, produced=10)]), 0)
    assert policy.victim() == "second"


def ahead(
    produced: int = 1,
    asks: int = 100,
    holds: int = 300,
    weight: float = 1.0,
    cost_model: CostModel | None = None,
) -> tuple[TieredJustitia, Host]:
    """Tenant A runs a request and is gated; the head is B's, which asks for so many tokens and holds none. `holds`:
    what A's holds, with what it has produced. Steps take no time unless the cost model says so.
    """
    policy = TieredJustitia(cost_model or KVTokenTimeCost(), burst=0.0)
    policy.set_weight(B, weight, 0)
    host = Host(policy)
    mine = host.run("mine", A, cost=WIDE, prompt=holds - produced)
    host.ask("mine", "more", 1)
    host.run("theirs", B, cost=WIDE, prompt=asks)
    host.serve(mine, produced)
    assert policy.head() == "theirs"
    return policy, host


def test_who_holds_much_more_than_the_head_asks_for_gives_way_to_it() -> None:
    assert ahead(asks=100, holds=300)[0].gives_way() == "mine"


def test_a_head_of_a_tenant_that_asks_for_little_waits_for_a_place_that_becomes_free_by_itself() -> None:
    step = StepTime(per_step=0.5, per_token=0.1, per_kv_token=0.001)
    patience = PATIENCE * (0.5 + 0.1 * 1 + 0.001 * 300)
    policy, host = ahead(holds=300, cost_model=EngineTime(step))
    policy.time_passed(10.0)
    for waited in (0.0, 0.99 * patience):
        policy.time_passed(10.0 + waited)
        assert policy.gives_way() is None
    policy.time_passed(10.0 + patience)
    assert policy.gives_way() == "mine"
    policy.admitted(RequestId("theirs"), 10.0 + patience)
    policy.finished(RequestId("theirs"), 10.0 + patience)
    policy.run_ended(RunId("theirs"), 10.0 + patience)
    host.run("next", B, cost=WIDE, prompt=100)
    assert policy.gives_way() is None, "the next one waits for its own"


def test_who_has_not_run_for_long_gives_way_only_to_a_tenant_that_asks_for_little() -> None:
    policy, host = ahead(holds=300)
    assert policy.gives_way() == "mine"
    host.run("much", B, cost=2 * WIDE, prompt=1)
    for _ in range(LONG_RUN - 1):
        assert policy.gives_way() is None, "two requests, where one is served"
        host.serve(RequestId("mine"), 1)
    assert policy.gives_way() == "mine"
    policy, host = ahead(holds=300)
    much = host.run("much", B, cost=2 * WIDE, prompt=1)
    assert policy.gives_way() is None
    policy.aborted(much, 0)
    assert policy.gives_way() == "mine", "who gave up waiting asks for nothing"


@pytest.mark.parametrize(("held", "gives_way"), [(200, None), (201, "mine")])
def test_twice_as_much_is_not_much_more(held: int, gives_way: str | None) -> None:
    """What it has produced it holds, too."""
    assert ahead(produced=50, asks=100, holds=held)[0].gives_way() == gives_way


def test_each_holds_for_its_weight() -> None:
    assert ahead(asks=100, holds=150, weight=2.0)[0].gives_way() == "mine"
    assert ahead(asks=100, holds=300, weight=0.5)[0].gives_way() is None


def test_what_the_heads_tenant_holds_already_counts_too() -> None:
    policy, host = ahead(asks=100, holds=500)
    host.run("held", B, cost=1.0, prompt=200)
    assert policy.head() == "held"
    policy.admitted(RequestId("held"), 0)
    assert policy.head() == "theirs"
    assert policy.gives_way() is None


def test_nobody_gives_way_where_nothing_waits_or_nobody_is_ahead() -> None:
    policy = tiered(burst=0.0)
    host = Host(policy)
    assert policy.gives_way() is None
    mine = host.run("mine", A, cost=WIDE, prompt=1000)
    host.serve(mine, SHORT_RUN)
    assert policy.gives_way() is None
    policy = tiered(burst=WIDE, beta=math.inf)
    host = Host(policy)
    mine = host.run("mine", A, cost=WIDE, prompt=1000)
    host.run("theirs", B, cost=WIDE, prompt=1)
    host.serve(mine, SHORT_RUN)
    assert policy.gives_way() is None


def test_who_came_back_gives_way_again_when_it_has_produced_enough_since() -> None:
    policy, host = ahead(asks=10, holds=300)
    mine = RequestId("mine")
    assert policy.gives_way() == mine
    policy.preempted(mine, 0)
    policy.admitted(mine, 0)
    for _ in range(SHORT_RUN):
        assert policy.gives_way() is None
        host.serve(mine, 1)
    assert policy.gives_way() == mine


def test_where_reading_is_dear_it_has_to_produce_what_reading_it_again_took() -> None:
    """rho = c_tok / (c0 / M) = 400 tokens' work."""
    policy = TieredJustitia(EngineTime(StepTime(per_step=1.0, per_token=0.04, per_kv_token=0.0)), burst=0.0)
    host = Host(policy)
    mine = host.run("mine", A, cost=WIDE, prompt=300)
    host.ask("mine", "more", 1)
    host.run("theirs", B, cost=WIDE, prompt=10)
    host.serve(mine, 5)
    policy.preempted(mine, 0)
    policy.admitted(mine, 0)
    assert policy.gives_way() is None
    for _ in range(400):
        policy.time_passed(WIDE)
        assert policy.gives_way() is None
        host.serve(mine, 1)
    policy.time_passed(WIDE)
    assert policy.gives_way() == mine


def test_a_name_that_is_used_again_has_not_come_back() -> None:
    policy, host = ahead(asks=10, holds=300)
    mine = RequestId("mine")
    policy.preempted(mine, 0)
    policy.admitted(mine, 0)
    policy.finished(mine, 0)
    host.ask("mine", "mine", 300)
    host.serve(mine, SHORT_RUN)
    assert policy.gives_way() == mine
