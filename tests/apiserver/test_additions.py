"""A namespace's editor adds to what a pool consists of: a real API server, kubectl, and the operator's process."""

import json

import pytest

from support.kubectl import Json, OperatorProcess, eventually
from support.stage import Stage

DEPLOYMENT = "deployment/justitia-shared"
ENGINE = {"name": "engine"}
FORGET = json.dumps([{"op": "replace", "path": "/metadata/managedFields", "value": [{}]}])


def content(stage: Stage, kind: str) -> Json:
    """All but what the API server and others may write."""
    found = stage.child(kind)
    content = {key: value for key, value in found.items() if key not in {"metadata", "status"}}
    return content | {"owners": found["metadata"]["ownerReferences"]}


def rests(stage: Stage, operator: OperatorProcess) -> None:
    operator.wait_for_resyncs(2)
    before = stage.versions()
    operator.wait_for_resyncs(3)
    assert stage.versions() == before


def events(stage: Stage, reason: str) -> list[str]:
    items = stage.kubectl.items("events")
    mine = [each for each in items if each["involvedObject"].get("namespace") == stage.namespace]
    return [each["message"] for each in mine if each["reason"] == reason]


def accepted(stage: Stage) -> tuple[str, str]:
    return stage.condition("spool", "shared", "Accepted")


def patch(stage: Stage, kind: str, change: object, type_: str = "strategic", *more: str) -> None:
    stage.kubectl(
        "-n", stage.namespace, "patch", kind, "justitia-shared", f"--type={type_}", "-p", json.dumps(change), *more
    )


def set_env(stage: Stage, *arguments: str) -> None:
    stage.kubectl("-n", stage.namespace, "set", "env", DEPLOYMENT, "-c=engine", *arguments)


def variables(stage: Stage) -> set[str]:
    containers = stage.child("deployment")["spec"]["template"]["spec"]["containers"]
    return {each["name"] for container in containers for each in container.get("env", ())}


def test_a_variable_is_taken_out_and_told_in_an_event(stage: Stage, operator: OperatorProcess) -> None:
    before = content(stage, "deployment")
    stage.kubectl("-n", stage.namespace, "annotate", DEPLOYMENT, "example.com/note=kept")
    set_env(stage, "LD_PRELOAD=/tmp/theirs.so")
    eventually(lambda: content(stage, "deployment") == before)
    (message,) = eventually(lambda: events(stage, "FieldsRemoved"))
    assert f"Deployment {stage.namespace}/justitia-shared" in message
    assert "spec.template.spec.containers[name=engine].env[name=LD_PRELOAD] (by kubectl-set)" in message
    assert "set what you need in the ServingPool" in message
    assert accepted(stage) == ("True", "Accepted")
    rests(stage, operator)
    assert stage.child("deployment")["metadata"]["annotations"]["example.com/note"] == "kept"
    assert len(events(stage, "FieldsRemoved")) == 1


POD = {"spec": {"template": {"spec": {"containers": [{"name": "engine", "env": [{"name": "X", "value": "Y"}]}]}}}}
MOUNT = {"name": "host", "mountPath": "/host"}
ATTACKS: dict[str, tuple[str, str, Json]] = {
    "a container": (
        "deployment",
        "strategic",
        {"spec": {"template": {"spec": {"containers": [{"name": "miner", "image": "example.com/miner"}]}}}},
    ),
    "a folder of the node": (
        "deployment",
        "strategic",
        {
            "spec": {
                "template": {
                    "spec": {
                        "volumes": [{"name": "host", "hostPath": {"path": "/"}}],
                        "containers": [ENGINE | {"volumeMounts": [MOUNT]}],
                    }
                }
            }
        },
    ),
    "privileges": (
        "deployment",
        "strategic",
        {
            "spec": {
                "template": {
                    "spec": {
                        "hostNetwork": True,
                        "hostPID": True,
                        "securityContext": {"runAsUser": 0},
                        "containers": [
                            ENGINE
                            | {
                                "securityContext": {"runAsUser": 0},
                                "envFrom": [{"configMapRef": {"name": "theirs"}}],
                                "lifecycle": {"postStart": {"exec": {"command": ["true"]}}},
                            }
                        ],
                    }
                }
            }
        },
    ),
    "a halt of rollouts": ("deployment", "strategic", {"spec": {"paused": True}}),
    "a way out": ("networkpolicy", "merge", {"spec": {"egress": [{}]}}),
    "fewer pods that a policy is for": (
        "networkpolicy",
        "merge",
        {"spec": {"podSelector": {"matchExpressions": [{"key": "theirs", "operator": "Exists"}]}}},
    ),
    "an address outside": ("service", "merge", {"spec": {"externalIPs": ["192.0.2.7"], "type": "NodePort"}}),
    "a port": ("service", "strategic", {"spec": {"ports": [{"name": "more", "port": 81, "protocol": "TCP"}]}}),
    "a label to select by": ("service", "merge", {"spec": {"selector": {"theirs": "yes"}}}),
    "a file": ("configmap", "merge", {"data": {"more.json": "{}"}}),
    "a secret file": ("secret", "merge", {"data": {"more": "e30="}}),
    "a wider budget": (
        "poddisruptionbudget",
        "merge",
        {"spec": {"selector": {"matchExpressions": [{"key": "theirs", "operator": "Exists"}]}}},
    ),
}


