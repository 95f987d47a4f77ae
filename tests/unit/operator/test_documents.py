"""What pods are told of objectives, of gamma, and of who shares cached prefixes."""

from copy import deepcopy

import pytest

from justitia_operator.world.objects import Json, Kind, Ref
from justitia_operator.world.snapshot import Snapshot
from support.objectives import COMPLETION, FIRST_TOKEN
from support.resources import application, child, condition, config, key, pool, put, settled, tenant, world

CHAT = Ref(Kind.LLM_APPLICATION, "apps", "chat")


def told_world(*slo: Json, scheduling: Json | None = None) -> Snapshot:
    return settled(world(tenant(), key(), pool(scheduling=scheduling or {}), application(slo=list(slo))))


def test_objectives_come_to_the_pods() -> None:
    (entry,) = config(told_world(FIRST_TOKEN, COMPLETION | {"windowSeconds": 600})).applications
    assert [each.model_dump(mode="json") for each in entry.objectives] == [
        {"metric": "TimeToFirstToken", "percentile": 90, "bound_milliseconds": 800, "window_seconds": 3600},
        {"metric": "RequestCompletion", "percentile": 99, "bound_milliseconds": 20_000, "window_seconds": 600},
    ]


def test_objectives_of_a_paused_application_stay_as_they_were() -> None:
    snapshot = told_world(FIRST_TOKEN)
    changed = deepcopy(snapshot.objects[CHAT])
    changed["spec"] |= {"paused": True, "slo": [COMPLETION]}
    assert config(settled(put(snapshot, changed))) == config(snapshot)


def test_the_stretch_comes_to_the_pods() -> None:
    assert config(told_world()).scheduling.stretch is None
    assert config(told_world(scheduling={"stretch": 5})).scheduling.stretch == 5


def test_the_burst_comes_to_the_pods() -> None:
    assert config(told_world()).scheduling.burst_seconds is None
    assert config(told_world(scheduling={"burstSeconds": 5})).scheduling.burst_seconds == 5


def test_the_heartbeat_comes_to_the_pods() -> None:
    assert config(told_world()).scheduling.heartbeat_seconds is None
    assert config(told_world(scheduling={"heartbeatSeconds": 5})).scheduling.heartbeat_seconds == 5


@pytest.mark.parametrize(
    ("boost", "told_as"),
    [
        (None, None),
        ({}, ("SLO", 0.001, 10.0, 2.0)),
        ({"mode": "SLO", "minimumGamma": "0.01"}, ("SLO", 0.01, 10.0, 2.0)),
        ({"mode": "Fixed", "gamma": "1.5", "hysteresis": "0"}, ("Fixed", 1.5, 1.5, 0.0)),
    ],
    ids=["none", "defaults", "SLO", "fixed"],
)
def test_gammas_bounds_come_to_the_pods(boost: Json | None, told_as: tuple[object, ...] | None) -> None:
    scheduling = {"policy": "UniBoost", "enforcement": "Engine"} | ({} if boost is None else {"boost": boost})
    found = config(told_world(scheduling=scheduling)).scheduling.boost
    assert told_as == (
        None if found is None else (found.mode, found.minimum_gamma, found.maximum_gamma, found.hysteresis)
    )


def sharing_world(**groups: str) -> Snapshot:
    """A pool with these groups, by tenants, which the tenants alice and bob use."""
    tenants = [{"name": name, "group": group} for name, group in groups.items()]
    engine = {"prefixCache": {"tenants": tenants}} if groups else {}
    other = application("summaries", "bob")
    return settled(world(tenant(), key(), tenant("bob"), key("bob"), pool(engine=engine), application(), other))


def test_groups_of_the_pool_come_to_the_pods_with_their_tenants() -> None:
    told = config(sharing_world(alice="readers", carol="readers"))
    assert {each.name: each.prefix_group for each in told.tenants} == {"alice": "readers", "bob": None}


def test_without_groups_no_tenant_has_one() -> None:
    assert {each.prefix_group for each in config(sharing_world()).tenants} == {None}


def test_tenants_that_leave_their_group_are_told_and_no_pod_restarts() -> None:
    before = sharing_world(alice="readers", bob="readers")
    changed = settled(put(before, pool()))
    assert {each.prefix_group for each in config(before).tenants} == {"readers"}
    assert {each.prefix_group for each in config(changed).tenants} == {None}
    assert config(changed).generation == config(before).generation + 1
    assert child(changed, Kind.DEPLOYMENT) == child(before, Kind.DEPLOYMENT)


def test_adapters_come_to_the_pods_with_whom_they_are_for() -> None:
    adapters = [
        {"name": "sql", "uri": "hf://acme/sql"},
        {"name": "law", "uri": "hf://acme/law", "tenants": ["bob", "alice"]},
    ]
    made = pool(model={"uri": "hf://acme/model", "adapters": adapters})
    told = config(settled(world(tenant(), key(), made, application()))).adapters
    assert [(each.name, each.tenants) for each in told] == [("law", ("alice", "bob")), ("sql", None)]


def test_an_adapter_with_the_models_name_is_refused() -> None:
    made = pool(model={"uri": "hf://acme/model", "adapters": [{"name": "acme/model", "uri": "hf://acme/sql"}]})
    refused = settled(world(tenant(), key(), made, application()))
    status, reason, message = condition(refused, Kind.SERVING_POOL, "shared", "Accepted")
    assert (status, reason) == ("False", "InvalidSpec")
    assert "an adapter must not have the model's name" in message
