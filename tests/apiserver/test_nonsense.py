"""Two hundred objects that make no sense, and an operator that goes on with those that do."""

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

from support.kubectl import Json, Kubectl, OperatorProcess, eventually
from support.stage import SYSTEM, Stage

SEED, TAKEN = 20261122, 200
QUIET_SECONDS = 90.0
AT_ONCE, MOST_OFFERED = 50, 1000
WORDS = ("", "x" * 63, "0", "-", "default", "shared", "kube-system", SYSTEM, "名", "null", "true", "a.b", "A")
NUMBERS = ("0", "1", "-1", "1e3", "1000000", "0.000001", "NaN", "inf", "", "1/3")


def values(random_: random.Random) -> Any:
    """Something that may stand in a field, whatever is meant to."""
    return random_.choice(
        [random_.choice(WORDS), random_.choice(NUMBERS), random_.randrange(-5, 10**6), True, [], {}, None]
    )


def nonsense(random_: random.Random, number: int, namespace: str) -> Json:
    """Right in its outline, so that most get past the schema; wrong in what it refers to and says."""

    def word() -> str:
        return random_.choice(
            ("shared", "chat", "missing", f"nonsense-{random_.randrange(number + 1)}", "kube-root-ca")
        )

    kind = random_.choice(("Tenant", "ServingPool", "LLMApplication", "ConfigMap", "Pod", "Secret"))
    name = f"nonsense-{number}"
    metadata: Json = {"name": name, "labels": {}}
    if kind != "Tenant":
        metadata["namespace"] = random_.choice((namespace, SYSTEM)) if kind == "Secret" else namespace
    spec: Json = {}
    body: Json = {}
    api_version = "justitia.dev/v1alpha1"
    if kind == "Tenant":
        spec = {"apiKeys": [{"secretRef": {"name": word()}}], "namespaces": {"names": [namespace]}}
        spec["weight"] = random_.choice(("1", "0.001", "1000"))
    elif kind == "ServingPool":
        spec = {"model": {"uri": f"hf://{word()}/{word()}", "name": word()}, "replicas": random_.choice((1, 2, 50))}
        spec["engine"] = {"args": random_.choice(([], ["--port=1"], ["--model", word()], ["-" * 50], [word()] * 5))}
        spec["paused"] = random_.random() < 0.2
    elif kind == "LLMApplication":
        spec = {"tenantRef": {"name": word()}, "poolRef": {"name": word()}}
        if random_.random() < 0.3:
            spec = {"tenantRef": {"name": word()}, "pool": {"model": {"uri": "hf://a/b", "name": word()}}}
    else:
        api_version = "v1"
        metadata["labels"] = {"app.kubernetes.io/managed-by": "justitia-operator", "justitia.dev/pool": word()}
        if kind == "Pod":
            spec = {"containers": [{"name": "engine", "image": "nonsense"}]}
        else:
            body["data"] = {random_.choice(("pool.json", "keys.json", "token")): "bm9uc2Vuc2U="}
    if spec and random_.random() < 0.2:
        spec[random_.choice(sorted(spec))] = values(random_)
    if spec:
        body["spec"] = spec
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata} | body


@pytest.fixture
def served(stage: Stage) -> Iterator[Stage]:
    yield stage
    stage.kubectl("delete", "tenants", "--all", "--wait=false")
    stage.kubectl("-n", SYSTEM, "delete", "secrets", "-l", "justitia.dev/pool", "--wait=false")


def create(kubectl: Kubectl, objects: list[Json]) -> int:
    """How many of them the API server takes."""
    done = kubectl.run(
        "create",
        "--validate=false",
        "-f",
        "-",
        stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}),
    )
    return len([line for line in done.stdout.splitlines() if line.endswith(" created")])


def test_nonsense_harms_nothing_but_itself(served: Stage, operator: OperatorProcess) -> None:
    random_ = random.Random(SEED)
    taken = offered = 0
    while taken < TAKEN and offered < MOST_OFFERED:
        some = [nonsense(random_, offered + number, served.namespace) for number in range(AT_ONCE)]
        offered += AT_ONCE
        taken += create(served.kubectl, some)
    assert TAKEN <= taken < offered, "some of it must be refused by the schema"
    served.set(tenant={"weight": "9"})
    eventually(lambda: served.config().tenants[0].weight == 9.0)
    eventually(lambda: quiet(served, operator), QUIET_SECONDS)
    mine = served.kubectl.items("spool,llmapp", served.namespace)
    silent = [each["metadata"]["name"] for each in mine if not each.get("status", {}).get("conditions")]
    assert not silent, "each must be told what is wrong with it"


def quiet(stage: Stage, operator: OperatorProcess) -> bool:
    """Whether nothing is written for a while: not even nonsense is written about again and again."""
    before = stage.versions()
    operator.wait_for_resyncs(3)
    return stage.versions() == before
