"""Kinds of other projects on a real API server, by their own definitions: missing, installed under a running operator,
taken away again.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from cluster.build import ensure_definitions
from cluster.control_plane import await_established
from justitia_api.pool import ServingPool
from justitia_api.wire import PICKER_PORT
from justitia_operator.build.builders import build_inference_pool, build_route, build_scaled_object
from justitia_operator.decide.compare import needs_apply
from justitia_operator.runtime.kube import Unavailable, connect
from justitia_operator.world.objects import Kind
from support.kubectl import Json, Kubectl, OperatorProcess, eventually
from support.stage import Stage

GATEWAY_API = ("sigs.k8s.io/gateway-api", "config/crd/standard")
INFERENCE_EXTENSION = ("sigs.k8s.io/gateway-api-inference-extension", "config/crd/bases")
KEDA = ("github.com/kedacore/keda/v2", "config/crd/bases")
DEFINITIONS = {
    Kind.HTTP_ROUTE: (*GATEWAY_API, "gateway.networking.k8s.io_httproutes.yaml"),
    Kind.INFERENCE_POOL: (*INFERENCE_EXTENSION, "inference.networking.k8s.io_inferencepools.yaml"),
    Kind.SCALED_OBJECT: (*KEDA, "keda.sh_scaledobjects.yaml"),
}
KINDS = tuple(DEFINITIONS)
SCALED: Json = {"scaler": "KEDA", "prometheusAddress": "http://prometheus:9090", "maximumReplicas": 4}
GATEWAY: Json = {
    "parentRefs": [{"name": "inference", "sectionName": "http"}, {"name": "inference", "sectionName": "https"}],
    "hostnames": ["llm.example.com"],
    "endpointPicker": {"name": "picker", "port": 9002},
}
EVERYTHING: Json = {"autoscaling": SCALED, "gateway": GATEWAY}


def names(kind: Kind) -> str:
    """As kubectl and the definition have it."""
    return f"{kind.plural}.{kind.api_version.partition('/')[0]}"


@contextmanager
def installed(kubectl: Kubectl, *kinds: Kind) -> Iterator[None]:
    """Definitions of these kinds for a while."""
    for kind in kinds:
        module, inside, file = DEFINITIONS[kind]
        kubectl("apply", "--server-side", "-f", str(ensure_definitions(module, inside, lambda line: None) / file))
    definitions = [f"customresourcedefinition/{names(kind)}" for kind in kinds]
    try:
        await_established(kubectl, *definitions)
        yield
    finally:
        kubectl("delete", "--wait", "--ignore-not-found", *definitions)


@pytest.fixture
def all_installed(kubectl: Kubectl) -> Iterator[None]:
    with installed(kubectl, *KINDS):
        yield


def children(stage: Stage, *kinds: Kind) -> dict[Kind, Json]:
    return {kind: stage.child(names(kind)) for kind in kinds}


def specs(stage: Stage, *kinds: Kind) -> dict[Kind, Json]:
    return {kind: obj["spec"] for kind, obj in children(stage, *kinds).items()}


def loud(operator: OperatorProcess, stage: Stage) -> list[str]:
    """What the operator's log has beyond the ordinary: about this stage, or about no object at all."""
    entries = [json.loads(line) for line in operator.log().splitlines()]
    concerned = [entry for entry in entries if stage.namespace in entry.get("object", stage.namespace)]
    return [f"{entry['event']}: {entry.get('error')}" for entry in concerned if entry["level"] not in ("debug", "info")]


def is_at_rest(stage: Stage, operator: OperatorProcess, *kinds: Kind) -> bool:
    """Whether resyncs leave every object as it is."""

    def versions() -> tuple[dict[str, str], list[str]]:
        found = children(stage, *kinds).values()
        return stage.versions(), [obj["metadata"]["resourceVersion"] for obj in found]

    operator.wait_for_resyncs(2)
    before = versions()
    operator.wait_for_resyncs(3)
    return versions() == before


def test_kinds_may_be_missing_come_and_go_under_a_running_operator(stage: Stage, operator: OperatorProcess) -> None:
    said = loud(operator, stage)
    stage.set(pool=EVERYTHING)
    eventually(lambda: stage.condition("spool", "shared", "ResolvedRefs") == ("False", "KindNotInstalled"))
    assert stage.condition("spool", "shared", "Accepted") == ("True", "Accepted")
    stage.kubectl("-n", stage.namespace, "delete", "deployment,service", "justitia-shared")
    eventually(lambda: stage.child("deployment") and stage.child("service"))
    assert is_at_rest(stage, operator)
    assert loud(operator, stage) == said

    with installed(stage.kubectl, *KINDS):
        eventually(lambda: stage.condition("spool", "shared", "ResolvedRefs") == ("True", "ResolvedRefs"))
        made = specs(stage, *KINDS)
        assert [parent["sectionName"] for parent in made[Kind.HTTP_ROUTE]["parentRefs"]] == ["http", "https"]
        assert made[Kind.HTTP_ROUTE]["rules"][0]["backendRefs"][0]["kind"] == "InferencePool"
        assert made[Kind.INFERENCE_POOL]["targetPorts"] == [{"number": 8000}]
        assert made[Kind.SCALED_OBJECT]["scaleTargetRef"]["kind"] == "ServingPool"
        assert is_at_rest(stage, operator, *KINDS)
        assert loud(operator, stage) == said

    eventually(lambda: stage.condition("spool", "shared", "ResolvedRefs") == ("False", "KindNotInstalled"))
    eventually(lambda: stage.condition("spool", "shared", "Accepted") == ("True", "Accepted"))
    said = loud(operator, stage)
    assert is_at_rest(stage, operator)
    assert loud(operator, stage) == said


