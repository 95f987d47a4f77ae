"""What a real API server takes and refuses: a good object, one change of it, and what the user is told."""

import uuid
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster.control_plane import ControlPlane
from support.kubectl import ROOT, Json, Kubectl

EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))

GOOD: dict[str, Json] = {
    "tenant": {
        "apiVersion": "justitia.dev/v1alpha1",
        "kind": "Tenant",
        "metadata": {"name": "schema"},
        "spec": {
            "tier": "gold",
            "namespaces": {"names": ["a"]},
            "apiKeys": [{"secretRef": {"name": "k", "key": "token"}}],
            "limits": {"queuedRequests": 5},
        },
    },
    "pool": {
        "apiVersion": "justitia.dev/v1alpha1",
        "kind": "ServingPool",
        "metadata": {"name": "schema"},
        "spec": {
            "model": {"uri": "hf://acme/model"},
            "engine": {"resources": {"limits": {"nvidia.com/gpu": 1, "memory": "16Gi"}}},
            "scheduling": {"policy": "VTC", "tiers": [{"name": "gold", "weight": "4"}]},
        },
    },
    "group": {
        "apiVersion": "justitia.dev/v1alpha1",
        "kind": "ServingPool",
        "metadata": {"name": "a" * 38},
        "spec": {"model": {"uri": "hf://acme/model"}, "engine": {"nodes": 2}},
    },
    "application": {
        "apiVersion": "justitia.dev/v1alpha1",
        "kind": "LLMApplication",
        "metadata": {"name": "schema"},
        "spec": {
            "tenantRef": {"name": "t"},
            "poolRef": {"name": "p"},
            "slo": [{"metric": "RunCompletion", "percentile": 50, "boundMilliseconds": 60_000}],
        },
    },
    "bundle": {
        "apiVersion": "justitia.dev/v1alpha1",
        "kind": "LLMApplication",
        "metadata": {"name": "bundle"},
        "spec": {"tenantRef": {"name": "t"}, "pool": {"model": {"uri": "hf://acme/model"}}},
    },
}

GONE = object()
ADAPTER: Json = {"name": "a", "uri": "hf://a/b"}
TAKEN: Json = {"uri": "hf://acme/model", "name": "a", "adapters": [ADAPTER]}


def bounds(minimum: str, maximum: str) -> Json:
    """Bounds of gamma."""
    return {"minimumGamma": minimum, "maximumGamma": maximum}


def inside(policy: str, **more: Any) -> Json:
    """A policy that vLLM's own queue is ordered by."""
    return {"policy": policy, "enforcement": "Engine", **more}


def sharing(*tenants: tuple[str, str]) -> Json:
    """Tenants with the groups in which they share cached prefixes."""
    return {"tenants": [{"name": name, "group": group} for name, group in tenants]}


def in_front(policy: str) -> Json:
    """The same in front of an unchanged vLLM."""
    return {"policy": policy, "enforcement": "Sidecar"}


def objective(**changes: Any) -> list[Json]:
    """One objective of an application, changed."""
    return [{"metric": "TimeToFirstToken", "percentile": 99, "boundMilliseconds": 800} | changes]


KEDA: Json = {"scaler": "KEDA", "prometheusAddress": "https://prometheus.example:9090/a", "maximumReplicas": 2}
GATEWAY: Json = {"parentRefs": [{"name": "inference", "namespace": "gateways", "sectionName": "http"}]}

