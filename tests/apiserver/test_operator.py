"""The operator's process against a real API server.

The control plane has no kubelet and no scheduler: pods stay Pending, so where an engine must be ready, the test writes
into the pod's status what a kubelet would have written. Everything else is what a cluster does.
"""

import base64
import json
import urllib.request
from collections.abc import Callable
from pathlib import Path
from urllib.error import HTTPError

import pytest
import yaml

from justitia_api.config import KeyTable, PoolConfig, key_digest
from justitia_operator.build.credentials import pool_pepper
from support.kubectl import ROOT, Json, Kubectl, OperatorProcess, eventually
from support.stage import SYSTEM, Stage

CHILD_KINDS = ("serviceaccount", "configmap", "secret", "service", "deployment", "poddisruptionbudget", "networkpolicy")


def pepper(kubectl: Kubectl, namespace: str) -> str:
    root = base64.b64decode(kubectl.get("secret", "root.justitia.dev", SYSTEM)["data"]["root"]).decode()
    return pool_pepper(root, kubectl.get("spool", "shared", namespace)["metadata"]["uid"])


def test_the_example_becomes_a_pool_of_three_tenants_and_five_applications(
    kubectl: Kubectl, operator: OperatorProcess
) -> None:
    kubectl("apply", "-f", str(ROOT / "examples" / "llmapp.yaml"))
    eventually(lambda: kubectl.get("spool", "shared", "demo")["status"]["applications"] == 5)
    documents = list(yaml.safe_load_all((ROOT / "examples" / "llmapp.yaml").read_text()))
    tokens = {d["metadata"]["name"]: d["stringData"]["token"] for d in documents if d["kind"] == "Secret"}

    config = PoolConfig.model_validate_json(kubectl.get("cm", "justitia-shared", "demo")["data"]["pool.json"])
    assert {(t.name, t.tier, t.weight) for t in config.tenants} == {
        ("research", "bronze", 1.0),
        ("batch", "silver", 2.0),
        ("support", "gold", 4.0),
    }
    assert {(a.name, a.tenant) for a in config.applications} == {
        ("map-reduce-summary", "research"),
        ("self-consistency", "research"),
        ("code-checking", "batch"),
        ("fact-verification", "batch"),
        ("chat", "support"),
    }
    table = base64.b64decode(kubectl.get("secret", "justitia-shared", "demo")["data"]["keys.json"])
    entries = {(e.tenant, e.digest) for e in KeyTable.model_validate_json(table).keys}
    wanted = {(n.removesuffix("-key"), key_digest(pepper(kubectl, "demo"), t.encode())) for n, t in tokens.items()}
    assert entries == wanted
    assert not any(token.encode() in table for token in tokens.values())

    pod = kubectl.get("deployment", "justitia-shared", "demo")["spec"]["template"]["spec"]
    (*_, scheduler), (engine,) = pod["initContainers"], pod["containers"]
    assert (scheduler["restartPolicy"], scheduler["image"]) == ("Always", "justitia:test")
    assert engine["resources"]["limits"] == {"nvidia.com/gpu": "1"}
    assert "--model=Qwen/Qwen2.5-0.5B-Instruct" in engine["args"]
    service = kubectl.get("service", "justitia-shared", "demo")["spec"]
    assert [(p["port"], p["targetPort"]) for p in service["ports"]] == [(80, 8000)]
    endpoint = kubectl.get("llmapp", "chat", "demo")["status"]["endpoint"]
    assert endpoint == "http://justitia-shared.demo.svc/applications/demo/chat/v1"


def test_pods_are_admitted_at_the_restricted_security_level(stage: Stage) -> None:
    label = "pod-security.kubernetes.io/enforce=restricted"
    stage.kubectl("label", "namespace", stage.namespace, label)
    stage.kubectl("-n", stage.namespace, "delete", "pods", "--all", "--force", "--grace-period=0")
    eventually(lambda: stage.kubectl.names("pods", stage.namespace))


