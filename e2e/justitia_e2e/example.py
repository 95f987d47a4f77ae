"""`examples/cpu.yaml` as a user has it who may edit namespaces and declare tenants, and is no administrator."""

import json
import os
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import openai
import yaml

from justitia_api.wire import ADMIN_PORT, RUN_END_HEADER, RUN_HEADER
from justitia_e2e.images import ROOT
from support.kubectl import Kubectl

EXAMPLE = ROOT / "examples" / "cpu.yaml"
NAMESPACE, POOL, APPLICATION = "cpu", "shared", "chat"
TENANT, SECRET = "cpu-support", "cpu-support-key"
TENANTS = ("cpu-research", TENANT)
KEYS = {
    APPLICATION: "example-only-support-0123456789abcdef",
    "summaries": "example-only-research-0123456789abcdef",
}
"""The API key of each application's tenant."""

USER = "alice"
RIGHTS = ("edit", "justitia-tenants", "namespace-makers")

Record = Callable[[str, object], None]
"""Records a figure under a name, for the end of the test run."""

ENGINE_SECONDS = 420.0
"""The time in which an engine starts, beside other work on two cores."""
CHANGE_SECONDS = 120.0
READY = ("True", "Serving")


class User(Kubectl):
    """kubectl in the name of a user."""

    def run(self, *arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        return super().run(f"--as={USER}", *arguments, stdin=stdin)


def justitia(user: User, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the user's `justitia` for the example's pool."""
    command, environment = command_line(user, folder, *arguments, f"--pool={POOL}")
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env=environment)


def command_line(user: User, folder: Path, *arguments: str) -> tuple[list[str], dict[str, str]]:
    """The user's command line, and its environment."""
    kubeconfig = folder / "kubeconfig"
    kubeconfig.touch(0o600)
    config = yaml.safe_load(Path(user.kubeconfig).read_text())
    for each in config["users"]:
        each["user"]["as"] = USER
    kubeconfig.write_text(yaml.safe_dump(config))
    path = f"{Path(user.program).parent}{os.pathsep}{os.environ['PATH']}"
    where = (f"--kubeconfig={kubeconfig}", f"--namespace={NAMESPACE}")
    return [sys.executable, "-m", "justitia_cli", *arguments, *where], os.environ | {"PATH": path}


def answer_of(user: User, folder: Path, *arguments: str) -> Any:
    """The command's answer for the only pod."""
    done = justitia(user, folder, *arguments, "--json")
    assert done.returncode == 0, done.stderr
    (content,) = json.loads(done.stdout).values()
    return content


def take_rights(administrator: Kubectl) -> None:
    """Take the rights away again."""
    bindings = [f"clusterrolebinding/{USER}-{role}" for role in RIGHTS]
    administrator("delete", "--ignore-not-found", "clusterrole/namespace-makers", *bindings)


def give_rights(administrator: Kubectl) -> None:
    """Give the user the chart's roles, Kubernetes' own `edit`, and the right to make namespaces."""
    if not administrator.exists("clusterrole", "namespace-makers"):
        administrator(
            "create", "clusterrole", "namespace-makers", "--verb=get,create,patch,delete", "--resource=namespaces"
        )
    for role in RIGHTS:
        if not administrator.exists("clusterrolebinding", f"{USER}-{role}"):
            administrator("create", "clusterrolebinding", f"{USER}-{role}", f"--clusterrole={role}", f"--user={USER}")


def serves(kubectl: Kubectl) -> bool:
    return kubectl.condition("llmapplication", APPLICATION, NAMESPACE, "Ready") == READY


def programmed(kubectl: Kubectl) -> int | None:
    """The generation that is in effect in each pod. None if pods differ."""
    if kubectl.condition("servingpool", POOL, NAMESPACE, "Programmed") != ("True", "Programmed"):
        return None
    generation: int = kubectl.get("servingpool", POOL, NAMESPACE)["status"]["configurationGeneration"]
    return generation


def engines_available(kubectl: Kubectl) -> tuple[str, str, str]:
    """Status, reason and message of the condition EnginesAvailable."""
    conditions = kubectl.get("servingpool", POOL, NAMESPACE)["status"]["conditions"]
    found = next(c for c in conditions if c["type"] == "EnginesAvailable")
    return found["status"], found["reason"], found["message"]


def service_address(kubectl: Kubectl) -> str:
    """The address of the pool's Service on the node, which does not use the cluster's DNS."""
    address: str = kubectl.get("service", f"justitia-{POOL}", NAMESPACE)["spec"]["clusterIP"]
    return address


def client_of(application: str, address: str) -> openai.OpenAI:
    """An OpenAI client of an application's tenant."""
    url = f"http://{address}/applications/{NAMESPACE}/{application}/v1"
    return openai.OpenAI(base_url=url, api_key=KEYS[application], timeout=120, max_retries=0)


def pods(kubectl: Kubectl) -> list[dict[str, Any]]:
    """The pods of the pool, one for each engine."""
    found = kubectl("-n", NAMESPACE, "get", "pods", "-l", f"justitia.dev/pool={POOL}", "-o", "json")
    items: list[dict[str, Any]] = json.loads(found)["items"]
    return items


def restarts(pod: dict[str, Any]) -> dict[str, int]:
    """The restarts of each container that runs."""
    status = pod["status"]
    return {c["name"]: c["restartCount"] for c in status["containerStatuses"] + status["initContainerStatuses"]}


def complete(client: openai.OpenAI, tokens: int = 8, run: str | None = None, *, last: bool = False) -> int:
    """Ask for a completion, the `last` one of its run or not. Returns the number of its tokens."""
    messages: Any = [{"role": "user", "content": "Hello"}]
    headers = ({RUN_HEADER: run} if run else {}) | ({RUN_END_HEADER: "true"} if last else {})
    answer = client.chat.completions.create(
        model="tiny",
        messages=messages,
        max_tokens=tokens,
        extra_body={"ignore_eos": True},
        extra_headers=headers,
    )
    assert answer.usage is not None
    return answer.usage.completion_tokens


def answered(client: openai.OpenAI) -> bool:
    """Whether a completion succeeds, for waiting until one does."""
    try:
        return complete(client.with_options(timeout=10)) > 0
    except openai.OpenAIError:
        return False


@contextmanager
def timed(record: Record, what: str) -> Iterator[None]:
    began = time.monotonic()
    yield
    record(what, f"{time.monotonic() - began:.1f} s")


@contextmanager
def streams(client: openai.OpenAI, count: int) -> Iterator[list[Future[str | None]]]:
    """Long completions, which have all begun. Each returns the reason why it ended."""
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


def generation_in_effect(address: str) -> int:
    """The generation in the metrics of the sidecar in the pod with this address."""
    with urllib.request.urlopen(f"http://{address}:{ADMIN_PORT}/metrics", timeout=5) as answer:
        lines = answer.read().decode().splitlines()
    return int(next(float(line.split()[1]) for line in lines if line.startswith("justitia_config_generation ")))


def processes(pod: dict[str, Any]) -> dict[int, str]:
    """The processes of a pod on this machine, by number, with their command lines."""
    uid, found = pod["metadata"]["uid"], {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if uid in (folder / "cgroup").read_text():
                found[int(folder.name)] = (folder / "cmdline").read_text().replace("\0", " ")
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found
