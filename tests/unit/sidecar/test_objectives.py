"""What is counted of an objective, value by value, and gamma that follows it through the channel."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from justitia_api.config import (
    ApplicationConfig,
    BoostConfig,
    BoostMode,
    KeyEntry,
    KeyTable,
    PoolConfig,
    SchedulingConfig,
    ServiceLevelObjective,
    key_digest,
)
from justitia_channel.messages import PlugInSnapshot
from justitia_scheduling.core.report import PolicyReport
from justitia_scheduling.objectives.slo import PERIOD, USUAL_LOAD
from justitia_scheduling.objectives.tally import tally
from justitia_sidecar.admission.request import TrackedRequest
from justitia_sidecar.admission.runs import TrackedRun
from justitia_sidecar.engine.client import EngineClient
from justitia_sidecar.engine.configuration import engine_configuration
from justitia_sidecar.metrics import SidecarMetrics
from justitia_sidecar.objectives.objectives import Objectives
from justitia_sidecar.objectives.remembered import load, save
from justitia_sidecar.service import Sidecar
from justitia_vocabulary.objectives import MetricName
from justitia_vocabulary.policies import Knob, PolicyName
from justitia_vocabulary.units import ApplicationId, RunId
from support.learning_room import Clock
from support.listening_channel import Listening
from support.misbehaving_engine import MisbehavingEngine, Misbehaviour
from support.objectives import objective
from support.sidecar_client import GOLD, KEY, PEPPER, Client, engine_answers, pool
from support.tracked import tracked_request

EPOCH = 1.8e9
FIRST, PACE, REQUEST, RUN = MetricName
APPLICATION = ApplicationId("ns/a")
ENGINE = PolicyReport(gamma=0.1, gamma_estimate=0.1, prefill_time=0.001, decode_time=0.01)


def application(*objectives: ServiceLevelObjective) -> ApplicationConfig:
    return ApplicationConfig(namespace="ns", name="a", tenant="gold", objectives=objectives)


def config(*objectives: ServiceLevelObjective, generation: int = 1, **boost: Any) -> PoolConfig:
    scheduling = SchedulingConfig(
        policy=PolicyName.UNIBOOST, enforcement="Engine", boost=BoostConfig(**boost) if boost else None
    )
    return pool(generation, scheduling=scheduling, applications=(application(*objectives),))


def watching(*metrics: MetricName) -> Objectives:
    objectives = Objectives(EPOCH)
    objectives.configure(config(*map(objective, metrics)))
    return objectives


def a_run(opened: float = 0.0, **changes: Any) -> TrackedRun:
    return TrackedRun(RunId("r"), GOLD, application(), None, opened, **{"last_activity": opened, **changes})


def ticket(arrival: float = 0.0, **changes: Any) -> TrackedRequest:
    return tracked_request("x", a_run(arrival), arrival=arrival, **changes)


def seen(objectives: Objectives, now: float = 100.0) -> dict[MetricName, tuple[int, int]]:
    """Values and misses, by metric."""
    return {each.objective.metric: (each.counted[0].total, each.counted[0].missed) for each in objectives.counts(now)}


def test_a_request_gives_each_of_its_values_once() -> None:
    objectives = watching(*MetricName)
    streamed = ticket(first_token=0.5, produced=11)
    objectives.first_token(streamed, 0.5)
    objectives.ended(streamed, 2.5, completed=True, engine=PolicyReport())
    assert seen(objectives) == {FIRST: (1, 0), PACE: (1, 0), REQUEST: (1, 1), RUN: (0, 0)}
    [pace] = [each for each in objectives.counts(100.0) if each.objective.metric is PACE]
    assert tally(0.9, [pace]).value == pytest.approx(0.2, rel=0.01)


def test_a_whole_answer_shows_no_first_token_and_no_pace() -> None:
    objectives = watching(*MetricName)
    objectives.ended(ticket(streamed=False, produced=11), 0.5, completed=True, engine=PolicyReport())
    assert seen(objectives) == {FIRST: (0, 0), PACE: (0, 0), REQUEST: (1, 0), RUN: (0, 0)}


@pytest.mark.parametrize(("age", "counted"), [(0.9, (0, 0)), (1.1, (1, 1))])
def test_what_ends_without_a_value_counts_if_it_was_late_already(age: float, counted: tuple[int, int]) -> None:
    objectives = watching(FIRST, REQUEST)
    objectives.ended(ticket(), age, completed=False, engine=PolicyReport())
    assert seen(objectives) == {FIRST: counted, REQUEST: counted}


def test_a_first_token_that_was_seen_is_not_counted_again_when_the_rest_fails() -> None:
    objectives = watching(FIRST, REQUEST)
    broken = ticket(first_token=0.5)
    objectives.first_token(broken, 0.5)
    objectives.ended(broken, 5.0, completed=False, engine=PolicyReport())
    assert seen(objectives) == {FIRST: (1, 0), REQUEST: (1, 1)}


def test_what_is_still_open_counts_once_it_is_late() -> None:
    objectives = watching(FIRST, REQUEST, RUN)
    waits, answers = ticket(90.0), ticket(90.0, first_token=90.1)
    objectives.look(100.0, [waits, answers], PolicyReport())
    assert seen(objectives, 120.0) == {FIRST: (1, 1), REQUEST: (2, 2), RUN: (2, 2)}
    objectives.look(120.0, [], PolicyReport())
    assert seen(objectives, 120.0) == {FIRST: (0, 0), REQUEST: (0, 0), RUN: (0, 0)}


@pytest.mark.parametrize(
    ("took", "aborted", "counted"),
    [(0.5, False, (1, 0)), (2.0, False, (1, 1)), (0.5, True, (0, 0)), (2.0, True, (1, 1))],
)
def test_a_run_took_until_its_last_request(took: float, aborted: bool, counted: tuple[int, int]) -> None:
    objectives = watching(RUN)
    objectives.run_ended(a_run(10.0, last_activity=10.0 + took, aborted=aborted))
    assert seen(objectives) == {RUN: counted}


def test_a_new_bound_is_counted_anew_and_what_is_gone_is_forgotten() -> None:
    objectives = watching(FIRST)
    objectives.first_token(ticket(), 0.5)
    objectives.configure(config(objective(FIRST), objective(REQUEST)))
    assert seen(objectives) == {FIRST: (1, 0), REQUEST: (0, 0)}
    objectives.configure(config(objective(FIRST, bound=2000)))
    assert seen(objectives) == {FIRST: (0, 0)}
    objectives.configure(config())
    objectives.first_token(ticket(), 0.5)
    assert seen(objectives) == {}


@pytest.mark.parametrize(
    ("boost", "bounds"),
    [
        ({}, (0.001, 10.0)),
        ({"minimum_gamma": 0.25, "maximum_gamma": 4}, (0.25, 4.0)),
        ({"mode": BoostMode.FIXED, "minimum_gamma": 0.3, "maximum_gamma": 0.3}, (0.3, 0.3)),
        ({"mode": BoostMode.SLO, "minimum_gamma": 0.25, "maximum_gamma": 4}, (0.25, 4.0)),
    ],
)
def test_the_engine_is_told_the_bounds_of_gamma(boost: dict[str, Any], bounds: tuple[float, float]) -> None:
    objectives = Objectives(EPOCH)
    objectives.configure(config(**boost))
    knobs = engine_configuration(config(**boost), objectives.bounds).knobs
    expected = {Knob.GAMMA_FLOOR: bounds[0], Knob.GAMMA_CEILING: bounds[1]}
    assert {name: value for name, value in knobs.items() if name != Knob.HYSTERESIS} == expected


def test_gamma_is_told_whatever_it_follows() -> None:
    objectives = Objectives(EPOCH)
    objectives.configure(config(mode=BoostMode.ADAPTIVE))
    told = objectives.boost(ENGINE)
    assert told is not None
    assert (told.mode, told.gamma, told.floor, told.ceiling) == (BoostMode.ADAPTIVE, 0.1, 0.001, 10.0)
    assert objectives.boost(PolicyReport()) is None


@pytest.fixture
async def sidecar(engine: MisbehavingEngine) -> AsyncIterator[Sidecar]:
    """A sidecar of a pool whose gamma follows an objective that nothing can meet: a thousandth of a second."""
    async with EngineClient.session() as session:
        clock, channel = Clock(), Listening()
        channel.state = PlugInSnapshot(policy=ENGINE)
        url = EngineClient(engine.url, session)
        sidecar = Sidecar(url, SidecarMetrics(), clock, channel, objectives=Objectives(EPOCH))
        entry = KeyEntry(digest=key_digest(PEPPER, KEY), tenant=GOLD)
        sidecar.parts.current.put_keys(KeyTable(pepper=PEPPER, keys=(entry,)))
        sidecar.parts.current.put_config(
            config(objective(FIRST, 1), objective(REQUEST, 1_000_000, window=60_000), mode=BoostMode.SLO)
        )
        await engine_answers(sidecar)
        yield sidecar


def late(sidecar: Sidecar, seconds: int) -> None:
    """So many requests, one a second, whose first token takes half a second."""
    clock = sidecar.parts.clock
    assert isinstance(clock, Clock)
    for _ in range(seconds):
        clock.now += 1
        sidecar.parts.objectives.arrived(ticket(clock.now - 0.5))
        sidecar.parts.objectives.first_token(ticket(clock.now - 0.5), clock.now)
        sidecar.tick()


async def test_a_request_is_counted_on_its_way(sidecar: Sidecar) -> None:
    client = await Client(sidecar).run()
    assert client.status == 200
    assert isinstance(sidecar.parts.clock, Clock)
    sidecar.parts.clock.now += 2500
    found = {o.objective.metric: o.counted[0].total for o in sidecar.report.status().objectives}
    assert found == {FIRST: 0, REQUEST: 1}, "the first token is outside of its window"


@pytest.mark.parametrize("behaviour", [Misbehaviour.DIES_MID_STREAM, Misbehaviour.GARBAGE])
async def test_a_broken_answer_does_not_disturb_the_count(
    sidecar: Sidecar, engine: MisbehavingEngine, behaviour: Misbehaviour
) -> None:
    engine.behaviour = behaviour
    await Client(sidecar).run()
    found = sidecar.report.status().objectives
    assert {o.counted[0].missed for o in found} == {0}


async def test_a_missed_objective_lowers_gamma_in_the_engine(sidecar: Sidecar) -> None:
    assert isinstance(sidecar.parts.order.channel, Listening)
    late(sidecar, 60)
    told = sidecar.parts.order.channel.bounds()
    ceilings = [bounds[1] for bounds in told if bounds is not None]
    assert ceilings[0] == 10.0
    assert ceilings[-1] < 0.1
    assert ceilings == sorted(ceilings, reverse=True)
    assert len(told) <= 1 + 60 / PERIOD, "at most one message for each look"
    status = sidecar.report.status()
    assert status.boost is not None
    assert (status.boost.mode, status.boost.ceiling) == (BoostMode.SLO, ceilings[-1])


async def test_an_unattainable_objective_is_told_as_such(sidecar: Sidecar) -> None:
    late(sidecar, 400)
    first, other = sidecar.report.status().objectives
    assert (first.unattainable, other.unattainable) == (True, False)
    list(sidecar.report.set_gauges())
    labels = {"tenant": "gold", "application": "ns/a", "metric": "TimeToFirstToken", "percentile": "90"}
    value = sidecar.parts.metrics.registry.get_sample_value
    assert value("justitia_slo_unattainable", labels) == 1
    assert value("justitia_slo_attained_ratio", labels) == 0
    assert value("justitia_slo_fast_burn", labels) == pytest.approx(10)
    assert value("justitia_slo_alert", labels) == 1
    assert value("justitia_gamma_floor", {}) == 0.001


async def test_gauges_of_an_objective_that_is_gone_are_gone(sidecar: Sidecar) -> None:
    list(sidecar.report.set_gauges())
    sidecar.parts.current.put_config(config(generation=2))
    list(sidecar.report.set_gauges())
    assert "justitia_slo_attained_ratio{" not in str(list(sidecar.parts.metrics.registry.collect()))


async def test_gamma_stays_where_nothing_is_declared_to_follow(sidecar: Sidecar) -> None:
    """The negative control: the same misses in a pool that adapts by itself."""
    assert isinstance(sidecar.parts.order.channel, Listening)
    adapts = config(objective(FIRST, 1), generation=2, mode=BoostMode.ADAPTIVE, minimum_gamma=0.02, maximum_gamma=2)
    sidecar.parts.current.put_config(adapts)
    late(sidecar, 60)
    assert sidecar.parts.order.channel.bounds()[1:] == [[0.02, 2.0]]
    assert [o.unattainable for o in sidecar.report.status().objectives] == [False]


async def test_a_policy_that_failed_is_not_configured_again_and_again(sidecar: Sidecar) -> None:
    assert isinstance(sidecar.parts.order.channel, Listening)
    sidecar.parts.order.channel.state = replace(sidecar.parts.order.channel.state, dismissed=True)
    late(sidecar, 60)
    assert len(sidecar.parts.order.channel.bounds()) == 1


async def test_a_new_configuration_keeps_gamma_inside_its_bounds(sidecar: Sidecar) -> None:
    assert isinstance(sidecar.parts.order.channel, Listening)
    late(sidecar, 60)
    before = sidecar.parts.order.channel.bounds()[-1]
    assert before is not None
    sidecar.parts.current.put_config(config(objective(FIRST, 1), generation=2, mode=BoostMode.SLO))
    assert sidecar.parts.order.channel.bounds()[-1] == before
    higher = before[1] * 2
    changed = config(objective(FIRST, 1), generation=3, mode=BoostMode.SLO, minimum_gamma=higher)
    sidecar.parts.current.put_config(changed)
    assert sidecar.parts.order.channel.bounds()[-1] == [higher, higher]


async def test_the_demand_of_requests_is_known_by_what_the_engine_says(sidecar: Sidecar) -> None:
    """Two requests a second of 50 tokens read and 35 produced ask for .8 of the engine's time. That is what one engine
    is taken to serve within its objectives.
    """
    for second in range(60):
        for half in (0.0, 0.5):
            request = ticket(second + half, first_token=second + half, produced=35)
            sidecar.parts.objectives.arrived(request)
            sidecar.parts.objectives.ended(request, second + 0.9, completed=True, engine=ENGINE)
    sidecar.parts.objectives.look(60.0, [], ENGINE)
    told = sidecar.parts.objectives.boost(ENGINE)
    assert told is not None
    assert told.needed == pytest.approx(0.8 / USUAL_LOAD, rel=0.05)


async def test_a_restart_goes_on_with_gamma_and_counts(sidecar: Sidecar, tmp_path: Path) -> None:
    late(sidecar, 60)
    await save(tmp_path / "o.json", sidecar.parts.objectives)
    again = Objectives(EPOCH)
    load(tmp_path / "o.json", again)
    again.configure(sidecar.parts.current.configured().config)
    assert again.bounds == sidecar.parts.objectives.bounds
    now = sidecar.parts.clock()
    assert list(again.counts(now)) == list(sidecar.parts.objectives.counts(now))
    assert list(again.attained(now)) == list(sidecar.parts.objectives.attained(now))
    assert json.loads((tmp_path / "o.json").read_bytes())
    assert not (tmp_path / "o.new").exists()


@pytest.mark.parametrize(
    "spoilt", [b"", b"[]", b"{}", b'{"demand": 3, "controller": null}', b'{"demand": {}, "watched x": 1}']
)
def test_a_spoilt_file_is_passed_over(tmp_path: Path, spoilt: bytes) -> None:
    (tmp_path / "o.json").write_bytes(spoilt)
    objectives = Objectives(EPOCH)
    load(tmp_path / "o.json", objectives)
    objectives.configure(config(objective(FIRST), mode=BoostMode.SLO))
    objectives.first_token(ticket(), 0.5)
    assert seen(objectives) == {FIRST: (1, 0)}
    assert objectives.bounds == (0.001, 10.0)


async def test_a_disk_that_takes_nothing_costs_nothing_but_the_memory(sidecar: Sidecar, tmp_path: Path) -> None:
    late(sidecar, 60)
    before = sidecar.report.status().objectives
    with capture_logs() as logged:
        await save(tmp_path / "no such folder" / "o.json", sidecar.parts.objectives)
    assert [each["log_level"] for each in logged] == ["warning"]
    assert "no such folder" in logged[0]["file"]
    assert sidecar.report.status().objectives == before