@pytest.mark.parametrize(("kind", "type_", "change"), ATTACKS.values(), ids=ATTACKS)
def test_what_an_editor_adds_is_taken_out(
    stage: Stage, operator: OperatorProcess, kind: str, type_: str, change: Json
) -> None:
    before = content(stage, kind)
    patch(stage, kind, change, type_)
    eventually(lambda: content(stage, kind) == before)
    eventually(lambda: events(stage, "FieldsRemoved"))
    rests(stage, operator)
    assert accepted(stage) == ("True", "Accepted")


@pytest.mark.parametrize(
    "how",
    [
        ("--field-manager=justitia-operator",),
        ("--field-manager=justitia-operator-status",),
    ],
    ids=["under our name", "under our name for statuses"],
)
def test_who_writes_under_our_name_changes_nothing_by_it(
    stage: Stage, operator: OperatorProcess, how: tuple[str, ...]
) -> None:
    before = content(stage, "deployment")
    patch(stage, "deployment", POD, "strategic", *how)
    eventually(lambda: content(stage, "deployment") == before)
    rests(stage, operator)


def test_who_applies_under_our_name_with_our_hash_changes_nothing_by_it(
    stage: Stage, operator: OperatorProcess
) -> None:
    before, found = content(stage, "deployment"), stage.child("deployment")
    found["metadata"] = {key: found["metadata"][key] for key in ("name", "namespace", "labels", "annotations")}
    found["metadata"]["ownerReferences"] = before["owners"]
    found["spec"]["template"]["spec"]["hostNetwork"] = True
    del found["status"]
    mine = ("apply", "--server-side", "--force-conflicts", "--field-manager=justitia-operator", "-f", "-")
    stage.kubectl(*mine, stdin=json.dumps(found))
    eventually(lambda: content(stage, "deployment") == before)
    rests(stage, operator)


def test_who_has_the_api_server_forget_who_set_what_changes_nothing_by_it(
    stage: Stage, operator: OperatorProcess
) -> None:
    before = content(stage, "deployment")
    set_env(stage, "X=Y")
    stage.kubectl("-n", stage.namespace, "patch", DEPLOYMENT, "--type=json", "-p", FORGET)
    eventually(lambda: content(stage, "deployment") == before)
    rests(stage, operator)


def test_who_puts_it_back_each_time_is_told_of_in_a_condition_and_not_fought_without_end(
    stage: Stage, operator: OperatorProcess
) -> None:
    def taken_out() -> int:
        return len(events(stage, "FieldsRemoved"))

    for number in (1, 2, 3):
        set_env(stage, "X=Y")
        eventually(lambda number=number: taken_out() == number)  # type: ignore[misc]
        assert "X" not in variables(stage)
    set_env(stage, "X=Y")
    eventually(lambda: accepted(stage) == ("False", "FieldsAdded"))
    conditions = stage.kubectl.get("spool", "shared", stage.namespace)["status"]["conditions"]
    (message,) = [each["message"] for each in conditions if each["type"] == "Accepted"]
    assert "env[name=X] (by kubectl-set) is added again each time the operator removes it" in message
    rests(stage, operator)
    assert (taken_out(), "X" in variables(stage)) == (3, True)
    stage.set(pool={"replicas": 2})
    eventually(lambda: stage.child("deployment")["spec"]["replicas"] == 2)
    eventually(lambda: accepted(stage) == ("False", "FieldsAdded"))
    set_env(stage, "X-")
    eventually(lambda: accepted(stage) == ("True", "Accepted"))
    rests(stage, operator)