def test_an_application_is_ready_once_its_engine_is(stage: Stage) -> None:
    assert stage.condition("llmapp", "chat", "Ready") == ("False", "PoolNotReady")
    stage.act_as_kubelet()
    eventually(lambda: stage.condition("llmapp", "chat", "Ready") == ("True", "Serving"))
    eventually(lambda: stage.condition("spool", "shared", "EnginesAvailable") == ("True", "AllAvailable"))
    assert stage.kubectl.get("spool", "shared", stage.namespace)["status"]["readyReplicas"] == 1
    stage.kubectl("-n", stage.namespace, "wait", "--for=condition=Ready", "llmapp/chat", "--timeout=5s")


def test_a_changed_engine_that_does_not_come_leaves_the_old_one_and_says_why(stage: Stage) -> None:
    (old,) = stage.pods()
    stage.act_as_kubelet()
    eventually(lambda: stage.condition("spool", "shared", "EnginesAvailable") == ("True", "AllAvailable"))
    stage.set(pool={"engine": {"image": "example.com/no:such", "resources": {"limits": {"nvidia.com/gpu": 1}}}})
    (new,) = eventually(lambda: [pod for pod in stage.pods() if pod != old])
    message = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
    reason = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    stage.report(new, conditions=[reason])
    eventually(lambda: stage.condition("spool", "shared", "EnginesAvailable") == ("True", "InsufficientAccelerators"))

    pulling = {"name": "engine", "image": "", "imageID": "", "ready": False, "restartCount": 0}
    pulling["state"] = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
    stage.report(new, conditions=[reason | {"status": "True"}], containerStatuses=[pulling])
    eventually(lambda: stage.condition("spool", "shared", "EnginesAvailable") == ("True", "ImageNotAvailable"))
    assert stage.condition("spool", "shared", "Ready") == ("True", "Serving")
    assert old in stage.pods()
    stage.set()
    eventually(lambda: stage.condition("spool", "shared", "EnginesAvailable") == ("True", "AllAvailable"))


def test_transitions_are_told_as_events(stage: Stage) -> None:
    stage.act_as_kubelet()

    def told() -> bool:
        events = stage.kubectl.items("events", stage.namespace)
        return ("ServingPool", "Serving") in {(e["involvedObject"]["kind"], e["reason"]) for e in events}

    eventually(told)


def test_a_change_of_weight_is_in_the_configuration_and_touches_no_pod(stage: Stage) -> None:
    deployment, generation = stage.child("deployment"), stage.config().generation
    stage.set(tenant={"weight": "2.5"})
    eventually(lambda: stage.config().tenants[0].weight == 2.5)
    assert stage.config().generation == generation + 1
    assert stage.child("deployment")["metadata"]["generation"] == deployment["metadata"]["generation"]


def test_a_tier_gives_its_weight_and_changes_with_it(stage: Stage) -> None:
    stage.set(tenant={"tier": "gold"}, pool={"scheduling": {"tiers": [{"name": "gold", "weight": "4"}]}})
    eventually(lambda: (stage.config().tenants[0].tier, stage.config().tenants[0].weight) == ("gold", 4.0))
    stage.set(tenant={"tier": "gold"}, pool={"scheduling": {"tiers": [{"name": "gold", "weight": "8"}]}})
    eventually(lambda: stage.config().tenants[0].weight == 8.0)


def test_another_policy_is_in_the_configuration(stage: Stage) -> None:
    stage.set(pool={"scheduling": {"policy": "VTC"}})
    eventually(lambda: stage.config().scheduling.policy == "VTC")


def test_a_rotated_key_replaces_the_old_one(stage: Stage) -> None:
    stage.kubectl.apply(stage.key("another-token-0123456789abcdef"))
    digest = key_digest(pepper(stage.kubectl, stage.namespace), b"another-token-0123456789abcdef")
    eventually(lambda: [entry.digest for entry in stage.keys().keys] == [digest])


def test_a_revoked_key_is_gone_and_the_tenant_says_so(stage: Stage) -> None:
    stage.kubectl("-n", SYSTEM, "delete", "secret", stage.tenant)
    eventually(lambda: stage.keys().keys == ())
    eventually(lambda: stage.condition("tn", stage.tenant, "ResolvedRefs") == ("False", "SecretNotFound"))


