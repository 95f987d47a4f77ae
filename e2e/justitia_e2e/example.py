"""`examples/cpu.yaml` as its user has it, who may edit namespaces and declare tenants, and is no administrator."""

import json
import subprocess
import threading
import urllib.request
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import openai

from justitia_api.wire import ADMIN_PORT
from justitia_e2e.images import ROOT
from support.kubectl import Kubectl

EXAMPLE = ROOT / "examples" / "cpu.yaml"
NAMESPACE, POOL, APPLICATION = "cpu", "shared", "chat"
TENANT, SECRET = "cpu-support", "cpu-support-key"
TENANTS = ("cpu-research", TENANT)
KEY = "example-only-support-0123456789abcdef"

USER = "alice"
RIGHTS = ("edit", "justitia-tenants", "namespace-makers")

ENGINE_SECONDS = 420.0
"""In which an engine starts, beside other work on two cores."""
CHANGE_SECONDS = 120.0
READY = ("True", "Serving")


class User(Kubectl):
    """kubectl, in the name of a user."""

    def run(self, *arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        return super().run(f"--as={USER}", *arguments, stdin=stdin)


def give_rights(administrator: Kubectl) -> None:
    """The chart's roles, Kubernetes' own `edit`, and namespaces."""
    if not administrator.exists("clusterrole", "namespace-makers"):
        administrator(
            "create", "clusterrole", "namespace-makers", "--verb=get,create,patch,delete", "--resource=namespaces"
        )
    for role in RIGHTS:
        if not administrator.exists("clusterrolebinding", f"{USER}-{role}"):
            administrator("create", "clusterrolebinding", f"{USER}-{role}", f"--clusterrole={role}", f"--user={USER}")


def serves(kubectl: Kubectl) -> bool:
    return kubectl.condition("llmapplication", APPLICATION, NAMESPACE, "Ready") == READY


def base_url(kubectl: Kubectl) -> str:
    """Of the application, through the pool's Service: the node has no DNS of the cluster."""
    address = kubectl.get("service", f"justitia-{POOL}", NAMESPACE)["spec"]["clusterIP"]
    return f"http://{address}/applications/{NAMESPACE}/{APPLICATION}/v1"


def pods(kubectl: Kubectl) -> list[dict[str, Any]]:
    """One for each engine."""
    found = kubectl("-n", NAMESPACE, "get", "pods", "-l", f"justitia.dev/pool={POOL}", "-o", "json")
    items: list[dict[str, Any]] = json.loads(found)["items"]
    return items


def restarts(pod: dict[str, Any]) -> dict[str, int]:
    """Of each container that runs."""
    status = pod["status"]
    return {c["name"]: c["restartCount"] for c in status["containerStatuses"] + status["initContainerStatuses"]}


def complete(client: openai.OpenAI) -> int:
    """How many tokens an answer has."""
    messages: Any = [{"role": "user", "content": "Hello"}]
    answer = client.chat.completions.create(
        model="tiny", messages=messages, max_tokens=8, extra_body={"ignore_eos": True}
    )
    assert answer.usage is not None
    return answer.usage.completion_tokens


def answered(client: openai.OpenAI) -> bool:
    """Whether a completion comes, for waiting until one does."""
    try:
        return complete(client.with_options(timeout=10)) > 0
    except openai.OpenAIError:
        return False


@contextmanager
def streams(client: openai.OpenAI, count: int) -> Iterator[list[Future[str | None]]]:
    """Long completions that have all begun. Each gives the reason why it ended."""
    begun = threading.Barrier(count + 1)
    with ThreadPoolExecutor(count) as threads:
        started = [threads.submit(_stream, client, begun) for _ in range(count)]
        begun.wait(60)
        yield started


def _stream(client: openai.OpenAI, begun: threading.Barrier) -> str | None:
    reason = None
    with client.completions.create(
        model="tiny", prompt="Hello", max_tokens=4000, stream=True, extra_body={"ignore_eos": True}
    ) as chunks:
        next(chunks)
        begun.wait(60)
        for chunk in chunks:
            reason = next((choice.finish_reason for choice in chunk.choices if choice.finish_reason), reason)
    return reason


def generation_in_force(address: str) -> int:
    """What the scheduler of the pod with this address says in its metrics."""
    with urllib.request.urlopen(f"http://{address}:{ADMIN_PORT}/metrics", timeout=5) as answer:
        lines = answer.read().decode().splitlines()
    return int(next(float(line.split()[1]) for line in lines if line.startswith("justitia_config_generation ")))


def processes(pod: dict[str, Any]) -> dict[int, str]:
    """Those of a pod on this machine, by number, with their command lines."""
    uid, found = pod["metadata"]["uid"], {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if uid in (folder / "cgroup").read_text():
                found[int(folder.name)] = (folder / "cmdline").read_text().replace("\0", " ")
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found
