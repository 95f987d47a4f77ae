"""What the pool's other engines did, as this engine's policy hears it."""

from collections import defaultdict

from justitia_channel.messages import Configure, Elsewhere, RunOfPool, Ticket
from justitia_engine.elsewhere import OtherEngines
from justitia_engine.host import EngineHost, SequenceName
from justitia_engine.untold import StepDone
from justitia_scheduling.core.cost import KVTokenTimeCost
from justitia_scheduling.policies.fcfs import FCFS
from justitia_scheduling.policies.tiered import TieredJustitia
from justitia_vocabulary.units import ApplicationId, RequestId, RunId, TenantId

GOLD, SILVER = TenantId("gold"), TenantId("silver")
APPLICATION = ApplicationId("ns/app")
WEIGHTS = {"gold": 2.0, "silver": 1.0}
RUN = RunId("run")
UNIT = KVTokenTimeCost().unit


def configuration(
    cost_model: str = "kv-token-time", *, pooled: bool = True, policy: str = "tiered-justitia"
) -> Configure:
    return Configure(1, policy, cost_model, WEIGHTS, pooled=pooled)


class Host(EngineHost):
    """With the engine's own counts of output."""

    def __init__(self, configured: Configure) -> None:
        self.output: defaultdict[RequestId, int] = defaultdict(int)
        super().__init__(FCFS(KVTokenTimeCost()), 1000, 0.0, self.output.__getitem__)
        self.configure(configured, 0.0)

    def counter(self) -> float:
        """Gold's, under VTC, by the key of a request of it that waits."""
        (waiting,) = self.policy.waiting()
        return self.policy.order_key(waiting)["tenantCounter"]

    def waits(self) -> None:
        self.ticket(Ticket("w", GOLD, APPLICATION, RunId("waits")), 0.0)
        self.queued(SequenceName(RequestId("w#0"), "w", 0), 10, 0.0)

    def runs(self, key: str, run: RunId, produced: int) -> None:
        """A request of the run comes, and produces so much."""
        sequence = SequenceName(RequestId(f"{key}#0"), key, 0)
        self.ticket(Ticket(key, GOLD, APPLICATION, run), 0.0)
        self.queued(sequence, 10, 0.0)
        self.admitted(sequence.id, 0, 0.0)
        self.output[sequence.id] = produced
        self.stepped(StepDone(1, produced, 10, (), 0.01))
        self.tell(1.0)


def told(
    service: dict[TenantId, float] | None = None, delivered: dict[RunId, float] | None = None, unit: str = UNIT
) -> Elsewhere:
    return Elsewhere(unit, service or {}, [RunOfPool(RUN, GOLD, APPLICATION, 50.0)], delivered or {})


def test_totals_move_counters_once_and_are_no_service_of_this_engine() -> None:
    on = Host(configuration(policy="vtc"))
    on.waits()
    for total in (6.0, 6.0, 4.0, 10.0):
        on.elsewhere.hear(told({GOLD: total}), 0.0)
    assert on.counter() == 5.0
    assert not on.snapshot().service.get(GOLD)


def test_a_run_of_others_is_known_and_its_requests_here_belong_to_it() -> None:
    on = Host(configuration())
    on.elsewhere.hear(told(delivered={RUN: 40.0}), 0.0)
    on.runs("a", RUN, 5)
    here = on.policy.runs[RUN].kv_token_time
    assert here > 0
    assert on.policy.runs[RUN].attained >= 40.0 + here


def test_what_was_delivered_here_is_told_once_and_without_what_others_did() -> None:
    on = Host(configuration())
    on.elsewhere.hear(told(delivered={RUN: 40.0}), 0.0)
    on.runs("a", RUN, 5)
    delivered = on.elsewhere.delivered()
    assert delivered is not None
    assert delivered.runs == {RUN: on.policy.runs[RUN].attained - 40.0}
    assert on.elsewhere.delivered() is None


def test_an_engine_that_shares_with_nobody_counts_nothing_for_others() -> None:
    on = Host(configuration(pooled=False))
    on.runs("a", RUN, 5)
    assert on.policy.undisclosed is None
    assert on.elsewhere.delivered() is None


def test_another_policy_is_told_again_and_another_cost_model_is_not() -> None:
    on = Host(configuration(policy="fcfs"))
    on.waits()
    on.elsewhere.hear(told({GOLD: 6.0}), 0.0)
    on.configure(configuration(policy="vtc"), 1.0)
    assert on.counter() == 3.0
    on.elsewhere.hear(told({GOLD: 6.0}), 1.0)
    assert on.counter() == 3.0
    on.configure(configuration("engine-time", policy="vtc"), 2.0)
    assert on.counter() == 0.0
    on.elsewhere.hear(told({GOLD: 8.0}), 2.0)
    assert on.counter() == 0.0


def test_another_sidecar_counts_from_its_own_beginning() -> None:
    on = Host(configuration(policy="vtc"))
    on.waits()
    on.elsewhere.hear(told({GOLD: 6.0}), 0.0)
    on.end_runs(1.0)
    on.elsewhere.hear(told({GOLD: 2.0}), 1.0)
    assert on.counter() == 4.0


def test_the_default_policy_counts_what_others_have_served_for_weight() -> None:
    tiered = TieredJustitia(KVTokenTimeCost())
    tiered.set_weight(GOLD, 2.0, 0.0)
    others = OtherEngines(tiered)
    for total in (6.0, 6.0, 4.0, 10.0):
        others.hear(told({GOLD: total}), 0.0)
    assert tiered.counters[GOLD] == 5.0
    others.forget()
    others.hear(told({GOLD: 2.0}), 1.0)
    assert tiered.counters[GOLD] == 6.0
    moved = TieredJustitia(KVTokenTimeCost())
    moved.set_weight(GOLD, 2.0, 0.0)
    others.moved_to(moved)
    assert moved.counters[GOLD] == 1.0
