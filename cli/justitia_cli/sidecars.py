"""The schedulers of engines that run, and what they say: of a cluster's pods, or at an address.

What tells of single requests answers to a pod's own processes only. So a pod is reached by `kubectl port-forward`: who
may forward its ports may ask, and no network policy stands in the way.
"""

import json
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self, TypeVar

from pydantic import ValidationError

from justitia_api.config import Document
from justitia_api.wire import ADMIN_PORT
from justitia_operator.world.objects import POOL_LABEL
from justitia_operator.world.sidecars import sidecar_pod

ANSWER_SECONDS = 10.0
LONGEST_ANSWER = 64 * 2**20
"""Bytes. What is longer is cut, and so not understood."""

D = TypeVar("D", bound=Document)


class SidecarsError(Exception):
    """Nobody can be asked. The message says why and what to do."""


class Sidecars(Protocol):
    """Whom to ask."""

    def addresses(self) -> Mapping[str, str]:
        """By name, as of now. Raises SidecarsError."""
        ...

    def forget(self, name: str) -> None:
        """It did not answer."""


@dataclass(frozen=True)
class At:
    """One that somebody names."""

    url: str

    def addresses(self) -> Mapping[str, str]:
        return {self.url: self.url.rstrip("/")}

    def forget(self, name: str) -> None:
        """It is asked again all the same."""


class OnCluster:
    """Those of a pool, or of all pools of a namespace. A context manager: it ends the forwarding of ports."""

    def __init__(self, pool: str | None, namespace: str | None, kubeconfig: str | None, context: str | None) -> None:
        self._kubectl = kubectl_command(namespace, kubeconfig, context)
        self._selector = f"{POOL_LABEL}={pool}" if pool else POOL_LABEL
        self._forwarded: dict[str, tuple[str, ExitStack]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for pod in [*self._forwarded]:
            self.forget(pod)

    def addresses(self) -> Mapping[str, str]:
        """By pod."""
        found = json.loads(output_of([*self._kubectl, "get", "pods", f"--selector={self._selector}", "--output=json"]))
        running = {pod["metadata"]["name"] for pod in found["items"] if sidecar_pod(pod)}
        for pod in [*self._forwarded]:
            if pod not in running:
                self.forget(pod)
        for pod in sorted(running - self._forwarded.keys()):
            with ExitStack() as stack:
                address = stack.enter_context(forwarded(self._kubectl, f"pod/{pod}", ADMIN_PORT))
                self._forwarded[pod] = f"http://{address}", stack.pop_all()
        return {pod: address for pod, (address, _) in sorted(self._forwarded.items())}

    def forget(self, name: str) -> None:
        """The pod is reached anew the next time."""
        self._forwarded.pop(name)[1].close()


def ask(address: str, path: str, kind: type[D]) -> D:
    """What the scheduler says there. Raises SidecarsError."""
    try:
        with urllib.request.urlopen(f"{address}{path}", timeout=ANSWER_SECONDS) as answer:
            return kind.model_validate_json(answer.read(LONGEST_ANSWER))
    except (OSError, ValueError) as error:
        why = "it is of another version" if isinstance(error, ValidationError) else str(error)
        raise SidecarsError(f"{address}{path}: {why}") from error


def kubectl_command(namespace: str | None, kubeconfig: str | None, context: str | None) -> list[str]:
    given = {"--namespace": namespace, "--kubeconfig": kubeconfig, "--context": context}
    return ["kubectl", *(f"{option}={value}" for option, value in given.items() if value)]


def output_of(command: list[str]) -> str:
    """What kubectl prints. Raises SidecarsError with its complaint."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise SidecarsError("kubectl is not on the PATH: install it, or give a sidecar's --url") from error
    if done.returncode:
        raise SidecarsError(done.stderr.strip() or f"kubectl ended with {done.returncode}")
    return done.stdout


@contextmanager
def forwarded(kubectl: Sequence[str], what: str, port: int) -> Iterator[str]:
    """A local address that leads to the port of a pod, or of one of a Service's. Raises SidecarsError."""
    command = [*kubectl, "port-forward", what, f":{port}"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    with process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            # Forwarding from 127.0.0.1:36111 -> 8002
            words = process.stdout.readline().split()
            if len(words) < len(("Forwarding", "from", "address")):
                raise SidecarsError(process.stderr.read().strip() or "kubectl forwards no port")
            yield words[2]
        finally:
            process.terminate()