def test_an_engine_change_is_rolled_out_and_a_removed_one_taken_back(stage: Stage) -> None:
    def args() -> list[str]:
        found: list[str] = stage.child("deployment")["spec"]["template"]["spec"]["containers"][0]["args"]
        return found

    plain = args()
    stage.set(pool={"engine": {"args": ["--max-model-len=99"], "nodeSelector": {"zone": "a"}}})
    eventually(lambda: args()[-1] == "--max-model-len=99")
    stage.set()
    eventually(lambda: args() == plain)
    assert "nodeSelector" not in stage.child("deployment")["spec"]["template"]["spec"]


def test_scaling_by_the_subresource_makes_engines_and_admits_that_shares_are_per_replica(stage: Stage) -> None:
    stage.kubectl("-n", stage.namespace, "scale", "spool/shared", "--replicas=2")
    eventually(lambda: stage.child("deployment")["spec"]["replicas"] == 2)
    eventually(lambda: stage.condition("spool", "shared", "PoolFairness") == ("False", "PerReplica"))
    assert stage.kubectl.run("-n", stage.namespace, "scale", "spool/shared", "--replicas=0").returncode == 1


DRIFT: dict[str, Json] = {
    "deployment": {"spec": {"replicas": 3}},
    "service": {"spec": {"selector": {"justitia.dev/pool": "another"}}},
    "poddisruptionbudget": {"spec": {"maxUnavailable": 2}},
    "networkpolicy": {"spec": {"ingress": [{}]}},
    "secret": {"data": {"keys.json": base64.b64encode(b"{}").decode()}},
    "serviceaccount": {"automountServiceAccountToken": True},
}


def test_children_that_somebody_changed_are_put_right(stage: Stage) -> None:
    def contents() -> dict[str, Json]:
        return {kind: _content(stage.child(kind)) for kind in DRIFT}

    before = contents()
    for kind, change in DRIFT.items():
        stage.kubectl.patch(kind, "justitia-shared", stage.namespace, change)
    eventually(lambda: contents() == before)


def _content(obj: Json) -> Json:
    return {key: value for key, value in obj.items() if key not in ("metadata", "status")}


def test_a_configuration_that_somebody_changed_is_put_right_under_a_higher_generation(stage: Stage) -> None:
    before = stage.config()
    forged = before.model_copy(update={"tenants": (), "generation": 40}).model_dump_json(by_alias=True)
    stage.kubectl.patch("configmap", "justitia-shared", stage.namespace, {"data": {"pool.json": forged}})
    eventually(lambda: stage.config().tenants == before.tenants)
    assert stage.config().generation == 41


def test_children_that_somebody_deleted_come_back(stage: Stage) -> None:
    def identities() -> set[str]:
        return {stage.child(kind)["metadata"]["uid"] for kind in CHILD_KINDS}

    gone, generation = identities(), stage.config().generation
    stage.kubectl("-n", stage.namespace, "delete", *(f"{kind}/justitia-shared" for kind in CHILD_KINDS))
    eventually(lambda: not identities() & gone)
    assert stage.config().generation >= generation


def test_a_deleted_application_leaves_the_configuration(stage: Stage) -> None:
    stage.kubectl("-n", stage.namespace, "delete", "llmapp", "chat")
    eventually(lambda: stage.config().applications == ())
    assert stage.config().tenants == ()
    eventually(lambda: stage.keys().keys == ())


def test_a_deleted_tenant_leaves_its_applications_unserved_and_says_so(stage: Stage) -> None:
    stage.kubectl("delete", "tenant", stage.tenant)
    eventually(lambda: stage.condition("llmapp", "chat", "ResolvedRefs") == ("False", "TenantNotFound"))
    eventually(lambda: stage.config().applications == ())


def test_a_deleted_pool_takes_its_children_along(stage: Stage) -> None:
    stage.kubectl("-n", stage.namespace, "delete", "spool", "shared")
    kinds = ",".join(CHILD_KINDS)
    eventually(lambda: "justitia-shared" not in stage.kubectl.names(kinds, stage.namespace))
    eventually(lambda: stage.condition("llmapp", "chat", "ResolvedRefs") == ("False", "PoolNotFound"))


