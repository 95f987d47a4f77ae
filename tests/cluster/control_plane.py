"""A real Kubernetes control plane without nodes, for tests: etcd, kube-apiserver, kube-controller-manager.

Needs no root and no fixed port; keeps all its state in one temporary folder; everything ends with the context. The
controller manager makes Deployments roll out into ReplicaSets and Pods and collects garbage. Pods stay Pending.
"""

import json
import os
import signal
import socket
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from cluster.build import ensure_programs
from cluster.certificates import Authority, Pair, write_service_account_key

READY_SECONDS = 90.0
STOP_SECONDS = 15.0
POLL_SECONDS = 0.1
ATTEMPTS = 3


class ControlPlaneError(Exception):
    """The control plane did not start; the message ends with what the process said."""


class ControlPlane:
    """`with ControlPlane() as plane:` gives `plane.kubeconfig` (an administrator's) and the programs' folder."""

    def __init__(self, progress: Callable[[str], None] = lambda line: None) -> None:
        self._progress = progress
        self._processes: list[subprocess.Popen[bytes]] = []
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self.programs = Path()
        self.folder = Path()
        self.kubeconfig = Path()
        self.server = ""

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

    def kubectl(self, *arguments: str, input: str | None = None) -> str:
        """Run kubectl as the administrator and return what it prints. Raises CalledProcessError."""
        return subprocess.run(
            [self.programs / "kubectl", f"--kubeconfig={self.kubeconfig}", *arguments],
            input=input,
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "HOME": str(self.folder)},
        ).stdout

    def get(self, *arguments: str) -> dict[str, Any]:
        """`kubectl get … -o json`, parsed."""
        document: dict[str, Any] = json.loads(self.kubectl("get", *arguments, "-o", "json"))
        return document

    def stop(self) -> None:
        """End all processes, the last started first, and remove the state. Idempotent."""
        while self._processes:
            process = self._processes.pop()
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
        authority = Authority(self.folder)
        etcd, peer, api, manager = free_ports(4)
        self.server = f"https://127.0.0.1:{api}"
        self._start_etcd(etcd, peer)
        service_account = write_service_account_key(self.folder / "service-account.key")
        self._start_api_server(authority, api, etcd, service_account)
        admin = authority.issue_client("justitia-tests-admin", "system:masters")
        self.kubeconfig = self._write_kubeconfig("admin", authority, admin)
        self._await_ready("kube-apiserver", f"{self.server}/readyz", authority, admin)
        self._start_controller_manager(authority, manager, service_account)
        self._await_ready("kube-controller-manager", f"https://127.0.0.1:{manager}/healthz", None, None)

    def _start_etcd(self, client: int, peer: int) -> None:
        urls = f"http://127.0.0.1:{client}", f"http://127.0.0.1:{peer}"
        self._spawn(
            "etcd",
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={urls[0]}",
            f"--advertise-client-urls={urls[0]}",
            f"--listen-peer-urls={urls[1]}",
            f"--initial-advertise-peer-urls={urls[1]}",
            f"--initial-cluster=default={urls[1]}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        )
        self._await_ready("etcd", f"{urls[0]}/readyz", None, None)

    def _start_api_server(self, authority: Authority, port: int, etcd: int, service_account: Path) -> None:
        serving = authority.issue_server("apiserver", ["127.0.0.1", "10.0.0.1"], ["localhost", "kubernetes.default"])
        self._spawn(
            "kube-apiserver",
            f"--etcd-servers=http://127.0.0.1:{etcd}",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            "--advertise-address=127.0.0.1",
            # No pod will ever call the API through its Service, whose endpoint may not be loopback.
            "--endpoint-reconciler-type=none",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--authorization-mode=Node,RBAC",
            f"--client-ca-file={authority.certificate}",
            f"--tls-cert-file={serving.certificate}",
            f"--tls-private-key-file={serving.key}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={service_account}",
            f"--service-account-signing-key-file={service_account}",
        )

    def _start_controller_manager(self, authority: Authority, port: int, service_account: Path) -> None:
        pair = authority.issue_client("system:kube-controller-manager")
        kubeconfig = self._write_kubeconfig("controller-manager", authority, pair)
        self._spawn(
            "kube-controller-manager",
            f"--kubeconfig={kubeconfig}",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--cert-dir={self.folder / 'controller-manager'}",
            "--use-service-account-credentials",
            f"--service-account-private-key-file={service_account}",
            f"--root-ca-file={authority.certificate}",
            "--leader-elect=false",
            "--controllers=*,-nodeipam,-cloud-node-lifecycle,-service-lb-controller,-node-route-controller",
        )

    def _spawn(self, program: str, *arguments: str) -> None:
        with (self.folder / f"{program}.log").open("wb") as log:
            process = subprocess.Popen(
                [self.programs / program, *arguments],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # A Ctrl-C in the terminal reaches the caller, which ends them in order.
                start_new_session=True,
            )
        self._processes.append(process)

    def _await_ready(self, program: str, url: str, authority: Authority | None, client: Pair | None) -> None:
        context = ssl.create_default_context(cafile=authority.certificate if authority else None)
        if authority is None:  # a loopback listener with a certificate that it made for itself
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if client:
            context.load_cert_chain(client.certificate, client.key)
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline:
            if self._processes[-1].poll() is not None:
                raise ControlPlaneError(f"{program} ended while starting:\n{self._said(program)}")
            try:
                with urllib.request.urlopen(url, context=context, timeout=5):
                    return
            except (urllib.error.URLError, OSError):
                time.sleep(POLL_SECONDS)
        raise ControlPlaneError(f"{program} was not ready after {READY_SECONDS:.0f} s:\n{self._said(program)}")

    def _said(self, program: str) -> str:
        return (self.folder / f"{program}.log").read_text(errors="replace")[-2000:]

    def _write_kubeconfig(self, name: str, authority: Authority, client: Pair) -> Path:
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "tests",
            "clusters": [
                {
                    "name": "tests",
                    "cluster": {"server": self.server, "certificate-authority": str(authority.certificate)},
                }
            ],
            "users": [
                {
                    "name": name,
                    "user": {"client-certificate": str(client.certificate), "client-key": str(client.key)},
                }
            ],
            "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": name}}],
        }
        path = self.folder / f"{name}.kubeconfig"
        path.write_text(json.dumps(document, indent=2))
        return path


def free_ports(count: int) -> Sequence[int]:
    """Different TCP ports of the loopback interface that nobody listens on."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()
