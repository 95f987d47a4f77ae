"""Objects that were there before ours, under the names that ours would have: a real API server, and the operator's
process.
"""

import json

import pytest

from support.kubectl import Json, OperatorProcess, eventually
from support.stage import SYSTEM, Stage

FOREIGN: dict[str, Json] = {
    "Secret": {"apiVersion": "v1", "stringData": {"theirs": "kept"}},
    "ConfigMap": {"apiVersion": "v1", "data": {"theirs": "kept"}},
    "ServiceAccount": {"apiVersion": "v1", "automountServiceAccountToken": True},
    "Service": {"apiVersion": "v1", "spec": {"selector": {"app": "theirs"}, "ports": [{"port": 1}]}},
}


def content(stage: Stage, kind: str, name: str) -> Json:
    found = stage.kubectl.get(kind, name, stage.namespace)
    return {key: value for key, value in found.items() if key not in ("status",)}


@pytest.mark.parametrize("kind", FOREIGN)
def test_an_object_that_is_not_ours_is_left_as_it_is_and_named(stage: Stage, kind: str) -> None:
    metadata = {"name": "justitia-mine", "namespace": stage.namespace}
    stage.kubectl("create", "-f", "-", stdin=json.dumps(FOREIGN[kind] | {"kind": kind, "metadata": metadata}))
    before = content(stage, kind, "justitia-mine")
    mine = stage.pool()
    mine["metadata"]["name"] = "mine"
    stage.kubectl.apply(mine)
    eventually(lambda: stage.condition("spool", "mine", "Accepted") == ("False", "ObjectNotOurs"))
    conditions = stage.kubectl.get("spool", "mine", stage.namespace)["status"]["conditions"]
    (message,) = [each["message"] for each in conditions if each["type"] == "Accepted"]
    assert f"{kind} {stage.namespace}/justitia-mine exists and does not belong to ServingPool mine" in message
    assert content(stage, kind, "justitia-mine") == before
    stage.kubectl("-n", stage.namespace, "delete", kind, "justitia-mine")
    eventually(lambda: stage.condition("spool", "mine", "Accepted") == ("True", "Accepted"))
    stage.kubectl("-n", stage.namespace, "delete", "spool", "mine")


def test_a_secret_beside_the_operator_is_left_alone_by_a_pool_of_its_name(
    stage: Stage, operator: OperatorProcess
) -> None:
    """Secrets there are watched, whoever's they are."""
    metadata = {"name": "justitia-pepper", "namespace": SYSTEM}
    metadata |= {"labels": {"app.kubernetes.io/managed-by": "justitia-operator"}}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"pepper": "kept"}}
    stage.kubectl("create", "-f", "-", stdin=json.dumps(secret))
    before = stage.kubectl.get("secret", "justitia-pepper", SYSTEM)
    pool = stage.pool()
    pool["metadata"] = {"name": "pepper", "namespace": SYSTEM}
    stage.kubectl.apply(pool)
    eventually(lambda: stage.kubectl.condition("spool", "pepper", SYSTEM, "Accepted") == ("False", "ObjectNotOurs"))
    operator.wait_for_resyncs(2)
    assert stage.kubectl.get("secret", "justitia-pepper", SYSTEM) == before
    stage.kubectl("-n", SYSTEM, "delete", "spool/pepper", "secret/justitia-pepper")


def test_a_pool_that_comes_back_at_once_gets_its_objects_when_those_of_the_earlier_one_have_gone(stage: Stage) -> None:
    uid = stage.child("secret")["metadata"]["uid"]
    stage.kubectl("-n", stage.namespace, "delete", "spool", "shared", "--wait=false")
    stage.set()
    eventually(lambda: stage.child("secret")["metadata"]["uid"] != uid)
    eventually(lambda: stage.condition("spool", "shared", "Accepted") == ("True", "Accepted"))