def test_one_kind_that_is_missing_leaves_the_others(stage: Stage) -> None:
    with installed(stage.kubectl, Kind.HTTP_ROUTE):
        stage.set(pool=EVERYTHING)
        eventually(lambda: stage.kubectl.exists(names(Kind.HTTP_ROUTE), "justitia-shared", stage.namespace))
        eventually(lambda: stage.condition("spool", "shared", "ResolvedRefs") == ("False", "KindNotInstalled"))
        (message,) = {
            condition["message"]
            for condition in stage.kubectl.get("spool", "shared", stage.namespace)["status"]["conditions"]
            if condition["type"] == "ResolvedRefs"
        }
        assert "InferencePool" in message
        assert "ScaledObject" in message
        assert "HTTPRoute" not in message


@pytest.mark.usefixtures("all_installed")
@pytest.mark.parametrize(
    ("picker", "named"),
    [
        pytest.param({"name": "picker", "port": 9002}, ("picker", 9002), id="the user's picker"),
        pytest.param({}, ("justitia-shared", PICKER_PORT), id="the pool's own pickers"),
    ],
)
def test_what_the_definitions_fill_in_is_no_drift(stage: Stage, picker: Json, named: tuple[str, int]) -> None:
    stage.set(pool=EVERYTHING | {"gateway": GATEWAY | {"endpointPicker": picker}})
    made = eventually(lambda: children(stage, *KINDS))
    reference = made[Kind.INFERENCE_POOL]["spec"]["endpointPickerRef"]
    assert (reference["name"], reference["port"]["number"]) == named
    assert "failureMode" in made[Kind.INFERENCE_POOL]["spec"]["endpointPickerRef"]
    stored = stage.kubectl.get("spool", "shared", stage.namespace)
    pool = ServingPool.model_validate({k: v for k, v in stored.items() if k != "status"})
    gateway, autoscaling = pool.spec.gateway, pool.spec.autoscaling
    assert gateway is not None
    assert gateway.endpoint_picker is not None
    assert autoscaling is not None
    desired = {
        Kind.HTTP_ROUTE: build_route(pool, gateway),
        Kind.INFERENCE_POOL: build_inference_pool(pool, gateway.endpoint_picker),
        Kind.SCALED_OBJECT: build_scaled_object(pool, autoscaling),
    }
    found = {kind: stage.kubectl.get_owned(kind.plural, "justitia-shared", stage.namespace) for kind in desired}
    assert [kind for kind, obj in desired.items() if needs_apply(obj, found[kind])] == []


DRIFT: dict[Kind, Json] = {
    Kind.HTTP_ROUTE: {"spec": {"rules": [{"backendRefs": [{"name": "another", "port": 80}]}]}},
    Kind.INFERENCE_POOL: {"spec": {"targetPorts": [{"number": 1}]}},
    Kind.SCALED_OBJECT: {"spec": {"maxReplicaCount": 9}},
}


@pytest.mark.usefixtures("all_installed")
def test_what_somebody_changed_or_deleted_is_put_right(stage: Stage) -> None:
    stage.set(pool=EVERYTHING)
    before = eventually(lambda: specs(stage, *KINDS))
    for kind, change in DRIFT.items():
        stage.kubectl.patch(names(kind), "justitia-shared", stage.namespace, change)
    eventually(lambda: specs(stage, *KINDS) == before)

    def identities() -> set[str]:
        return {obj["metadata"]["uid"] for obj in children(stage, *KINDS).values()}

    gone = identities()
    for kind in KINDS:
        stage.kubectl("-n", stage.namespace, "delete", names(kind), "justitia-shared")
    eventually(lambda: not identities() & gone)


@pytest.mark.usefixtures("all_installed")
def test_what_is_not_asked_for_any_more_goes(stage: Stage) -> None:
    def gone(*kinds: str) -> bool:
        return not any(stage.kubectl.exists(kind, "justitia-shared", stage.namespace) for kind in kinds)

    stage.set(pool={"autoscaling": {"maximumReplicas": 4}, "gateway": GATEWAY})
    eventually(lambda: stage.child("hpa"))
    stage.set(pool=EVERYTHING)
    eventually(lambda: gone("hpa") and children(stage, *KINDS))
    stage.set(pool={"autoscaling": {"maximumReplicas": 4}})
    eventually(lambda: gone(*map(names, KINDS)) and stage.child("hpa"))


@pytest.mark.usefixtures("all_installed")
def test_a_route_for_as_many_models_as_a_pool_may_have_is_taken(stage: Stage) -> None:
    adapters = [{"name": f"adapter-{number}", "uri": "hf://acme/adapter"} for number in range(64)]
    model = {"uri": "hf://acme/model", "name": "m", "adapters": adapters}
    stage.set(pool={"model": model, "gateway": {"parentRefs": [{"name": "inference"}]}})
    spec = eventually(lambda: specs(stage, Kind.HTTP_ROUTE)[Kind.HTTP_ROUTE])
    assert sum(len(rule["matches"]) for rule in spec["rules"]) == 65
    eventually(lambda: stage.condition("spool", "shared", "Accepted") == ("True", "Accepted"))


async def test_a_kind_that_the_cluster_lacks_is_told_apart_from_one_without_objects(
    kubectl: Kubectl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", kubectl.kubeconfig)
    async with connect() as kube:
        assert await kube.installed((Kind.DEPLOYMENT, Kind.SERVICE, Kind.HTTP_ROUTE)) == {Kind.DEPLOYMENT, Kind.SERVICE}
        with pytest.raises(Unavailable, match=r"the cluster has no HTTPRoute \(gateway.networking.k8s.io/v1\)"):
            await kube.list(Kind.HTTP_ROUTE)
