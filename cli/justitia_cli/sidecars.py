"""Finds sidecars, in a cluster's pods or at an address, and asks them.

Paths that show single requests answer only to the pod's own processes. So a pod is reached by `kubectl port-forward`:
whoever may forward its ports may ask, and no network policy stands in the way.
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
"""The most bytes of an answer. A longer one is cut, and so not understood."""

D = TypeVar("D", bound=Document)


class SidecarsError(Exception):
    """No sidecar can be asked. The message says why, and what to do."""


class Sidecars(Protocol):
    """The sidecars to ask."""

    def addresses(self) -> Mapping[str, str]:
        """Their present addresses, by name. Raises SidecarsError."""
        ...

    def forget(self, name: str) -> None:
        """Forget the address of a sidecar that did not answer."""


@dataclass(frozen=True)
class At:
    """A sidecar at an address that the user gives."""

    url: str

    def addresses(self) -> Mapping[str, str]:
        return {self.url: self.url.rstrip("/")}

    def forget(self, name: str) -> None:
        """Do nothing: the address stays."""


class OnCluster:
    """The sidecars of a pool, or of all pools in a namespace. A context manager that ends the forwarding of ports."""

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
        """Their addresses, by pod."""
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
        """End the forwarding. The next call of `addresses` starts it again."""
        self._forwarded.pop(name)[1].close()


def ask(address: str, path: str, kind: type[D]) -> D:
    """Ask the sidecar at an address. Raises SidecarsError."""
    try:
        with urllib.request.urlopen(f"{address}{path}", timeout=ANSWER_SECONDS) as answer:
            return kind.model_validate_json(answer.read(LONGEST_ANSWER))
    except (OSError, ValueError) as error:
        why = "the sidecar is of another release" if isinstance(error, ValidationError) else str(error)
        raise SidecarsError(f"{address}{path}: {why}") from error


def kubectl_command(namespace: str | None, kubeconfig: str | None, context: str | None) -> list[str]:
    given = {"--namespace": namespace, "--kubeconfig": kubeconfig, "--context": context}
    return ["kubectl", *(f"{option}={value}" for option, value in given.items() if value)]


def output_of(command: list[str]) -> str:
    """What kubectl prints. Raises SidecarsError with its error message."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise SidecarsError("kubectl is not on the PATH: install it, or give a sidecar's --url") from error
    if done.returncode:
        raise SidecarsError(done.stderr.strip() or f"kubectl ended with {done.returncode}")
    return done.stdout


@contextmanager
def forwarded(kubectl: Sequence[str], what: str, port: int) -> Iterator[str]:
    """A local address that leads to the port of a pod, or of a pod of a Service. Raises SidecarsError."""
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
                raise SidecarsError(process.stderr.read().strip() or f"kubectl did not forward port {port} of {what}")
            yield words[2]
        finally:
            process.terminate()
