"""Starts the control plane: etcd, API server, controller manager, scheduler. Pods can reach the API server."""

from dataclasses import dataclass
from pathlib import Path

from cluster.certificates import Authority, Pair, write_service_account_key
from cluster.components import (
    answers,
    api_server_arguments,
    controller_manager_arguments,
    etcd_arguments,
    scheduler_arguments,
    write_kubeconfig,
)
from justitia_cli.local.ports import free_ports
from justitia_e2e.daemons import Daemons
from justitia_e2e.machine import State
from justitia_e2e.network import NODE_ADDRESS, SERVICES

PORT = 6443
SERVER = f"https://{NODE_ADDRESS}:{PORT}"


@dataclass(frozen=True)
class ControlPlane:
    """The part of the control plane that a node needs."""

    authority: Authority
    programs: Path
    folder: Path

    def client(self, user: str, group: str | None = None) -> Path:
        """A kubeconfig for this user."""
        pair = self.authority.issue_client(user, group)
        return write_kubeconfig(self.folder / f"{user.replace(':', '-')}.kubeconfig", SERVER, self.authority, pair)


def start_control_plane(state: State, programs: Path, daemons: Daemons) -> ControlPlane:
    folder = state.root / "control-plane"
    folder.mkdir(mode=0o700)
    authority = Authority(folder)
    plane = ControlPlane(authority, programs, folder)
    etcd, peer, manager, scheduler = free_ports(4)
    daemons.start("etcd", [programs / "etcd", *etcd_arguments(folder, etcd, peer)])
    daemons.await_ready("etcd", lambda: answers(f"http://127.0.0.1:{etcd}/readyz"))
    service_account = write_service_account_key(folder / "service-account.key")
    admin = authority.issue_client("admin", "system:masters")
    write_kubeconfig(state.kubeconfig, SERVER, authority, admin)
    _start_api_server(plane, daemons, service_account, etcd, admin)
    _start_controllers(plane, daemons, service_account, manager)
    kubeconfig = plane.client("system:kube-scheduler")
    arguments = scheduler_arguments(folder, kubeconfig, scheduler)
    daemons.start("kube-scheduler", [programs / "kube-scheduler", *arguments])
    daemons.await_ready("kube-scheduler", lambda: answers(f"https://127.0.0.1:{scheduler}/healthz"))
    return plane


def _start_api_server(plane: ControlPlane, daemons: Daemons, service_account: Path, etcd: int, admin: Pair) -> None:
    authority = plane.authority
    hosts = ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"]
    serving = authority.issue_server("apiserver", [NODE_ADDRESS, str(SERVICES[1])], hosts)
    # For logs and exec. It has all rights, so that no role has to be made first.
    kubelet = authority.issue_client("kube-apiserver-kubelet-client", "system:masters")
    daemons.start(
        "kube-apiserver",
        [
            plane.programs / "kube-apiserver",
            *api_server_arguments(authority, serving, service_account, etcd, PORT),
            f"--bind-address={NODE_ADDRESS}",
            f"--advertise-address={NODE_ADDRESS}",
            f"--service-cluster-ip-range={SERVICES}",
            # The node's name is in no DNS.
            "--kubelet-preferred-address-types=InternalIP",
            f"--kubelet-client-certificate={kubelet.certificate}",
            f"--kubelet-client-key={kubelet.key}",
        ],
    )
    daemons.await_ready("kube-apiserver", lambda: answers(f"{SERVER}/readyz", authority, admin))


def _start_controllers(plane: ControlPlane, daemons: Daemons, service_account: Path, port: int) -> None:
    kubeconfig = plane.client("system:kube-controller-manager")
    arguments = controller_manager_arguments(plane.folder, plane.authority, service_account, kubeconfig, port)
    daemons.start("kube-controller-manager", [plane.programs / "kube-controller-manager", *arguments])
    daemons.await_ready("kube-controller-manager", lambda: answers(f"https://127.0.0.1:{port}/healthz"))
