"""Who may write LLMApplications, and nothing else, runs no pods of their choice: for all but the harmless the pool that
they bring along needs the installation's leave.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from justitia_api.config import Document
from justitia_api.engine import EngineSpec, ModelSpec
from justitia_api.pool import ServingPoolSpec
from justitia_operator.decide.inline_pools import FREE
from justitia_operator.runtime.settings import Settings
from justitia_operator.world.installation import Grant, InlinePools
from justitia_operator.world.objects import Json, Kind, Ref
from justitia_operator.world.snapshot import Snapshot
from support.resources import (
    INSTALLATION,
    application,
    child,
    condition,
    config,
    key,
    put,
    settled,
    tenant,
    with_ready_engines,
    world,
)

ROOT = Path(__file__).parents[3]
OWN = Ref(Kind.SERVING_POOL, "apps", "chat")
MODEL = {"uri": "hf://a/b"}
SECRET = {"name": "any", "key": "password"}
HARMLESS = {
    "model": {"uri": "hf://a/b", "name": "b"},
    "engine": {"resources": {"limits": {"nvidia.com/gpu": 1}}, "sharedMemory": "1Gi", "drainSeconds": 30},
    "replicas": 2,
    "scheduling": {"tiers": [{"name": "gold", "weight": "4"}]},
}
ASKED: list[tuple[str, Grant, Json]] = [
    ("a claim", Grant.MODEL_URI, {"model": {"uri": "pvc://data/x", "name": "x"}}),
    ("an image as the model", Grant.MODEL_URI, {"model": {"uri": "oci://evil/x", "name": "x"}}),
    ("a Secret as the Hub's token", Grant.MODEL_TOKEN, {"model": MODEL | {"tokenSecretRef": SECRET}}),
    ("a Secret in the environment", Grant.ENV_SECRETS, {"engine": {"env": [{"name": "A", "secretRef": SECRET}]}}),
    ("the environment", Grant.ENV, {"engine": {"env": [{"name": "LD_PRELOAD", "value": "/x"}]}}),
    ("arguments", Grant.ARGS, {"engine": {"args": ["--trust-remote-code"]}}),
    ("a priority class", Grant.PRIORITY_CLASS, {"engine": {"priorityClassName": "system-node-critical"}}),
    ("tolerations", Grant.TOLERATIONS, {"engine": {"tolerations": [{"operator": "Exists"}]}}),
    ("nodes of one's choice", Grant.NODE_SELECTOR, {"engine": {"nodeSelector": {"role": "control-plane"}}}),
    ("a runtime class", Grant.RUNTIME_CLASS, {"engine": {"runtimeClassName": "other"}}),
    ("pull secrets", Grant.IMAGE_PULL_SECRETS, {"engine": {"imagePullSecrets": [{"name": "any"}]}}),
    ("a model cache", Grant.MODEL_CACHE, {"engine": {"modelCache": {"type": "Node"}}}),
    ("media by URL", Grant.MEDIA_DOMAINS, {"engine": {"mediaDomains": ["a.example"]}}),
    (
        "others' prefixes",
        Grant.PREFIX_CACHE,
        {"engine": {"prefixCache": {"tenants": [{"name": "t", "group": "g"}]}}},
    ),
    ("several nodes", Grant.NODES, {"engine": {"nodes": 2}}),
    ("a store", Grant.LEARNING, {"learning": {"store": {"claimName": "data"}}}),
    ("a server with a Secret", Grant.VALKEY, {"valkey": {"addresses": ["valkey:6379"], "secretRef": {"name": "any"}}}),
    ("a gateway", Grant.GATEWAY, {"gateway": {"parentRefs": [{"name": "g"}]}}),
    ("an autoscaler", Grant.AUTOSCALING, {"autoscaling": {"maximumReplicas": 9}}),
    ("others' applications", Grant.ALLOWED_NAMESPACES, {"allowedNamespaces": {"names": ["more"]}}),
]


def given(pool: Json, leave: InlinePools | None = InlinePools(), *more: Json) -> Snapshot:  # noqa: B008
    made = world(tenant(), key(), application(pool={"model": MODEL} | pool), *more)
    return settled(replace(made, installation=replace(INSTALLATION, inline_pools=leave)))


def accepted(snapshot: Snapshot) -> tuple[str, str, str]:
    return condition(snapshot, Kind.LLM_APPLICATION, "chat", "Accepted")


def test_a_model_of_a_hub_its_resources_and_its_scheduling_need_no_leave() -> None:
    made = given(HARMLESS)
    assert accepted(made)[0] == "True"
    assert made.objects[OWN]["spec"] == HARMLESS


@pytest.mark.parametrize(("grant", "pool"), [case[1:] for case in ASKED], ids=[case[0] for case in ASKED])
def test_what_reaches_further_takes_leave_and_is_named(grant: Grant, pool: Json) -> None:
    refused = given(pool)
    status, reason, message = accepted(refused)
    assert (status, reason) == ("False", "InlinePoolRefused")
    assert f"spec.pool.{grant}: ask" in message
    assert "inlinePools.fields" in message
    assert OWN not in refused.objects
    assert accepted(given(pool, InlinePools(fields=tuple(set(Grant) - {grant}))))[0] == "False"
    assert accepted(given(pool, InlinePools(fields=(grant,))))[0] == "True"
    assert accepted(given(pool, None))[0] == "True"


def test_every_grant_is_tried_and_is_what_the_chart_takes() -> None:
    assert {case[1] for case in ASKED} == set(Grant)
    schema = json.loads((ROOT / "charts/justitia/values.schema.json").read_text())
    fields = schema["properties"]["inlinePools"]["properties"]["fields"]["items"]["enum"]
    assert fields == [grant.value for grant in Grant]


def test_every_field_of_a_pool_is_either_free_or_granted() -> None:
    """A new one is refused until somebody has decided."""

    def names(document: type[Document], prefix: str = "") -> Iterator[str]:
        yield from (f"{prefix}{field.alias or name}" for name, field in document.model_fields.items())

    every = {*names(ServingPoolSpec), *names(EngineSpec, "engine."), *names(ModelSpec, "model.")}
    assert every - {"model", "engine", "engine.image"} == (FREE | set(Grant)) - {Grant.ENV_SECRETS}


@pytest.mark.parametrize(
    ("image", "allowed"),
    [
        ("evil/vllm:1", False),
        ("good.example/vllm:1", True),
        ("good.example/vllm:1-evil", False),
        ("good.example/team/any:2", True),
        ("good.example/teamster/any:2", False),
        ("other.example/vllm:7", True),
        ("other.example/vllm-evil:7", False),
        (f"pinned.example/vllm@sha256:{'0' * 64}", True),
        ("pinned.example/vllm:1", False),
    ],
)
def test_images_are_allowed_whole_or_by_how_they_begin(image: str, allowed: bool) -> None:
    leave = InlinePools(
        images=("good.example/vllm:1", "good.example/team/", "other.example/vllm:", "pinned.example/vllm@")
    )
    made = given({"engine": {"image": image}}, leave)
    assert (OWN in made.objects) is allowed
    if not allowed:
        assert f"spec.pool.engine.image {image}: ask" in accepted(made)[2]
        assert "inlinePools.images" in accepted(made)[2]


def test_none_is_made_where_they_are_switched_off() -> None:
    made = given({}, InlinePools(enabled=False))
    status, reason, message = accepted(made)
    assert (status, reason) == ("False", "InlinePoolRefused")
    assert "inlinePools.enabled" in message
    assert OWN not in made.objects


def test_what_was_there_before_stays_and_serves() -> None:
    running = settled(with_ready_engines(given(HARMLESS), 2, "chat"))
    asking = put(running, application(pool=HARMLESS | {"engine": {"image": "evil/x"}, "replicas": 3}))
    refused = settled(asking)
    assert accepted(refused)[:2] == ("False", "InlinePoolRefused")
    assert refused.objects[OWN]["spec"] == HARMLESS
    assert child(refused, Kind.DEPLOYMENT, "chat") == child(running, Kind.DEPLOYMENT, "chat")
    assert config(refused, "chat") == config(running, "chat")
    assert condition(refused, Kind.LLM_APPLICATION, "chat", "Ready")[0] == "True"


def test_pools_of_their_own_right_are_not_concerned() -> None:
    spec: Json = {"model": MODEL, "engine": {"image": "any/x", "priorityClassName": "high"}}
    own = {"apiVersion": "justitia.dev/v1alpha1", "kind": "ServingPool", "spec": spec}
    named: dict[str, Any] = {"name": "shared", "namespace": "apps", "uid": "u", "generation": 1}
    made = settled(world(tenant(), key(), own | {"metadata": named}, application()))
    assert accepted(made)[0] == "True"
    assert child(made, Kind.DEPLOYMENT)["spec"]["template"]["spec"]["priorityClassName"] == "high"


def test_leave_is_given_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Settings().inline == InlinePools()
    monkeypatch.setenv("JUSTITIA_INLINE_POOLS", "false")
    monkeypatch.setenv("JUSTITIA_INLINE_POOL_IMAGES", "a/b:1,c/")
    monkeypatch.setenv("JUSTITIA_INLINE_POOL_FIELDS", "engine.args,engine.env")
    assert Settings().inline == InlinePools(False, ("a/b:1", "c/"), (Grant.ARGS, Grant.ENV))