# What is changed, in which object, to what, and words that the user must read.
REFUSED: list[tuple[str, str, str, Any, str]] = [
    ("a weight beside a tier", "tenant", "spec.weight", "2", "tier and weight cannot both be set"),
    ("a tenant without namespaces", "tenant", "spec.namespaces", GONE, "spec.namespaces: Required"),
    ("an empty namespace selection", "tenant", "spec.namespaces", {}, "exactly one of names and selector"),
    (
        "namespaces by name and by label",
        "tenant",
        "spec.namespaces",
        {"names": ["a"], "selector": {"matchLabels": {"a": "b"}}},
        "exactly one of names and selector",
    ),
    ("an empty label selector", "tenant", "spec.namespaces", {"selector": {"matchLabels": {}}}, "at least 1"),
    ("a namespace named twice", "tenant", "spec.namespaces.names", ["a", "a"], "Duplicate value"),
    ("a namespace that is no name", "tenant", "spec.namespaces.names", ["A_b"], "should match"),
    ("a tenant without keys", "tenant", "spec.apiKeys", [], "at least 1"),
    ("too many keys", "tenant", "spec.apiKeys", [{"secretRef": {"name": "k"}}] * 17, "at most 16"),
    ("a key that names no Secret", "tenant", "spec.apiKeys", [{"secretRef": {"key": "token"}}], "Required value"),
    ("a key entry that is no entry", "tenant", "spec.apiKeys", [{"secretRef": {"name": "k", "key": "a/b"}}], "match"),
    ("a limit of nothing", "tenant", "spec.limits.queuedRequests", 0, "greater than or equal to 1"),
    ("a tier that is no name", "tenant", "spec.tier", "Gold!", "should match"),
    ("a field that does not exist", "tenant", "spec.wieght", "2", 'unknown field "spec.wieght"'),
    ("a pool without a model", "pool", "spec.model", GONE, "spec.model: Required"),
    ("a model from an unknown place", "pool", "spec.model.uri", "ftp://acme/model", "should match"),
    ("a model name with a space", "pool", "spec.model.name", "my model", "should match"),
    ("an unknown policy", "pool", "spec.scheduling.policy", "LIFO", "supported values"),
    ("an unknown enforcement", "pool", "spec.scheduling.enforcement", "Kernel", "supported values"),
    (
        "UniBoost in front of vLLM",
        "pool",
        "spec.scheduling",
        in_front("UniBoost"),
        "UniBoost works inside the engine only",
    ),
    ("SRPT in front of vLLM", "pool", "spec.scheduling", in_front("SRPT"), "set enforcement to Engine, or choose"),
    ("SJF in front of vLLM", "pool", "spec.scheduling", in_front("SJF"), "SJF works inside the engine only"),
    (
        "gamma for a policy without",
        "pool",
        "spec.scheduling",
        {"policy": "VTC", "boost": bounds("1", "2")},
        "boost is for policies TieredJustitia and UniBoost only: remove it, or choose one of these",
    ),
    (
        "crossed bounds of gamma",
        "pool",
        "spec.scheduling.boost",
        bounds("2", "1.5"),
        "must not be greater than maximum",
    ),
    ("gamma of zero", "pool", "spec.scheduling.boost", bounds("0.0", "1"), "must be greater than 0"),
    ("a negative gamma", "pool", "spec.scheduling.boost", bounds("-1", "1"), "should match"),
    ("gamma as a number", "pool", "spec.scheduling.boost", {"minimumGamma": 1, "maximumGamma": "2"}, "of type string"),
    (
        "a smallest gamma above the largest by default",
        "pool",
        "spec.scheduling",
        inside("UniBoost", boost={"minimumGamma": "11"}),
        "must not be greater than maximum",
    ),
    (
        "gamma with a mode that finds it",
        "pool",
        "spec.scheduling",
        inside("UniBoost", boost={"mode": "Adaptive", "gamma": "1"}),
        "gamma goes with mode Fixed, and must be set there: set both, or neither",
    ),
    (
        "gamma without a mode",
        "pool",
        "spec.scheduling",
        inside("UniBoost", boost={"gamma": "1"}),
        "gamma goes with mode Fixed",
    ),
    (
        "a fixed gamma that is not given",
        "pool",
        "spec.scheduling",
        inside("UniBoost", boost={"mode": "Fixed"}),
        "gamma goes with mode Fixed, and must be set there",
    ),
    (
        "a fixed gamma of zero",
        "pool",
        "spec.scheduling",
        inside("UniBoost", boost={"mode": "Fixed", "gamma": "0.0"}),
        "must be greater than 0",
    ),
    ("a negative burst", "pool", "spec.scheduling.burstSeconds", -1, "greater than or equal to 0"),
    ("a burst of hours", "pool", "spec.scheduling.burstSeconds", 3601, "less than or equal to 3600"),
    (
        "a burst of a policy that has none",
        "pool",
        "spec.scheduling",
        {"policy": "VTC", "burstSeconds": 5},
        "burstSeconds is for policy TieredJustitia with cost model EngineTime only: remove it, or choose these",
    ),
    (
        "a burst in a unit that is no time",
        "pool",
        "spec.scheduling",
        {"costModel": "WeightedTokens", "burstSeconds": 5},
        "burstSeconds is for policy TieredJustitia with cost model EngineTime only",
    ),
    ("a heartbeat of no time", "pool", "spec.scheduling.heartbeatSeconds", 0, "greater than or equal to 1"),
    (
        "a heartbeat of a policy that has none",
        "pool",
        "spec.scheduling",
        {"policy": "VTC", "heartbeatSeconds": 5},
        "heartbeatSeconds is for policy TieredJustitia only: remove it, or choose that policy",
    ),
    ("no stretch", "pool", "spec.scheduling.stretch", 0, "greater than or equal to 1"),
    (
        "a stretch of a policy that has none",
        "pool",
        "spec.scheduling",
        {"policy": "VTC", "stretch": 5},
        "stretch is for policy TieredJustitia only: remove it, or choose that policy",
    ),
    ("an unknown mode", "pool", "spec.scheduling.boost", {"mode": "Manual"}, "supported values"),
    ("a negative hysteresis", "pool", "spec.scheduling.boost", {"hysteresis": "-1"}, "should match"),
    (
        "gamma that follows objectives in another policy",
        "pool",
        "spec.scheduling",
        {"policy": "Justitia", "boost": {"mode": "SLO"}},
        "boost is for policies TieredJustitia and UniBoost only",
    ),
    (
        "UniBoost of an inline pool in front of vLLM",
        "bundle",
        "spec.pool.scheduling",
        in_front("UniBoost"),
        "UniBoost works inside the engine only",
    ),
    ("an unknown cost model", "pool", "spec.scheduling.costModel", "Guess", "supported values"),
    ("another cost model", "pool", "spec.scheduling.costModel", "KVTokenTime", "costModel cannot be changed"),
    ("a tier of weight zero", "pool", "spec.scheduling.tiers", [{"name": "a", "weight": "0.0"}], "must be from 0.001"),
    ("a tier of too large a weight", "pool", "spec.scheduling.tiers", [{"name": "a", "weight": "1000.1"}], "to 1000"),
    ("a negative weight", "pool", "spec.scheduling.tiers", [{"name": "a", "weight": "-1"}], "should match"),
    ("a weight as a number", "pool", "spec.scheduling.tiers", [{"name": "a", "weight": 1}], "must be of type string"),
    ("a weight that is no number", "pool", "spec.scheduling.tiers", [{"name": "a", "weight": "much"}], "should match"),
    ("a tier twice", "pool", "spec.scheduling.tiers", [{"name": "a", "weight": "1"}] * 2, "Duplicate value"),
    ("a queue without room", "pool", "spec.scheduling.queue", {"maximumRequests": 0}, "greater than or equal to 1"),
    ("a timeout of more than a day", "pool", "spec.scheduling.queue", {"timeoutSeconds": 86401}, "less than or equal"),
    (
        "a pool open to names and labels",
        "pool",
        "spec.allowedNamespaces",
        {"names": ["a"], "selector": {"matchLabels": {"a": "b"}}},
        "exactly one of names and selector",
    ),
    ("a pool open to nobody by name", "pool", "spec.allowedNamespaces", {"names": []}, "at least 1"),
    ("no most replicas", "pool", "spec.autoscaling", {"minimumReplicas": 1}, "Required value"),
    ("fewest more than most", "pool", "spec.autoscaling", {"minimumReplicas": 3, "maximumReplicas": 2}, "greater than"),
    ("no engine at night", "pool", "spec.autoscaling", {"minimumReplicas": 0, "maximumReplicas": 2}, "equal to 1"),
    ("scaling at no request", "pool", "spec.autoscaling", {"maximumReplicas": 2, "queuedRequests": 0}, "equal to 1"),
    ("an unknown scaler", "pool", "spec.autoscaling", {"scaler": "VPA", "maximumReplicas": 2}, "supported values"),
    (
        "KEDA without Prometheus",
        "pool",
        "spec.autoscaling",
        {"scaler": "KEDA", "maximumReplicas": 2},
        "prometheusAddress must be set with scaler KEDA: give the URL",
    ),
    ("a Prometheus that is no URL", "pool", "spec.autoscaling", KEDA | {"prometheusAddress": "p:9090"}, "should match"),
    ("a gateway without a name", "pool", "spec.gateway", {"parentRefs": [{"sectionName": "http"}]}, "Required value"),
    ("no gateway", "pool", "spec.gateway", {"parentRefs": []}, "at least 1"),
    ("a host that is no name", "pool", "spec.gateway", GATEWAY | {"hostnames": ["LLM.example"]}, "should match"),
    ("a host twice", "pool", "spec.gateway", GATEWAY | {"hostnames": ["a.b", "a.b"]}, "Duplicate value"),
    (
        "an endpoint picker without a port",
        "pool",
        "spec.gateway",
        GATEWAY | {"endpointPicker": {"name": "picker"}},
        "set both name and port",
    ),
    ("no replica", "pool", "spec.replicas", 0, "greater than or equal to 1"),
    ("an empty argument", "pool", "spec.engine.args", [""], "at least 1"),
    ("a tenant in two groups", "pool", "spec.engine.prefixCache", sharing(("a", "g"), ("a", "h")), "Duplicate value"),
    ("a tenant in no group", "pool", "spec.engine.prefixCache", {"tenants": [{"name": "a"}]}, "group: Required value"),
    ("a group of nobody", "pool", "spec.engine.prefixCache", {"tenants": [{"group": "g"}]}, "name: Required value"),
    ("a group that is no name", "pool", "spec.engine.prefixCache", sharing(("a", "A b")), "should match"),
    ("a tenant of a group that is no name", "pool", "spec.engine.prefixCache", sharing(("A_b", "g")), "should match"),
    (
        "too many tenants in groups",
        "pool",
        "spec.engine.prefixCache",
        sharing(*((f"t{number}", "g") for number in range(1025))),
        "at most 1024 items",
    ),
    ("a model on a claim without a name", "pool", "spec.model.uri", "pvc://models/a", "name must be set with a pvc://"),
    ("a model in an image without a name", "pool", "spec.model.uri", "oci://acme/model", "name must be set"),
    ("a claim that is no name", "pool", "spec.model.uri", "pvc://Models/a", "should match"),
    ("an adapter from an image", "pool", "spec.model.adapters", [{"name": "a", "uri": "oci://a/b"}], "should match"),
    ("an adapter for nobody", "pool", "spec.model.adapters", [ADAPTER | {"tenants": []}], "at least 1 items"),
    ("an adapter for a tenant twice", "pool", "spec.model.adapters", [ADAPTER | {"tenants": ["a", "a"]}], "Duplicate"),
    ("an adapter with the model's name", "pool", "spec.model", TAKEN, "an adapter must not have the model's name"),
    ("an adapter twice", "pool", "spec.model.adapters", [{"name": "a", "uri": "hf://a/b"}] * 2, "Duplicate value"),
    ("a variable without a value", "pool", "spec.engine.env", [{"name": "A"}], "exactly one of value and secretRef"),
    (
        "a variable with two values",
        "pool",
        "spec.engine.env",
        [{"name": "A", "value": "b", "secretRef": {"name": "c"}}],
        "exactly one of value and secretRef",
    ),
    ("a variable of ours", "pool", "spec.engine.env", [{"name": "PYTHONPATH", "value": "/x"}], "set by the operator"),
    ("our socket", "pool", "spec.engine.env", [{"name": "JUSTITIA_SOCKET", "value": "/x"}], "set by the operator"),
    ("a variable that is no name", "pool", "spec.engine.env", [{"name": "A-B", "value": "c"}], "should match"),
    ("a variable twice", "pool", "spec.engine.env", [{"name": "A", "value": "c"}] * 2, "Duplicate value"),
    ("a cache of an unknown type", "pool", "spec.engine.modelCache", {"type": "HostPath"}, "supported values"),
    (
        "a cache without its claim",
        "pool",
        "spec.engine.modelCache",
        {"type": "PersistentVolumeClaim"},
        "claimName must",
    ),
    ("a node's cache with a claim", "pool", "spec.engine.modelCache", {"type": "Node", "claimName": "c"}, "claimName"),
    ("shared memory that is no amount", "pool", "spec.engine.sharedMemory", "much", "should match"),
    ("an unknown rollout", "pool", "spec.engine.rollout", "BlueGreen", "supported values"),
    ("no time to start", "pool", "spec.engine.startupSeconds", 5, "greater than or equal to 60"),
    ("no patience with a step", "pool", "spec.engine.hangSeconds", 1, "greater than or equal to 10"),
    ("no time to drain", "pool", "spec.engine.drainSeconds", 0, "greater than or equal to 10"),
    ("a spread over nothing", "pool", "spec.engine.topologySpread", [{"maxSkew": 1}], "topologyKey: Required value"),
    (
        "an unknown spread",
        "pool",
        "spec.engine.topologySpread",
        [{"topologyKey": "zone", "whenUnsatisfiable": "Never"}],
        "supported values",
    ),
    ("a skew of nothing", "pool", "spec.engine.topologySpread", [{"topologyKey": "z", "maxSkew": 0}], "or equal to 1"),
    ("a priority class that is no name", "pool", "spec.engine.priorityClassName", "High!", "should match"),
    ("privileges", "pool", "spec.engine.securityContext", {"privileged": True}, 'unknown field "spec.engine.securityC'),
    ("a mount of the node", "pool", "spec.engine.volumes", [{"hostPath": {"path": "/"}}], "unknown field"),
    ("the node's network", "pool", "spec.engine.hostNetwork", True, "unknown field"),
    ("an amount that is none", "pool", "spec.engine.resources.limits", {"cpu": "many"}, "should match"),
    ("an unknown effect", "pool", "spec.engine.tolerations", [{"effect": "Never"}], "supported values"),
    ("a pool name with a dot", "pool", "metadata.name", "a.b", "at most 50 lower case letters"),
    ("a pool name that is too long", "pool", "metadata.name", "a" * 51, "at most 50 lower case letters"),
    ("an engine on no node", "pool", "spec.engine.nodes", 0, "greater than or equal to 1"),
    ("an engine on more nodes than there are", "pool", "spec.engine.nodes", 65, "less than or equal to 64"),
    ("a pool name too long for groups of pods", "group", "metadata.name", "a" * 39, "at most 38 characters"),
    ("an address for vLLM's parts", "pool", "spec.engine.env", [{"name": "VLLM_HOST_IP", "value": "::1"}], "is set by"),
    ("an application without a tenant", "application", "spec.tenantRef", GONE, "spec.tenantRef: Required"),
    ("an application without a pool", "application", "spec.poolRef", GONE, "exactly one of poolRef and pool"),
    ("an application with two pools", "bundle", "spec.poolRef", {"name": "p"}, "exactly one of poolRef and pool"),
    ("another tenant", "application", "spec.tenantRef.name", "u", "tenantRef cannot be changed"),
    ("a Valkey without an address", "pool", "spec.valkey", {}, "addresses: Required value"),
    ("a Valkey without a port", "pool", "spec.valkey", {"addresses": ["valkey"]}, "addresses"),
    (
        "sentinels without the primary's name",
        "pool",
        "spec.valkey",
        {"addresses": ["a:26379"], "kind": "Sentinel"},
        "primaryName goes with kind Sentinel",
    ),
    (
        "a primary's name without sentinels",
        "pool",
        "spec.valkey",
        {"addresses": ["a:6379"], "primaryName": "ours"},
        "primaryName goes with kind Sentinel",
    ),
    ("a store of no kind", "pool", "spec.learning", {"store": {}}, "exactly one of claimName and bucket"),
    (
        "a store of two kinds",
        "pool",
        "spec.learning",
        {"store": {"claimName": "c", "bucket": {"url": "s3://bucket"}}},
        "exactly one of claimName and bucket",
    ),
    ("learning without a store", "pool", "spec.learning", {}, "store: Required value"),
    (
        "a bucket of another kind",
        "pool",
        "spec.learning",
        {"store": {"bucket": {"url": "gs://bucket"}}},
        "should match",
    ),
    (
        "a service that is no URL",
        "pool",
        "spec.learning",
        {"store": {"bucket": {"url": "s3://bucket", "endpoint": "minio:9000"}}},
        "should match",
    ),
    ("too few samples to learn from", "application", "spec.predictor", {"minimumSamples": 5}, "equal to 20"),
    ("a version that is none", "application", "spec.predictor", {"version": "v1"}, "should match"),
    ("an unknown strategy", "application", "spec.predictor", {"rollout": {"strategy": "Blue"}}, "supported values"),
    (
        "a share without a canary",
        "application",
        "spec.predictor",
        {"rollout": {"percent": 10}},
        "percent is for strategy Canary only: remove it",
    ),
    (
        "a canary of most runs",
        "application",
        "spec.predictor",
        {"rollout": {"strategy": "Canary", "percent": 51}},
        "equal to 50",
    ),
    ("certainty", "application", "spec.predictor", {"rollout": {"confidencePercent": 100}}, "equal to 99"),
    ("an application of weight zero", "application", "spec.share", {"weight": "0.0"}, "from 0.001 to 1000"),
    ("an application beyond all weights", "application", "spec.share", {"weight": "1000.1"}, "from 0.001 to 1000"),
    ("an application of a negative weight", "application", "spec.share", {"weight": "-1"}, "should match"),
    ("an application's weight as a number", "application", "spec.share", {"weight": 2}, "must be of type string"),
    ("a priority beyond the highest", "application", "spec.share", {"priority": 11}, "less than or equal to 10"),
    ("a priority below the lowest", "application", "spec.share", {"priority": -11}, "greater than or equal to -10"),
    ("a priority between two", "application", "spec.share", {"priority": 0.5}, "must be of type integer"),
    ("a run that is over at once", "application", "spec.run", {"idleTimeoutSeconds": 0}, "greater than or equal to 1"),
    ("a run that costs nothing", "application", "spec.run", {"maximumCost": 0}, "greater than or equal to 1"),
    ("an unknown way out", "application", "spec.beyondObjective", "Drop", "supported values"),
    ("a percentile of 0", "application", "spec.slo", objective(percentile=0), "greater than or equal to 1"),
    ("a percentile of 100", "application", "spec.slo", objective(percentile=100), "less than or equal to 99"),
    ("a percentile between", "application", "spec.slo", objective(percentile=99.9), "must be of type integer"),
    ("a bound of 0", "application", "spec.slo", objective(boundMilliseconds=0), "greater than or equal to 1"),
    (
        "a bound of more than a day",
        "application",
        "spec.slo",
        objective(boundMilliseconds=86_400_001, windowSeconds=2_592_000),
        "less than or equal to 86400000",
    ),
    ("a window of seconds", "application", "spec.slo", objective(windowSeconds=59), "greater than or equal to 60"),
    (
        "a window of more than a month",
        "application",
        "spec.slo",
        objective(windowSeconds=2_592_001),
        "less than or equal to 2592000",
    ),
    (
        "a window of less than ten bounds",
        "application",
        "spec.slo",
        objective(boundMilliseconds=6001, windowSeconds=60),
        "windowSeconds must be at least ten times the bound",
    ),
    (
        "ten bounds longer than the window by default",
        "application",
        "spec.slo",
        objective(boundMilliseconds=360_001),
        "windowSeconds must be at least ten times the bound",
    ),
    ("an unknown metric", "application", "spec.slo", objective(metric="Throughput"), "supported values"),
    ("a bound in seconds", "application", "spec.slo", objective(boundSeconds=1), "unknown field"),
    (
        "an objective about nothing",
        "application",
        "spec.slo",
        [{"percentile": 99, "boundMilliseconds": 1}],
        "metric: Required value",
    ),
    (
        "two bounds of one metric and percentile",
        "application",
        "spec.slo",
        objective() + objective(boundMilliseconds=900),
        "Duplicate value",
    ),
    (
        "too many objectives",
        "application",
        "spec.slo",
        [each for percentile in range(90, 99) for each in objective(percentile=percentile)],
        "at most 8 items",
    ),
    ("an inline pool with a bad model", "bundle", "spec.pool.model.uri", "acme", "should match"),
    ("an inline pool under a name with a dot", "bundle", "metadata.name", "a.b", "at most 50 lower case letters"),
]