def test_an_inline_pool_lives_and_goes_with_its_application(stage: Stage) -> None:
    stage.kubectl.apply(stage.application("own", pool={"model": {"uri": "hf://acme/other"}}))
    eventually(lambda: stage.config("own").applications[0].name == "own")
    stage.kubectl.apply(stage.application("own", pool={"model": {"uri": "hf://acme/other"}, "replicas": 2}))
    eventually(lambda: stage.child("deployment", "own")["spec"]["replicas"] == 2)
    stage.kubectl("-n", stage.namespace, "delete", "llmapp", "own")
    eventually(lambda: not stage.kubectl.exists("spool", "own", stage.namespace))
    eventually(lambda: not stage.kubectl.exists("deployment", "justitia-own", stage.namespace))


def test_an_application_runs_no_pods_of_its_authors_choice(stage: Stage) -> None:
    """What was made before stays as it was while more is asked for, and follows once that is taken back."""
    secret = {"name": "SECRET", "secretRef": {"name": "any", "key": "password"}}
    engine = {"image": "evil/x", "priorityClassName": "system-node-critical", "env": [secret]}
    modest: Json = {"model": {"uri": "hf://acme/other"}}
    stage.kubectl.apply(stage.application("own", pool=modest | {"engine": engine}))
    eventually(lambda: stage.condition("llmapp", "own", "Accepted") == ("False", "InlinePoolRefused"))
    assert not stage.kubectl.exists("spool", "own", stage.namespace)
    stage.kubectl.apply(stage.application("own", pool=modest))
    eventually(lambda: stage.condition("llmapp", "own", "Accepted") == ("True", "Accepted"))
    before = eventually(lambda: stage.child("deployment", "own"))["spec"]
    stage.kubectl.apply(stage.application("own", pool=modest | {"engine": engine, "replicas": 2}))
    eventually(lambda: stage.condition("llmapp", "own", "Accepted") == ("False", "InlinePoolRefused"))
    assert stage.child("deployment", "own")["spec"] == before
    stage.kubectl.apply(stage.application("own", pool=modest | {"replicas": 2}))
    eventually(lambda: stage.child("deployment", "own")["spec"]["replicas"] == 2)


