"""Objectives in a pool that shares between tenants: whose requests are ordered by them, and what moves gamma."""

from typing import Any

import pytest

from justitia_api.config import (
    ApplicationConfig,
    BoostConfig,
    BoostMode,
    KeyEntry,
    KeyTable,
    PoolConfig,
    SchedulingConfig,
    key_digest,
)
from justitia_channel.messages import Ticket
from justitia_channel.wire import decode, encode
from justitia_scheduling.core.report import PolicyReport
from justitia_scheduling.policies.tiered import TieredJustitia
from justitia_sidecar.admission.in_front import InFront
from justitia_sidecar.admission.order import Order
from justitia_sidecar.engine.client import EngineClient
from justitia_sidecar.engine.configuration import engine_configuration
from justitia_sidecar.metrics import SidecarMetrics
from justitia_sidecar.objectives.objectives import Objectives
from justitia_sidecar.service import Sidecar
from justitia_vocabulary.objectives import MetricName
from justitia_vocabulary.policies import Knob, PolicyName
from justitia_vocabulary.units import RunId
from support.learning_room import Clock
from support.listening_channel import Listening
from support.misbehaving_engine import MisbehavingEngine
from support.objectives import objective
from support.sidecar_client import GOLD, KEY, PEPPER, Client, engine_answers, pool
from support.tracked import tracked_request

EPOCH = 1.8e9
FIRST, PACE, REQUEST, RUN = MetricName
ENGINE = PolicyReport(gamma=0.1, gamma_estimate=0.1, prefill_time=0.001, decode_time=0.01)


def config(*metrics: MetricName, policy: PolicyName = PolicyName.TIERED_JUSTITIA, **more: Any) -> PoolConfig:
    declared = ApplicationConfig(
        namespace="ns", name="a", tenant="gold", objectives=tuple(objective(each) for each in metrics)
    )
    enforcement = more.pop("enforcement", "Engine")
    return pool(
        more.pop("generation", 1),
        scheduling=SchedulingConfig(policy=policy, enforcement=enforcement, **more),
        applications=(declared,),
    )


def watching(of: PoolConfig) -> Objectives:
    objectives = Objectives(EPOCH)
    objectives.configure(of)
    return objectives


def late(objectives: Objectives, metric: MetricName) -> None:
    """Two minutes in which each value is ten times its bound."""
    for second in range(120):
        now = float(second)
        [key] = objectives._by_metric["ns/a", metric]  # type: ignore[index]
        objectives._seen.observe(key, 10.0, now + EPOCH)
        objectives.look(now, [], ENGINE)


@pytest.mark.parametrize(
    ("metrics", "boosted_for"),
    [((), None), ((RUN,), None), ((FIRST,), 1.0), ((PACE,), 300.0), ((REQUEST,), 1.0), ((RUN, FIRST), 1.0)],
)
async def test_a_ticket_says_whether_the_application_has_an_objective_for_single_requests(
    engine: MisbehavingEngine, metrics: tuple[MetricName, ...], boosted_for: float | None
) -> None:
    async with EngineClient.session() as session:
        channel = Listening()
        sidecar = Sidecar(EngineClient(engine.url, session), SidecarMetrics(), Clock(), channel)
        entry = KeyEntry(digest=key_digest(PEPPER, KEY), tenant=GOLD)
        sidecar.parts.current.put_keys(KeyTable(pepper=PEPPER, keys=(entry,)))
        sidecar.parts.current.put_config(config(*metrics))
        await engine_answers(sidecar)
        assert (await Client(sidecar).run()).status == 200
        assert [ticket.boosted_for for ticket in channel.tickets()] == [boosted_for]


def test_a_ticket_of_an_earlier_release_is_not_boosted() -> None:
    told = Ticket("0" * 32, "gold", "ns/a", RunId("r"), boosted_for=1.5)  # type: ignore[arg-type]
    assert decode(encode(told)) == told
    earlier = encode(Ticket("0" * 32, "gold", "ns/a", RunId("r")))  # type: ignore[arg-type]
    assert b"boosted" not in earlier
    assert decode(earlier).boosted_for is None  # type: ignore[union-attr]


