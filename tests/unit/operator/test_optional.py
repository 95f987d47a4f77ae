"""Children of other projects' kinds: what they are, and what becomes of a pool where the cluster lacks the kind."""

import json
from dataclasses import replace
from typing import Any

import pytest

from justitia_operator.decide.reconcile import reconcile
from justitia_operator.world.objects import OPTIONAL_KINDS, Json, Kind, Ref
from justitia_operator.world.snapshot import Snapshot
from support.resources import NOW, applied, child, condition, pool, put, settled, small_world, with_ready_engines

POOL = Ref(Kind.SERVING_POOL, "apps", "shared")
PARENT = {"name": "inference", "namespace": "gateways", "sectionName": "http"}
GATEWAY: Json = {"parentRefs": [PARENT]}
PICKED = GATEWAY | {"endpointPicker": {"name": "picker", "port": 9002}}
KEDA: Json = {"scaler": "KEDA", "prometheusAddress": "http://prometheus:9090", "maximumReplicas": 7}
EVERYTHING: Json = {"gateway": PICKED, "autoscaling": KEDA}
KINDS = tuple(kind for kind in OPTIONAL_KINDS if kind is not Kind.LEADER_WORKER_SET)
"""Kinds beside engines; `test_nodes.py` is about engines of another project's kind."""


def asking(**spec: Any) -> Snapshot:
    return put(small_world(), pool(**spec))


def lacking(snapshot: Snapshot, *kinds: Kind) -> Snapshot:
    return replace(snapshot, installed=snapshot.installed - set(kinds))


def route(**spec: Any) -> Json:
    found: Json = child(settled(asking(**spec)), Kind.HTTP_ROUTE)["spec"]
    return found


def models(rule: Json) -> list[str]:
    headers = [header for match in rule["matches"] for header in match["headers"]]
    assert {header["name"] for header in headers} == {"X-Gateway-Model-Name"}
    return [header["value"] for header in headers]


def test_a_route_leads_requests_for_each_of_the_pools_models_to_its_service() -> None:
    adapters = [{"name": "sql", "uri": "hf://acme/sql"}, {"name": "law", "uri": "hf://acme/law"}]
    spec = route(gateway=GATEWAY, model={"uri": "hf://acme/model", "adapters": adapters})
    (rule,) = spec["rules"]
    assert models(rule) == ["acme/model", "sql", "law"]
    assert rule["backendRefs"] == [{"name": "justitia-shared", "port": 80}]
    assert rule["timeouts"] == {"request": "0s", "backendRequest": "0s"}
    assert spec["parentRefs"] == [PARENT]
    assert "hostnames" not in spec
    assert route(gateway=GATEWAY | {"hostnames": ["llm.example.com"]})["hostnames"] == ["llm.example.com"]


def test_more_models_than_a_rule_may_match_are_in_a_further_one() -> None:
    adapters = [{"name": f"a{number}", "uri": "hf://acme/a"} for number in range(64)]
    first, second = route(gateway=GATEWAY, model={"uri": "hf://acme/model", "adapters": adapters})["rules"]
    assert [len(first["matches"]), models(second)] == [64, ["a63"]]
    assert first["backendRefs"] == second["backendRefs"]


def test_with_an_endpoint_picker_the_route_leads_to_an_inference_pool_of_the_schedulers() -> None:
    snapshot = settled(asking(gateway=PICKED))
    spec = child(snapshot, Kind.INFERENCE_POOL)["spec"]
    labels = child(snapshot, Kind.DEPLOYMENT)["spec"]["template"]["metadata"]["labels"]
    assert spec["selector"]["matchLabels"].items() <= labels.items()
    assert spec["targetPorts"] == [{"number": 8000}]
    assert spec["endpointPickerRef"] == {"name": "picker", "port": {"number": 9002}}
    (rule,) = child(snapshot, Kind.HTTP_ROUTE)["spec"]["rules"]
    backend = {"group": "inference.networking.k8s.io", "kind": "InferencePool", "name": "justitia-shared"}
    assert rule["backendRefs"] == [backend]


OWN = GATEWAY | {"endpointPicker": {}}


