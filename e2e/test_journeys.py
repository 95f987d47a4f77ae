"""What users do, on a real node: real pods, a real kubelet, vLLM. In order: each goes on from where the last one ended.

`examples/cpu.yaml` is what a user applies who may edit namespaces and declare tenants, and is no administrator.
"""

import json
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import openai
import pytest

from justitia_api.wire import ADMIN_PORT
from justitia_e2e.install import NAMESPACE as SYSTEM
from support.kubectl import Kubectl, eventually

EXAMPLE = Path(__file__).parents[1] / "examples" / "cpu.yaml"
NAMESPACE, POOL, APPLICATION = "cpu", "shared", "chat"
KEY = "example-only-support-0123456789abcdef"
TENANTS = ("cpu-research", "cpu-support")
USER = "alice"
RIGHTS = ("edit", "justitia-tenants", "namespace-makers")

ENGINE_SECONDS = 420.0
CHANGE_SECONDS = 120.0
IN_FORCE_SECONDS = 5.0
GONE_SECONDS = 180.0
LEAVE_SECONDS = 10.0
"""What a pod that goes waits for, before it drains, so that no new request is on its way."""
STREAMS = 8
"""So many that they take longer than that."""


@pytest.fixture(scope="module")
def user(administrator: Kubectl) -> Iterator["User"]:
    """Somebody with the chart's roles and Kubernetes' own `edit`."""
    if not administrator.exists("clusterrole", "namespace-makers"):
        administrator(
            "create", "clusterrole", "namespace-makers", "--verb=get,create,patch,delete", "--resource=namespaces"
        )
    for role in RIGHTS:
        if not administrator.exists("clusterrolebinding", f"{USER}-{role}"):
            administrator("create", "clusterrolebinding", f"{USER}-{role}", f"--clusterrole={role}", f"--user={USER}")
    yield User(administrator.program, administrator.kubeconfig)
    administrator("delete", "-f", str(EXAMPLE), "--ignore-not-found", "--wait=false")
    eventually(lambda: not administrator.exists("namespace", NAMESPACE), GONE_SECONDS)


class User(Kubectl):
    """kubectl, in the name of a user."""

    def run(self, *arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        return super().run(f"--as={USER}", *arguments, stdin=stdin)


@pytest.fixture(scope="module")
def client(user: User) -> Iterator[openai.OpenAI]:
    """An OpenAI client of an application whose pool serves, through the pool's Service."""
    user("apply", "-f", str(EXAMPLE))
    eventually(
        lambda: user.condition("llmapplication", APPLICATION, NAMESPACE, "Ready") == ("True", "Serving"), ENGINE_SECONDS
    )
    address = user.get("service", f"justitia-{POOL}", NAMESPACE)["spec"]["clusterIP"]
    url = f"http://{address}/applications/{NAMESPACE}/{APPLICATION}/v1"
    with openai.OpenAI(base_url=url, api_key=KEY, timeout=120, max_retries=0) as client:
        yield client


def engines(kubectl: Kubectl) -> list[dict[str, Any]]:
    found = kubectl("-n", NAMESPACE, "get", "pods", "-l", f"justitia.dev/pool={POOL}", "-o", "json")
    items: list[dict[str, Any]] = json.loads(found)["items"]
    return items


def complete(client: openai.OpenAI) -> int:
    """How many tokens an answer has."""
    messages: Any = [{"role": "user", "content": "Hello"}]
    answer = client.chat.completions.create(
        model="tiny", messages=messages, max_tokens=8, extra_body={"ignore_eos": True}
    )
    assert answer.usage is not None
    return answer.usage.completion_tokens


def test_a_user_applies_the_example_and_a_client_gets_a_completion(user: User, client: openai.OpenAI) -> None:
    assert complete(client) == 8
    with pytest.raises(openai.AuthenticationError):
        complete(client.with_options(api_key="not-a-key-of-any-tenant"))
    (pod,) = engines(user)
    ready = {c["name"]: c["ready"] for c in pod["status"]["containerStatuses"] + pod["status"]["initContainerStatuses"]}
    assert ready == {"engine": True, "scheduler": True}


def test_a_changed_weight_is_in_force_in_the_pod_at_once(user: User, client: openai.OpenAI) -> None:
    (pod,) = engines(user)
    address = pod["status"]["podIP"]
    eventually(
        lambda: user.condition("servingpool", POOL, NAMESPACE, "Programmed") == ("True", "Programmed"), CHANGE_SECONDS
    )
    before = generation_in_force(address)
    user.patch("tenant", "cpu-support", "", {"spec": {"weight": "5"}})
    eventually(lambda: generation_in_force(address) == before + 1, IN_FORCE_SECONDS)
    user.patch("tenant", "cpu-support", "", {"spec": {"weight": "3"}})
    eventually(lambda: generation_in_force(address) == before + 2, IN_FORCE_SECONDS)
    eventually(
        lambda: user.get("servingpool", POOL, NAMESPACE)["status"]["configurationGeneration"] == before + 2,
        CHANGE_SECONDS,
    )
    assert user.condition("servingpool", POOL, NAMESPACE, "Programmed") == ("True", "Programmed")


def generation_in_force(address: str) -> int:
    """What the pod's scheduler says in its metrics."""
    with urllib.request.urlopen(f"http://{address}:{ADMIN_PORT}/metrics", timeout=5) as answer:
        lines = answer.read().decode().splitlines()
    return int(next(float(line.split()[1]) for line in lines if line.startswith("justitia_config_generation ")))


def test_a_rollout_that_cannot_start_leaves_the_old_engine_serving_and_says_so(
    user: User, client: openai.OpenAI
) -> None:
    (serving,) = engines(user)
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
    eventually(
        lambda: [pod["metadata"]["uid"] for pod in engines(user)] == [serving["metadata"]["uid"]], CHANGE_SECONDS
    )


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


def test_a_pool_that_is_deleted_while_it_serves_finishes_what_it_has_begun(user: User, client: openai.OpenAI) -> None:
    begun = threading.Barrier(STREAMS + 1)
    with ThreadPoolExecutor(STREAMS) as threads:
        streams = [threads.submit(stream_long, client, begun) for _ in range(STREAMS)]
        begun.wait(60)
        user("-n", NAMESPACE, "delete", "servingpool", POOL, "--wait=false")
        deleted = time.monotonic()
        assert [stream.result() for stream in streams] == ["length"] * STREAMS
    assert time.monotonic() - deleted > LEAVE_SECONDS, "it was over before the engine was asked to go"
    with pytest.raises(openai.APIConnectionError):
        complete(client.with_options(timeout=5))
    eventually(lambda: not engines(user), CHANGE_SECONDS)
    assert user.condition("llmapplication", APPLICATION, NAMESPACE, "Ready")[0] == "False"


def stream_long(client: openai.OpenAI, begun: threading.Barrier) -> str | None:
    """Why it ended. Waits after the first token until all have begun."""
    reason = None
    with client.completions.create(
        model="tiny", prompt="Hello", max_tokens=4000, stream=True, extra_body={"ignore_eos": True}
    ) as stream:
        chunks = iter(stream)
        next(chunks)
        begun.wait(60)
        for chunk in chunks:
            reason = next((choice.finish_reason for choice in chunk.choices if choice.finish_reason), reason)
    return reason