@pytest.mark.parametrize(("boosted_for", "left"), [(1.5, 1.0), (0.5, None), (None, None)])
def test_in_front_of_the_engine_the_policy_is_told_what_is_left_of_it(
    boosted_for: float | None, left: float | None
) -> None:
    order = Order(None, lambda: 0.0)
    of = config(FIRST, enforcement="Sidecar")
    order.configure(of)
    in_front = order.admission
    assert isinstance(in_front, InFront)
    [application] = of.applications
    run = in_front.books.runs.enter("gold", application, None, 0.0)  # type: ignore[arg-type]
    waits = tracked_request("x", run, boosted_for=boosted_for)
    in_front.enter(waits, 0.5)
    assert in_front.policy.requests[waits.id].request.boosted_for == left


def test_in_front_of_the_engine_the_report_is_that_of_the_policy_there() -> None:
    order = Order(None, lambda: 0.0)
    order.configure(config(FIRST, enforcement="Sidecar"))
    assert isinstance(order.admission, InFront)
    assert order.policy_report == order.admission.policy.report()
    assert order.policy_report.slack is not None


@pytest.mark.parametrize(
    ("policy", "boost", "mode"),
    [
        (PolicyName.TIERED_JUSTITIA, None, BoostMode.SLO),
        (PolicyName.TIERED_JUSTITIA, {"mode": "Adaptive"}, BoostMode.ADAPTIVE),
        (PolicyName.UNIBOOST, None, BoostMode.SLO),
    ],
)
def test_gamma_follows_objectives_unless_the_pool_says_otherwise(
    policy: PolicyName, boost: dict[str, str] | None, mode: BoostMode
) -> None:
    objectives = watching(config(FIRST, policy=policy, boost=boost))
    assert objectives.bounds == (0.001, 10.0)
    told = objectives.boost(ENGINE)
    assert told is not None
    assert told.mode is mode
    late(objectives, FIRST)
    assert objectives.bounds is not None
    assert (objectives.bounds[1] < 0.1) is (mode is BoostMode.SLO)


def test_where_nothing_is_boosted_no_gamma_is_in_effect() -> None:
    objectives = watching(config(FIRST))
    assert objectives.boost(ENGINE) is not None
    objectives.configure(config())
    assert objectives.boost(ENGINE) is None
    objectives.configure(config(policy=PolicyName.UNIBOOST))
    assert objectives.boost(ENGINE) is not None


@pytest.mark.parametrize("policy", [PolicyName.TIERED_JUSTITIA, PolicyName.UNIBOOST])
def test_the_bounds_of_gamma_come_to_the_engine_and_hysteresis_to_whom_it_concerns(policy: PolicyName) -> None:
    boost = BoostConfig(hysteresis=3.0)
    told = engine_configuration(config(FIRST, policy=policy, boost=boost), (0.01, 0.5)).knobs
    bounds = {Knob.GAMMA_FLOOR: 0.01, Knob.GAMMA_CEILING: 0.5}
    assert told == (bounds | {Knob.HYSTERESIS: 3.0} if policy is PolicyName.UNIBOOST else bounds)


def test_the_bounds_of_gamma_come_to_the_policy_in_front_of_the_engine() -> None:
    order = Order(None, lambda: 0.0)
    of = config(FIRST, enforcement="Sidecar")
    order.configure(of)
    assert isinstance(order.admission, InFront)
    policy = order.admission.policy
    assert isinstance(policy, TieredJustitia)
    order.tune(of, (0.2, 0.3))
    assert 0.2 <= policy.boosting.tail.gamma <= 0.3
    order.tune(of, (3.0, 4.0))
    assert 3.0 <= policy.boosting.tail.gamma <= 4.0


def test_a_policy_without_gamma_is_told_no_bounds() -> None:
    assert watching(config(FIRST, policy=PolicyName.VTC)).bounds is None


@pytest.mark.parametrize(("policy", "moves"), [(PolicyName.TIERED_JUSTITIA, False), (PolicyName.UNIBOOST, True)])
def test_inside_shares_gamma_does_not_move_for_whole_runs(policy: PolicyName, moves: bool) -> None:
    """Inside shares it does nothing for them, and would only take from what it is for."""
    objectives = watching(config(FIRST, RUN, policy=policy))
    late(objectives, RUN)
    assert (objectives.bounds != (0.001, 10.0)) is moves
    counts = {each.objective.metric: each.counted[0].missed for each in objectives.counts(121.0)}
    assert counts[RUN] == 120, "they are counted all the same"
