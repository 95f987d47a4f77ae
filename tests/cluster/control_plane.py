"""A real Kubernetes control plane without nodes, for tests: etcd, kube-apiserver, kube-controller-manager.

Needs no root and no fixed port; keeps all its state in one temporary folder; everything ends with the context. The
controller manager makes Deployments roll out into ReplicaSets and Pods and collects garbage. Pods stay Pending.
"""

import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from cluster.build import ensure_programs
from cluster.certificates import Authority, Pair, write_service_account_key
from cluster.components import (
    answers,
    api_server_arguments,
    controller_manager_arguments,
    etcd_arguments,
    write_kubeconfig,
)
from justitia_cli.local.ports import free_ports
from support.api_reader import ApiReader
from support.commands import output_of
from support.kubectl import Kubectl

DEFINITIONS = Path(__file__).parents[2] / "crds"
READY_SECONDS = 90.0
STOP_SECONDS = 15.0
POLL_SECONDS = 0.1
ATTEMPTS = 3


class ControlPlaneError(Exception):
    """The control plane did not start; the message ends with what the process said."""


class ControlPlane:
    """`with ControlPlane() as plane:` gives `plane.kubeconfig` (an administrator's) and the programs' folder."""

    def __init__(self, progress: Callable[[str], None] = lambda line: None, *, api_options: Sequence[str] = ()) -> None:
        self._progress = progress
        self._api_options = api_options
        self._commands: dict[str, list[str | Path]] = {}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._authority: Authority | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self.programs = Path()
        self.folder = Path()
        self.kubeconfig = Path()
        self.server = ""
        self.etcd = ""
        self._reader: ApiReader | None = None

    def __enter__(self) -> Self:
        self.programs = ensure_programs(self._progress)
        for attempt in range(1, ATTEMPTS + 1):
            self._folder = tempfile.TemporaryDirectory(prefix="justitia-control-plane-")
            self.folder = Path(self._folder.name)
            try:
                self._start()
            except ControlPlaneError:
                # A port that was free when it was chosen may be taken by the time it is bound.
                self.stop()
                if attempt == ATTEMPTS:
                    raise
            except BaseException:
                self.stop()
                raise
            else:
                return self
        raise AssertionError("unreachable")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def administrator(self) -> Kubectl:
        """The administrator's kubectl, as tests have it."""
        if self._reader is None:
            self._reader = ApiReader(self.kubeconfig)
        return Kubectl(str(self.programs / "kubectl"), str(self.kubeconfig), self._reader)

    def kubectl(self, *arguments: str, input: str | None = None) -> str:
        """Run kubectl as the administrator and return what it prints. Raises CalledProcessError with its complaint."""
        done = subprocess.run(
            [self.programs / "kubectl", f"--kubeconfig={self.kubeconfig}", *arguments],
            input=input,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "HOME": str(self.folder)},
        )
        return output_of(done)

    def get(self, *arguments: str) -> dict[str, Any]:
        """`kubectl get … -o json`, parsed."""
        document: dict[str, Any] = json.loads(self.kubectl("get", *arguments, "-o", "json"))
        return document

    def create_namespace(self, name: str) -> None:
        """A namespace in which pods are admitted: its default service account is there."""
        self.kubectl("create", "namespace", name)
        self.kubectl("wait", "--for=create", "--timeout=60s", f"--namespace={name}", "serviceaccount/default")

    def define_resources(self) -> None:
        """The project's own kinds, which can be used from then on."""
        self.define(DEFINITIONS)

    def define(self, *files: Path) -> None:
        """Kinds of resources, which can be used from then on."""
        given = [f"--filename={file}" for file in files]
        self.kubectl("apply", "--server-side", *given)
        await_established(self.kubectl, *given)

    def issue_kubeconfig(self, user: str) -> Path:
        """For somebody who may do all that the administrator may, and goes by another name in logs."""
        assert self._authority is not None
        pair = self._authority.issue_client(user, "system:masters")
        return write_kubeconfig(self.folder / f"{user}.kubeconfig", self.server, self._authority, pair)

    def issue_server(self, name: str) -> tuple[Path, Path, Path]:
        """Certificate and key of a server on loopback, and the authority's certificate."""
        assert self._authority is not None
        pair = self._authority.issue_server(name, ["127.0.0.1"], [])
        return pair.certificate, pair.key, self._authority.certificate

    def kill(self, program: str) -> None:
        """End it as a crash does."""
        self.processes[program].kill()
        self.processes[program].wait()

    def start_again(self, program: str) -> None:
        """What was killed, with the same arguments."""
        self._run(program)

    def stop(self) -> None:
        """End all processes, the last started first, and remove the state. Idempotent."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None
        while self.processes:
            _, process = self.processes.popitem()
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def _start(self) -> None:
        authority = self._authority = Authority(self.folder)
        etcd, peer, api, manager = free_ports(4)
        self.server = f"https://127.0.0.1:{api}"
        self.etcd = f"http://127.0.0.1:{etcd}"
        self.start("etcd", *etcd_arguments(self.folder, etcd, peer))
        self.await_ready("etcd", f"{self.etcd}/readyz")
        service_account = write_service_account_key(self.folder / "service-account.key")
        serving = authority.issue_server("apiserver", ["127.0.0.1", "10.0.0.1"], ["localhost", "kubernetes.default"])
        self.start(
            "kube-apiserver",
            *api_server_arguments(authority, serving, service_account, etcd, api),
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            # No pod will ever call the API through its Service, whose endpoint may not be loopback.
            "--endpoint-reconciler-type=none",
            "--service-cluster-ip-range=10.0.0.0/24",
            *self._api_options,
        )
        admin = authority.issue_client("justitia-tests-admin", "system:masters")
        self.kubeconfig = write_kubeconfig(self.folder / "admin.kubeconfig", self.server, authority, admin)
        self.await_ready("kube-apiserver", f"{self.server}/readyz", authority, admin)
        pair = authority.issue_client("system:kube-controller-manager")
        kubeconfig = write_kubeconfig(self.folder / "controller-manager.kubeconfig", self.server, authority, pair)
        self.start(
            "kube-controller-manager",
            *controller_manager_arguments(self.folder, authority, service_account, kubeconfig, manager),
        )
        self.await_ready("kube-controller-manager", f"https://127.0.0.1:{manager}/healthz")

    def start(self, program: str | Path, *arguments: str) -> None:
        """One more: of `programs` by its name, or any by its path. It ends before those that were started before it."""
        name = Path(program).name
        self._commands[name] = [self.programs / program, *arguments]
        self._run(name)

    def _run(self, name: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                self._commands[name],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # A Ctrl-C in the terminal reaches the caller, which ends them in order.
                start_new_session=True,
            )

    def await_ready(
        self, program: str, url: str, authority: Authority | None = None, client: Pair | None = None
    ) -> None:
        """Until the URL of the program answers. Raises ControlPlaneError."""
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline:
            if self.processes[program].poll() is not None:
                raise ControlPlaneError(f"{program} ended while starting:\n{self._said(program)}")
            if answers(url, authority, client):
                return
            time.sleep(POLL_SECONDS)
        raise ControlPlaneError(f"{program} was not ready after {READY_SECONDS:.0f} s:\n{self._said(program)}")

    def _said(self, program: str) -> str:
        return (self.folder / f"{program}.log").read_text(errors="replace")[-2000:]


def await_established(kubectl: Callable[..., object], *what: str) -> None:
    """Until definitions are in effect. `kubectl wait` takes one that has no conditions yet for an error, unless it is
    these that it waits for.
    """
    for state in ("jsonpath={.status.conditions}", "condition=Established"):
        kubectl("wait", f"--for={state}", "--timeout=50s", *what)