def changed(obj: Json, path: str, value: object) -> Json:
    out = deepcopy(obj)
    *parents, last = path.split(".")
    node = out
    for parent in parents:
        node = node.setdefault(parent, {})
    if value is GONE:
        del node[last]
    else:
        node[last] = value
    return out


@pytest.fixture(scope="module")
def kubectl(control_plane: ControlPlane) -> Kubectl:
    return control_plane.administrator


@pytest.fixture(scope="module")
def schema_namespace(kubectl: Kubectl) -> Iterator[str]:
    """A namespace with the good objects, so that a change of one is an update."""
    namespace = f"schema-{uuid.uuid4().hex[:8]}"
    kubectl("create", "namespace", namespace)
    for obj in GOOD.values():
        kubectl("-n", namespace, "apply", "-f", "-", stdin=yaml.safe_dump(obj))
    yield namespace
    kubectl("delete", "namespace", namespace, "--wait=false")
    kubectl("delete", "tenant", "schema")


@pytest.mark.parametrize("case", [pytest.param(case[1:], id=case[0]) for case in REFUSED])
def test_it_is_refused(kubectl: Kubectl, schema_namespace: str, case: tuple[str, str, Any, str]) -> None:
    base, path, value, words = case
    document = yaml.safe_dump(changed(GOOD[base], path, value))
    # Replaced, not applied: an apply would merge, and so could not take a field away.
    verb = "create" if path == "metadata.name" else "replace"
    strict = ("--dry-run=server", "--validate=strict")
    done = kubectl.run("-n", schema_namespace, verb, *strict, "-f", "-", stdin=document)
    assert done.returncode == 1, done.stdout
    assert words in done.stderr


