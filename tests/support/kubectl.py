"""kubectl and the operator's process, as a user has them."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import yaml

from support.api_reader import ApiReader, Json
from support.commands import output_of

T = TypeVar("T")

ROOT = Path(__file__).parents[2]
DEADLINE_SECONDS = 60.0
POLL_SECONDS = 0.1
OWN = "tenants.justitia.dev,servingpools.justitia.dev,llmapplications.justitia.dev"
CHILDREN = (
    "serviceaccounts,configmaps,secrets,services,deployments,poddisruptionbudgets,networkpolicies,"
    "horizontalpodautoscalers"
)


def eventually(check: Callable[[], T], seconds: float = DEADLINE_SECONDS) -> T:
    """The check's first result that is true. Raises what the check last failed by, or TimeoutError."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            found = check()
            if found:
                return found
            failure: Exception = TimeoutError(f"still {found!r} after {seconds} s")
        except (AssertionError, LookupError, OSError, subprocess.CalledProcessError) as error:
            failure = error
        if time.monotonic() > deadline:
            raise failure
        time.sleep(POLL_SECONDS)


@dataclass(frozen=True)
class Kubectl:
    """What only reads asks the API server itself where there is a `reader`, and is a process where there is none."""

    program: str
    kubeconfig: str
    reader: ApiReader | None = None

    def __call__(self, *arguments: str, stdin: str | None = None) -> str:
        """Its output. Raises CalledProcessError, whose stderr is what the user would read."""
        return output_of(self.run(*arguments, stdin=stdin))

    def run(self, *arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        command = [self.program, f"--kubeconfig={self.kubeconfig}", *arguments]
        home = os.environ | {"HOME": str(Path(self.kubeconfig).parent)}
        return subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, timeout=60, env=home)

    def apply(self, *objects: Json) -> str:
        return self("apply", "-f", "-", stdin=yaml.safe_dump_all(objects))

    def get(self, what: str, name: str, namespace: str = "") -> Json:
        found = self.get_owned(what, name, namespace)
        found["metadata"].pop("managedFields", None)
        return found

    def get_owned(self, what: str, name: str, namespace: str = "") -> Json:
        """With who owns which field, as the operator sees it."""
        if self.reader:
            return self.reader.get(what, name, namespace)
        found: Json = json.loads(self("get", what, name, *_in(namespace), "-o", "json", "--show-managed-fields"))
        return found

    def items(self, what: str, namespace: str = "", selector: str = "") -> list[Json]:
        """All of some kinds, in all namespaces unless one is named."""
        if self.reader:
            return self.reader.items(what, namespace, selector)
        where = _in(namespace) or ("-A",)
        listed: list[Json] = json.loads(self("get", what, *where, f"--selector={selector}", "-o", "json"))["items"]
        return listed

    def names(self, what: str, namespace: str = "", selector: str = "") -> list[str]:
        return [item["metadata"]["name"] for item in self.items(what, namespace, selector)]

    def exists(self, what: str, name: str, namespace: str = "") -> bool:
        if not self.reader:
            return bool(self("get", what, name, *_in(namespace), "--ignore-not-found", "-o", "name"))
        try:
            self.reader.get(what, name, namespace)
        except LookupError:
            return False
        return True

    def patch(self, what: str, name: str, namespace: str, change: Json, *more: str) -> str:
        return self("patch", what, name, *_in(namespace), "--type=merge", "-p", json.dumps(change), *more)

    def condition(self, what: str, name: str, namespace: str, type_: str) -> tuple[str, str]:
        """Status and reason. Raises KeyError while there is none for the resource's generation."""
        obj = self.get(what, name, namespace)
        conditions = {c["type"]: c for c in obj.get("status", {}).get("conditions", ())}
        found = conditions[type_]
        if found["observedGeneration"] != obj["metadata"]["generation"]:
            raise KeyError(f"{type_} of generation {obj['metadata']['generation']}")
        return found["status"], found["reason"]

    def versions(self, *names: str) -> dict[str, str]:
        """Resource version of every object of ours and every child in these namespaces, of these Tenants, and how many
        Events there are about ours."""
        items = self.items(f"{OWN},{CHILDREN}")
        chosen = [i for i in items if i["metadata"].get("namespace", i["metadata"]["name"]) in names]
        found = {_label(item): item["metadata"]["resourceVersion"] for item in chosen}
        regarded = [event["involvedObject"] for event in self.items("events")]
        ours = [r for r in regarded if r.get("apiVersion", "").startswith("justitia.dev/")]
        return found | {"events": str(len([r for r in ours if r.get("namespace", r["name"]) in names]))}


def _in(namespace: str) -> tuple[str, ...]:
    return ("-n", namespace) if namespace else ()


def _label(item: Json) -> str:
    metadata = item["metadata"]
    return f"{item['kind']} {metadata.get('namespace', '')}/{metadata['name']}"


class OperatorProcess:
    """`python -m justitia_operator` with a short resync."""

    RESYNC_SECONDS = 1.0
    MODULE = "justitia_operator"

    def __init__(self, kubeconfig: str, namespace: str, log: Path, **environment: str) -> None:
        self._log = log
        environment = (
            os.environ
            | {
                "KUBECONFIG": kubeconfig,
                "JUSTITIA_NAMESPACE": namespace,
                "JUSTITIA_SIDECAR_IMAGE": "justitia:test",
                "JUSTITIA_RESYNC_SECONDS": str(self.RESYNC_SECONDS),
            }
            | environment
        )
        with log.open("w") as output:
            command = [sys.executable, "-W", "error", "-m", self.MODULE]
            self._process = subprocess.Popen(command, env=environment, stdout=output, stderr=output)

    def log(self) -> str:
        return self._log.read_text()

    def entries(self, event: str) -> int:
        """How many lines of the log tell of the event. Fails if the process has ended."""
        text = self.log()
        assert self._process.poll() is None, f"the operator ended:\n{text[-3000:]}"
        return text.count(f'"event": "{event}"')

    def wait_until_working(self) -> None:
        eventually(lambda: self.entries("watching") and self.entries("begun"))

    def wait_for_resyncs(self, count: int) -> None:
        wanted = self.entries("resynchronised") + count
        eventually(lambda: self.entries("resynchronised") >= wanted)

    def stop(self) -> int:
        """Its exit code after SIGTERM."""
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(timeout=30)

    def wait(self) -> int:
        """Its exit code once it has ended by itself."""
        return self._process.wait(timeout=DEADLINE_SECONDS)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(timeout=30)