MISTAKES: list[tuple[str, Json, str, str, str]] = [
    ("a tier that the pool lacks", {"tenant": {"tier": "gold"}}, "llmapp", "ResolvedRefs", "UnknownTier"),
    (
        "a namespace not allowed",
        {"tenant": {"namespaces": {"names": ["x"]}}},
        "llmapp",
        "Accepted",
        "NamespaceNotAllowed",
    ),
    ("a pool that is not there", {"application": {"poolRef": {"name": "x"}}}, "llmapp", "ResolvedRefs", "PoolNotFound"),
    ("an argument of ours", {"pool": {"engine": {"args": ["--port=1"]}}}, "spool", "Accepted", "EngineArgumentRefused"),
    (
        "more requested than allowed",
        {"pool": {"engine": {"resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}}}},
        "spool",
        "Accepted",
        "ObjectRefused",
    ),
]


@pytest.mark.parametrize(
    ("changes", "what", "type_", "reason"), [case[1:] for case in MISTAKES], ids=[case[0] for case in MISTAKES]
)
def test_a_mistake_is_a_condition_until_it_is_mended(
    stage: Stage, changes: dict[str, Json], what: str, type_: str, reason: str
) -> None:
    name = "chat" if what == "llmapp" else "shared"
    stage.set(**changes)
    eventually(lambda: stage.condition(what, name, type_) == ("False", reason))
    stage.set()
    eventually(lambda: stage.condition(what, name, type_)[0] == "True")


def test_a_namespace_is_allowed_once_it_has_the_label(stage: Stage) -> None:
    stage.set(tenant={"namespaces": {"selector": {"matchLabels": {"team": "a"}}}})
    # The names of before would stay beside the selector: apply takes them away, since it had set them.
    eventually(lambda: stage.condition("llmapp", "chat", "Accepted") == ("False", "NamespaceNotAllowed"))
    stage.kubectl("label", "namespace", stage.namespace, "team=a")
    eventually(lambda: stage.condition("llmapp", "chat", "Accepted") == ("True", "Accepted"))


def test_a_standby_is_ready_and_tells_what_it_does(
    kubectl: Kubectl, operator: OperatorProcess, tmp_path: Path, free_port: int
) -> None:
    def answer(path: str) -> str:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{free_port}{path}", timeout=5) as response:
                return str(response.read().decode())
        except HTTPError as error:
            error.close()
            raise

    standby = OperatorProcess(kubectl.kubeconfig, SYSTEM, tmp_path / "log", JUSTITIA_HTTP_PORT=str(free_port))
    try:
        assert eventually(lambda: json.loads(answer("/readyz"))) == {"watching": True}
        assert json.loads(answer("/healthz")) == {"status": "ok"}
        assert "justitia_operator_leading 0.0" in answer("/metrics")
    finally:
        standby.kill()


def test_nothing_is_written_while_nothing_changes(stage: Stage, operator: OperatorProcess) -> None:
    operator.wait_for_resyncs(2)
    before = stage.versions()
    operator.wait_for_resyncs(5)
    assert stage.versions() == before
    assert {f"ConfigMap {stage.namespace}/justitia-shared", f"Tenant /{stage.tenant}"} < before.keys()


def test_a_later_version_waits_then_writes_nothing_and_catches_up_what_changed_meanwhile(
    kubectl: Kubectl, namespace: str, start: Callable[..., OperatorProcess], operator: OperatorProcess
) -> None:
    """Its sidecar is another image, which restarts no engine that is not changed otherwise."""
    stage = Stage(kubectl, namespace)
    stage.set()
    stage.settle()
    operator.wait_for_resyncs(2)
    before = stage.versions()
    successor = start(JUSTITIA_SIDECAR_IMAGE="justitia:next")
    eventually(lambda: successor.entries("watching"))
    operator.wait_for_resyncs(2)
    assert successor.entries("leading") == 0
    assert operator.stop() == 0
    assert "not released" not in operator.log()
    successor.wait_until_working()
    successor.wait_for_resyncs(2)
    assert stage.versions() == before

    assert successor.stop() == 0
    stage.set(tenant={"weight": "7"})
    kubectl("-n", namespace, "delete", "service", "justitia-shared")
    start(JUSTITIA_SIDECAR_IMAGE="justitia:next")
    eventually(lambda: stage.config().tenants[0].weight == 7.0)
    eventually(lambda: kubectl.exists("service", "justitia-shared", namespace))

    def sidecar() -> str:
        image: str = stage.child("deployment")["spec"]["template"]["spec"]["initContainers"][0]["image"]
        return image

    assert sidecar() == "justitia:test"
    stage.set(pool={"engine": {"args": ["--max-num-seqs=8"]}})
    eventually(lambda: sidecar() == "justitia:next")


def test_a_setting_that_cannot_be_used_is_one_line_and_an_exit_code(kubectl: Kubectl, tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert OperatorProcess(kubectl.kubeconfig, SYSTEM, log, JUSTITIA_WORKERS="0").wait() == 2
    assert log.read_text() == "JUSTITIA_WORKERS: Input should be greater than or equal to 1\n"


def test_a_cluster_that_cannot_be_reached_is_named_and_waited_for_until_it_is_told_to_stop(tmp_path: Path) -> None:
    nowhere = tmp_path / "kubeconfig"
    cluster = {"name": "c", "cluster": {"server": "https://127.0.0.1:9", "insecure-skip-tls-verify": True}}
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    config = {"apiVersion": "v1", "kind": "Config", "clusters": [cluster], "contexts": [context]}
    config |= {"users": [{"name": "u", "user": {"token": "t"}}], "current-context": "c"}
    nowhere.write_text(yaml.safe_dump(config))
    log = tmp_path / "log"
    operator = OperatorProcess(str(nowhere), SYSTEM, log)
    eventually(lambda: operator.entries("waiting for the API server") > 1)
    assert "127.0.0.1" in log.read_text()
    assert operator.stop() == 0