ALLOWED: list[tuple[str, str, str, Any]] = [
    ("a tier of a small weight", "pool", "spec.scheduling.tiers", [{"name": "gold", "weight": "0.001"}]),
    ("another policy", "pool", "spec.scheduling.policy", "TieredJustitia"),
    ("strict shares", "pool", "spec.scheduling", {"burstSeconds": 0}),
    ("a heartbeat", "pool", "spec.scheduling", {"heartbeatSeconds": 30}),
    ("a stretch", "pool", "spec.scheduling", {"stretch": 100}),
    ("the largest weight", "pool", "spec.scheduling.tiers", [{"name": "gold", "weight": "1000"}]),
    ("a prefix cache without groups", "pool", "spec.engine.prefixCache", {}),
    ("groups of tenants", "pool", "spec.engine.prefixCache", sharing(("a", "g"), ("b.c", "g"), ("d", "h"))),
    ("groups of an inline pool", "bundle", "spec.pool.engine", {"prefixCache": sharing(("a", "g"))}),
    ("UniBoost inside vLLM", "pool", "spec.scheduling", inside("UniBoost")),
    ("UniBoost with bounds", "pool", "spec.scheduling", inside("UniBoost", boost=bounds("0.001", "10"))),
    ("UniBoost with equal bounds", "pool", "spec.scheduling", inside("UniBoost", boost=bounds("1.5", "1.5"))),
    ("UniBoost with one bound", "pool", "spec.scheduling", inside("UniBoost", boost={"minimumGamma": "1"})),
    ("a boost of defaults", "pool", "spec.scheduling", inside("UniBoost", boost={})),
    ("gamma that follows objectives", "pool", "spec.scheduling", inside("UniBoost", boost={"mode": "SLO"})),
    ("requests refused that are out of reach", "application", "spec.beyondObjective", "Refuse"),
    ("gamma inside shares", "pool", "spec.scheduling", inside("TieredJustitia", boost={"mode": "Adaptive"})),
    ("gamma of the default policy", "pool", "spec.scheduling", {"boost": bounds("0.01", "1")}),
    ("gamma inside shares, in front of vLLM", "pool", "spec.scheduling", in_front("TieredJustitia") | {"boost": {}}),
    (
        "a fixed gamma without hysteresis",
        "pool",
        "spec.scheduling",
        inside("UniBoost", boost={"mode": "Fixed", "gamma": "0.000001", "hysteresis": "0"}),
    ),
    ("SRPT inside vLLM", "pool", "spec.scheduling", inside("SRPT")),
    ("SJF inside vLLM", "pool", "spec.scheduling", inside("SJF")),
    ("another model", "pool", "spec.model.uri", "file:///models/other"),
    ("an amount as a number", "pool", "spec.engine.resources.requests", {"cpu": 2}),
    ("KEDA", "pool", "spec.autoscaling", KEDA),
    ("a gateway", "pool", "spec.gateway", GATEWAY | {"hostnames": ["*.example.com"]}),
    ("an endpoint picker", "pool", "spec.gateway", GATEWAY | {"endpointPicker": {"name": "picker", "port": 9002}}),
    ("the pool's own endpoint pickers", "pool", "spec.gateway", GATEWAY | {"endpointPicker": {}}),
    ("a store on a claim", "pool", "spec.learning", {"store": {"claimName": "models"}}),
    ("a Valkey", "pool", "spec.valkey", {"addresses": ["valkey.shared:6379"], "secretRef": {"name": "login"}}),
    (
        "sentinels",
        "pool",
        "spec.valkey",
        {"addresses": ["a:26379", "[fd00::1]:26379"], "kind": "Sentinel", "primaryName": "ours", "tls": True},
    ),
    (
        "a store in a bucket",
        "pool",
        "spec.learning",
        {
            "store": {
                "bucket": {"url": "s3://models/justitia", "endpoint": "https://s3.example:9000/x", "region": "eu-1"}
            }
        },
    ),
    ("a predictor of defaults", "application", "spec.predictor", {}),
    ("a canary", "application", "spec.predictor", {"rollout": {"strategy": "Canary", "percent": 25}}),
    ("a version by hand", "application", "spec.predictor", {"version": "0" * 64}),
    ("a window of just ten bounds", "application", "spec.slo", objective(boundMilliseconds=6000, windowSeconds=60)),
    ("the longest bound", "application", "spec.slo", objective(boundMilliseconds=86_400_000, windowSeconds=864_000)),
    ("two percentiles of one metric", "application", "spec.slo", objective(percentile=1) + objective()),
    ("no objectives", "application", "spec.slo", []),
    ("another pool", "application", "spec.poolRef.name", "q"),
    ("a share", "application", "spec.share", {"weight": "0.5", "priority": -10}),
    ("the highest priority", "application", "spec.share", {"priority": 10}),
    ("a longer run", "application", "spec.run", {"idleTimeoutSeconds": 90, "maximumCost": 1000000}),
    ("another tier", "tenant", "spec.tier", "silver"),
    ("no tier", "tenant", "spec.tier", GONE),
]