def test_with_the_pools_own_pickers_gateways_ask_them_behind_its_service() -> None:
    snapshot = settled(asking(gateway=OWN, replicas=2))
    spec = child(snapshot, Kind.INFERENCE_POOL)["spec"]
    service = child(snapshot, Kind.SERVICE)
    assert spec["endpointPickerRef"] == {"name": service["metadata"]["name"], "port": {"number": 8005}}
    (port,) = (port for port in service["spec"]["ports"] if port["port"] == 8005)
    pod = child(snapshot, Kind.DEPLOYMENT)["spec"]["template"]["spec"]
    picker, sidecar = pod["initContainers"][-2:]
    assert (picker["name"], picker["restartPolicy"]) == ("picker", "Always")
    assert picker["ports"][0]["containerPort"] == port["targetPort"]
    assert picker["securityContext"] == sidecar["securityContext"]
    said = [{each["name"]: each.get("value") for each in container["env"]} for container in (picker, sidecar)]
    assert said[0]["JUSTITIA_PICKER_SOCKET"] == said[1]["JUSTITIA_PICKER_SOCKET"]
    mounts = [mount for container in (picker, sidecar) for mount in container["volumeMounts"]]
    assert mounts.count({"name": "picker", "mountPath": "/picker"}) == 2
    assert picker["volumeMounts"] == [{"name": "picker", "mountPath": "/picker"}]
    assert said[1]["JUSTITIA_PUBLIC_ADDRESS"] is None  # the pod's own
    open_to_all = child(snapshot, Kind.NETWORK_POLICY)["spec"]["ingress"][0]
    assert open_to_all == {"ports": [{"protocol": "TCP", "port": 8000}, {"protocol": "TCP", "port": 8005}]}
    (rule,) = child(snapshot, Kind.HTTP_ROUTE)["spec"]["rules"]
    assert rule["backendRefs"][0]["kind"] == "InferencePool"


@pytest.mark.parametrize("gateway", [None, GATEWAY, PICKED], ids=["no gateway", "no picker", "the user's picker"])
def test_otherwise_no_pod_has_a_picker_and_no_port_is_open_for_one(gateway: Json | None) -> None:
    snapshot = settled(asking(**({} if gateway is None else {"gateway": gateway})))
    pod = child(snapshot, Kind.DEPLOYMENT)["spec"]["template"]["spec"]
    assert "picker" not in json.dumps(pod)
    assert "8005" not in json.dumps([child(snapshot, kind)["spec"] for kind in (Kind.SERVICE, Kind.NETWORK_POLICY)])


def test_keda_scales_by_the_same_measure_and_the_same_scale() -> None:
    limits = {"minimumReplicas": 2, "queuedRequests": 30, "stabilizationSeconds": 60}
    spec = child(settled(asking(autoscaling=KEDA | limits)), Kind.SCALED_OBJECT)["spec"]
    assert spec["scaleTargetRef"] == {"apiVersion": "justitia.dev/v1alpha1", "kind": "ServingPool", "name": "shared"}
    assert (spec["minReplicaCount"], spec["maxReplicaCount"]) == (2, 7)
    (trigger,) = spec["triggers"]
    assert (trigger["type"], trigger["metricType"]) == ("prometheus", "AverageValue")
    assert trigger["metadata"] == {
        "serverAddress": "http://prometheus:9090",
        "query": 'sum(justitia_queued_requests{namespace="apps",justitia_dev_pool="shared"})',
        "threshold": "30",
    }
    behavior = spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    assert behavior == {"scaleDown": {"stabilizationWindowSeconds": 60}}


HPA = {"maximumReplicas": 7}
FOLLOWING = {"policy": "UniBoost", "enforcement": "Engine", "boost": {"mode": "SLO"}}


def test_where_gamma_follows_objectives_what_they_need_scales_too() -> None:
    need = 'sum(justitia_slo_replicas_needed{namespace="apps",justitia_dev_pool="shared"})'
    spec = child(settled(asking(autoscaling=KEDA, scheduling=FOLLOWING)), Kind.SCALED_OBJECT)["spec"]
    assert [(t["metadata"]["query"], t["metadata"]["threshold"]) for t in spec["triggers"]][1:] == [(need, "1")]
    spec = child(settled(asking(autoscaling=HPA, scheduling=FOLLOWING)), Kind.HORIZONTAL_POD_AUTOSCALER)["spec"]
    wanted = [(m["pods"]["metric"]["name"], m["pods"]["target"]["averageValue"]) for m in spec["metrics"]]
    assert wanted == [("justitia_queued_requests", "10"), ("justitia_slo_replicas_needed", "1")]
    adaptive = FOLLOWING | {"boost": {"mode": "Adaptive"}}
    spec = child(settled(asking(autoscaling=HPA, scheduling=adaptive)), Kind.HORIZONTAL_POD_AUTOSCALER)["spec"]
    assert len(spec["metrics"]) == 1


