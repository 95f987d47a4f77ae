"""What users do, on a real node: real pods, a real kubelet, vLLM. Each test goes on where the last one ended."""

import openai
import pytest

from justitia_e2e.example import (
    CHANGE_SECONDS,
    NAMESPACE,
    POOL,
    TENANT,
    TENANTS,
    User,
    complete,
    generation_in_force,
    pods,
)
from justitia_e2e.install import NAMESPACE as SYSTEM
from support.kubectl import Kubectl, eventually

IN_FORCE_SECONDS = 5.0


def test_a_user_applies_the_example_and_a_client_gets_a_completion(user: User, client: openai.OpenAI) -> None:
    assert complete(client) == 8
    with pytest.raises(openai.AuthenticationError):
        complete(client.with_options(api_key="not-a-key-of-any-tenant"))
    (pod,) = pods(user)
    ready = {c["name"]: c["ready"] for c in pod["status"]["containerStatuses"] + pod["status"]["initContainerStatuses"]}
    assert ready == {"engine": True, "scheduler": True}


def test_a_changed_weight_is_in_force_in_the_pod_at_once(user: User, client: openai.OpenAI) -> None:
    (pod,) = pods(user)
    address = pod["status"]["podIP"]
    eventually(
        lambda: user.condition("servingpool", POOL, NAMESPACE, "Programmed") == ("True", "Programmed"), CHANGE_SECONDS
    )
    before = generation_in_force(address)
    user.patch("tenant", TENANT, "", {"spec": {"weight": "5"}})
    eventually(lambda: generation_in_force(address) == before + 1, IN_FORCE_SECONDS)
    user.patch("tenant", TENANT, "", {"spec": {"weight": "3"}})
    eventually(lambda: generation_in_force(address) == before + 2, IN_FORCE_SECONDS)
    eventually(
        lambda: user.get("servingpool", POOL, NAMESPACE)["status"]["configurationGeneration"] == before + 2,
        CHANGE_SECONDS,
    )
    assert user.condition("servingpool", POOL, NAMESPACE, "Programmed") == ("True", "Programmed")


def test_a_rollout_that_cannot_start_leaves_the_old_engine_serving_and_says_so(
    user: User, client: openai.OpenAI
) -> None:
    (serving,) = pods(user)
    image = user.get("servingpool", POOL, NAMESPACE)["spec"]["engine"]["image"]
    user.patch("servingpool", POOL, NAMESPACE, {"spec": {"engine": {"image": "vllm-cpu:missing"}}})

    def told() -> bool:
        conditions = user.get("servingpool", POOL, NAMESPACE)["status"]["conditions"]
        available = next(c for c in conditions if c["type"] == "EnginesAvailable")
        return (available["status"], available["reason"]) == ("True", "ImageNotAvailable") and (
            "1 of 1 engines take requests" in available["message"] and "vllm-cpu:missing" in available["message"]
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
    administrator: Kubectl, client: openai.OpenAI
) -> None:
    before = administrator.versions(NAMESPACE, *TENANTS)
    (old,) = operators(administrator)
    administrator("-n", SYSTEM, "delete", "pod", old, "--force", "--grace-period=0")

    def resynchronised() -> bool:
        (new,) = set(operators(administrator)) - {old}
        return '"event": "resynchronised"' in administrator("-n", SYSTEM, "logs", new)

    eventually(lambda: len(set(operators(administrator)) - {old}) == 1, CHANGE_SECONDS)
    eventually(resynchronised, CHANGE_SECONDS)
    assert complete(client) == 8
    assert administrator.versions(NAMESPACE, *TENANTS) == before


def operators(kubectl: Kubectl) -> list[str]:
    return kubectl("-n", SYSTEM, "get", "pods", "-o", "jsonpath={.items[*].metadata.name}").split()
