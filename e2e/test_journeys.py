"""What users do, on a real node: real pods, a real kubelet, vLLM. Each test goes on where the last one ended."""

import time

import openai
import pytest

from justitia_e2e.example import (
    CHANGE_SECONDS,
    NAMESPACE,
    POOL,
    SECRET,
    TENANT,
    TENANTS,
    Record,
    User,
    complete,
    engines_available,
    pods,
    programmed,
    timed,
)
from justitia_e2e.install import NAMESPACE as SYSTEM
from support.kubectl import Kubectl, eventually

IN_EFFECT_SECONDS = 5.0
KEY_SECONDS = 5.0
REST_SECONDS = 5.0
OPERATORS = ("-l", "app.kubernetes.io/component=operator")


def test_a_user_applies_the_example_and_a_client_gets_a_completion(user: User, client: openai.OpenAI) -> None:
    assert complete(client) == 8
    with pytest.raises(openai.AuthenticationError):
        complete(client.with_options(api_key="not-a-key-of-any-tenant"))
    (pod,) = pods(user)
    ready = {c["name"]: c["ready"] for c in pod["status"]["containerStatuses"] + pod["status"]["initContainerStatuses"]}
    assert ready == {"deliver": True, "engine": True, "sidecar": True}


def test_a_changed_weight_is_in_effect_in_the_pod_at_once(
    user: User, client: openai.OpenAI, record_property: Record
) -> None:
    generation = eventually(lambda: programmed(user), CHANGE_SECONDS)
    for more, weight in enumerate(("5", "3"), start=1):
        with timed(record_property, "changed weight, until it is in effect and the status says so"):
            user.patch("tenant", TENANT, "", {"spec": {"weight": weight}})
            eventually(lambda more=more: programmed(user) == generation + more, IN_EFFECT_SECONDS)  # type: ignore[misc]


def test_the_order_is_kept_inside_the_engine(user: User, client: openai.OpenAI) -> None:
    """The pod brings the plug-in into an image of vLLM that does not have it."""
    eventually(lambda: policy_in_effect(user), CHANGE_SECONDS)


def test_a_key_that_is_deleted_opens_nothing_until_it_is_back(
    administrator: Kubectl, client: openai.OpenAI, record_property: Record
) -> None:
    secret = administrator.get("secret", SECRET, SYSTEM)
    administrator("-n", SYSTEM, "delete", "secret", SECRET)
    with timed(record_property, "key deleted, until it is refused"):
        eventually(lambda: refused(client), KEY_SECONDS)
    kept = {name: secret["metadata"][name] for name in ("name", "namespace")}
    administrator.apply({**secret, "metadata": kept})
    with timed(record_property, "key back, until it is taken"):
        eventually(lambda: not refused(client), KEY_SECONDS)


def refused(client: openai.OpenAI) -> bool:
    try:
        complete(client)
    except openai.AuthenticationError:
        return True
    return False


def test_a_rollout_that_cannot_start_leaves_the_old_engine_serving_and_says_so(
    user: User, client: openai.OpenAI
) -> None:
    (serving,) = pods(user)
    image = user.get("servingpool", POOL, NAMESPACE)["spec"]["engine"]["image"]
    user.patch("servingpool", POOL, NAMESPACE, {"spec": {"engine": {"image": "vllm-cpu:missing"}}})

    def told() -> bool:
        status, reason, message = engines_available(user)
        return (status, reason) == ("True", "ImageNotAvailable") and (
            "1 of 1 engines take requests" in message and "vllm-cpu:missing" in message
        )

    eventually(told, CHANGE_SECONDS)
    assert complete(client) == 8
    assert user.condition("servingpool", POOL, NAMESPACE, "Ready")[0] == "True"

    user.patch("servingpool", POOL, NAMESPACE, {"spec": {"engine": {"image": image}}})
    all_available = ("True", "AllAvailable")
    eventually(
        lambda: user.condition("servingpool", POOL, NAMESPACE, "EnginesAvailable") == all_available, CHANGE_SECONDS
    )
    eventually(lambda: [pod["metadata"]["uid"] for pod in pods(user)] == [serving["metadata"]["uid"]], CHANGE_SECONDS)


def test_an_operator_that_was_killed_comes_back_and_changes_nothing(
    administrator: Kubectl, user: User, client: openai.OpenAI
) -> None:
    # The operator asks engines every twenty seconds, and at once when it starts.
    eventually(lambda: programmed(user) and policy_in_effect(user), CHANGE_SECONDS)
    before, old = at_rest(administrator), operators(administrator)
    administrator("-n", SYSTEM, "delete", "pods", *OPERATORS, "--force", "--grace-period=0")

    def begun() -> bool:
        new = operators(administrator) - old
        return any('"event": "begun"' in administrator("-n", SYSTEM, "logs", name) for name in new)

    eventually(begun, CHANGE_SECONDS)
    assert complete(client) == 8
    assert administrator.versions(NAMESPACE, *TENANTS) == before


def policy_in_effect(user: User) -> bool:
    return user.condition("servingpool", POOL, NAMESPACE, "PolicyInEffect") == ("True", "Configured")


def at_rest(kubectl: Kubectl) -> dict[str, str]:
    """The versions of all objects, once nothing changes any more."""
    seen: dict[str, str] = {}
    since = time.monotonic()

    def still() -> bool:
        nonlocal seen, since
        if (now := kubectl.versions(NAMESPACE, *TENANTS)) != seen:
            seen, since = now, time.monotonic()
        return time.monotonic() - since >= REST_SECONDS

    eventually(still, CHANGE_SECONDS)
    return seen


def operators(kubectl: Kubectl) -> set[str]:
    return set(kubectl("-n", SYSTEM, "get", "pods", *OPERATORS, "-o", "jsonpath={.items[*].metadata.name}").split())