@pytest.mark.parametrize(
    ("before", "after", "made", "gone"),
    [
        pytest.param(HPA, KEDA, Kind.SCALED_OBJECT, Kind.HORIZONTAL_POD_AUTOSCALER, id="to KEDA"),
        pytest.param(KEDA, HPA, Kind.HORIZONTAL_POD_AUTOSCALER, Kind.SCALED_OBJECT, id="from KEDA"),
    ],
)
def test_one_autoscaler_takes_the_others_place(before: Json, after: Json, made: Kind, gone: Kind) -> None:
    scaled = settled(asking(autoscaling=before))
    assert child(scaled, gone)
    plan = reconcile(put(scaled, pool(autoscaling=after)), POOL, NOW)
    assert [obj["kind"] for obj in plan.applies] == [made]
    assert plan.deletes == (Ref(gone, "apps", "justitia-shared"),)


def test_what_is_not_asked_for_any_more_is_deleted_once() -> None:
    everything = settled(asking(**EVERYTHING))
    plain = put(everything, pool())
    assert {ref.kind for ref in reconcile(plain, POOL, NOW).deletes} == set(KINDS)
    scaled = child(plain, Kind.SCALED_OBJECT)
    going = scaled | {"metadata": scaled["metadata"] | {"deletionTimestamp": "2026-01-01T00:00:00Z"}}
    deletes = reconcile(put(plain, going), POOL, NOW).deletes
    assert {ref.kind for ref in deletes} == {Kind.HTTP_ROUTE, Kind.INFERENCE_POOL}


@pytest.mark.parametrize("kind", KINDS)
def test_an_object_whose_kind_the_cluster_lacks_is_left_out_and_nothing_else(kind: Kind) -> None:
    whole = settled(asking(**EVERYTHING))
    partial = settled(lacking(asking(**EVERYTHING), kind))
    assert {ref.kind for ref in whole.objects.keys() - partial.objects.keys()} == {kind}
    status, reason, message = condition(partial, Kind.SERVING_POOL, "shared", "ResolvedRefs")
    assert (status, reason) == ("False", "KindNotInstalled")
    assert message.startswith(f"the cluster has no {kind} ({kind.api_version}): install ")
    assert ";" not in message
    serving = settled(with_ready_engines(partial))
    assert condition(serving, Kind.SERVING_POOL, "shared", "Ready")[:2] == ("True", "Serving")
    assert condition(serving, Kind.LLM_APPLICATION, "chat", "Ready")[:2] == ("True", "Serving")


def test_every_kind_that_is_lacking_is_named_with_what_to_do() -> None:
    _, _, message = condition(
        settled(lacking(asking(**EVERYTHING), *KINDS)), Kind.SERVING_POOL, "shared", "ResolvedRefs"
    )
    assert message.split("; ") == [
        "the cluster has no HTTPRoute (gateway.networking.k8s.io/v1): install the Gateway API, or remove spec.gateway",
        "the cluster has no InferencePool (inference.networking.k8s.io/v1): install the Gateway API Inference "
        "Extension, or remove spec.gateway.endpointPicker",
        "the cluster has no ScaledObject (keda.sh/v1alpha1): install KEDA, or set spec.autoscaling.scaler to HPA",
    ]


def test_a_kind_that_is_installed_later_is_used_from_then_on() -> None:
    before = settled(lacking(asking(**EVERYTHING), *KINDS))
    after = replace(before, installed=frozenset(OPTIONAL_KINDS))
    plan = reconcile(after, POOL, NOW)
    assert {obj["kind"] for obj in plan.applies} == {str(kind) for kind in KINDS}
    assert [(note.type, note.reason) for note in plan.events] == [("Normal", "ResolvedRefs")]
    assert not reconcile(applied(after, plan), POOL, NOW)


def test_a_kind_that_nobody_asks_for_may_be_missing() -> None:
    snapshot = settled(lacking(small_world(), *KINDS))
    assert condition(snapshot, Kind.SERVING_POOL, "shared", "ResolvedRefs")[:2] == ("True", "ResolvedRefs")


def test_a_paused_pool_goes_on_saying_what_is_missing() -> None:
    snapshot = settled(lacking(asking(**EVERYTHING, paused=True), Kind.HTTP_ROUTE))
    assert condition(snapshot, Kind.SERVING_POOL, "shared", "ResolvedRefs")[:2] == ("False", "KindNotInstalled")


def test_two_listeners_of_one_gateway_are_told_apart_when_looking_for_drift() -> None:
    parents = [PARENT, PARENT | {"sectionName": "https"}]
    snapshot = settled(asking(gateway={"parentRefs": parents}))
    assert child(snapshot, Kind.HTTP_ROUTE)["spec"]["parentRefs"] == parents
    found = child(snapshot, Kind.HTTP_ROUTE)
    moved = found | {"spec": found["spec"] | {"parentRefs": [PARENT, PARENT]}}
    assert [obj["kind"] for obj in reconcile(put(snapshot, moved), POOL, NOW).applies] == ["HTTPRoute"]