@pytest.mark.parametrize(("base", "path", "value"), [case[1:] for case in ALLOWED], ids=[case[0] for case in ALLOWED])
def test_it_is_taken(kubectl: Kubectl, schema_namespace: str, base: str, path: str, value: object) -> None:
    document = yaml.safe_dump(changed(GOOD[base], path, value))
    kubectl("-n", schema_namespace, "replace", "--dry-run=server", "--validate=strict", "-f", "-", stdin=document)


def test_a_pool_cannot_be_exchanged_for_a_reference(kubectl: Kubectl, schema_namespace: str) -> None:
    other = changed(changed(GOOD["bundle"], "spec.pool", GONE), "spec.poolRef", {"name": "p"})
    done = kubectl.run("-n", schema_namespace, "replace", "--dry-run=server", "-f", "-", stdin=yaml.safe_dump(other))
    assert "cannot be exchanged" in done.stderr


@pytest.mark.parametrize("what", ["tenants", "servingpools", "llmapplications"])
def test_defaults_never_change_an_object_that_is_applied_again(
    kubectl: Kubectl, schema_namespace: str, what: str
) -> None:
    documents = yaml.safe_dump_all([obj for obj in GOOD.values() if obj["kind"].lower() + "s" == what])
    before = [item["metadata"]["resourceVersion"] for item in kubectl.items(what, schema_namespace)]
    kubectl("-n", schema_namespace, "apply", "-f", "-", stdin=documents)
    assert [item["metadata"]["resourceVersion"] for item in kubectl.items(what, schema_namespace)] == before


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("tenant.spec", "What the tenant is entitled to"),
        ("tn.spec.apiKeys.secretRef", "The Secret that holds the key"),
        ("spool.spec.scheduling.policy", "Order of service"),
        ("spool.spec.scheduling.policy", "with preemption, for the tail of response times"),
        ("spool.spec.scheduling.boost.minimumGamma", "Smallest gamma, in 1/s"),
        ("spool.spec.scheduling.boost.mode", "so that the objectives of the pool's applications are met"),
        ("spool.status.gamma", "Gamma in effect"),
        ("spool.spec.engine.resources", "including GPUs"),
        ("spool.spec.gateway.parentRefs", "X-Gateway-Model-Name"),
        ("llmapp.spec.run", "When runs end"),
        ("llmapp.spec.predictor.rollout.strategy", "predicts live runs without effect"),
        ("llmapp.spec.slo.metric", "from a request's arrival to its first token"),
        ("llmapp.status.slo.objectives.errorBudgetPercent", "What is left of the misses"),
        ("llmapp.status.predictor.lastDecision", "The last decision, and its reason"),
        ("spool.spec.learning.store", "are kept after pods are gone"),
        ("llmapp.spec.pool.scheduling.tiers.weight", "Share of service"),
        ("llmapp.status.endpoint", "Base URL for OpenAI clients"),
        ("spool.status.conditions", "Observations about the resource"),
    ],
)
def test_kubectl_explain_has_something_to_say(kubectl: Kubectl, path: str, words: str) -> None:
    assert words in " ".join(kubectl("explain", path).split())


def test_kubectl_explain_has_no_field_without_a_description(kubectl: Kubectl) -> None:
    for name in ("tenant", "servingpool", "llmapplication"):
        assert "<no description>" not in kubectl("explain", f"{name}.spec")


@pytest.mark.parametrize("example", ["llmapp.yaml", "gateway.yaml"])
def test_the_example_is_valid(kubectl: Kubectl, schema_namespace: str, example: str) -> None:
    documents = list(yaml.safe_load_all((ROOT / "examples" / example).read_text()))
    ours = [d | {"metadata": d["metadata"] | {"namespace": schema_namespace}} for d in documents if "spec" in d]
    kubectl("apply", "--dry-run=server", "--validate=strict", "-f", "-", stdin=yaml.safe_dump_all(ours))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_the_examples_are_taken(kubectl: Kubectl, example: Path) -> None:
    documents = list(yaml.safe_load_all(example.read_text()))
    for namespace in {document["metadata"].get("namespace", "default") for document in documents}:
        kubectl.run("create", "namespace", namespace)
    kubectl("apply", "--dry-run=server", "--validate=strict", "-f", str(example))
