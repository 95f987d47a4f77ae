"""Brings the parts of the cluster up and down, in order, and says what runs. Bringing it up again is harmless, and
removes what a crash left.
"""

import shutil
from dataclasses import dataclass
from pathlib import Path

from cluster.build import NODE_PROGRAMS, PROGRAMS, BuildError, ensure_containerd, ensure_programs
from justitia_e2e import cgroups
from justitia_e2e.control import start_control_plane
from justitia_e2e.daemons import Daemons
from justitia_e2e.images import ROOT, ensure_images
from justitia_e2e.importing import import_images
from justitia_e2e.install import NAMESPACE, install_operator, name_valkey_by_its_address, offer_volumes
from justitia_e2e.machine import (
    ClusterError,
    Progress,
    State,
    ensure_packages,
    remember_machine,
    remove_mounts,
    restore_machine,
)
from justitia_e2e.network import check_network, ensure_bridge, remove_network
from justitia_e2e.node import (
    PATIENCE,
    await_node,
    give_fake_gpus,
    node_is_ready,
    start_containerd,
    start_kube_proxy,
    start_kubelet,
)
from support.kubectl import Kubectl

DAEMONS = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "containerd",
    "kubelet",
    "kube-proxy",
)


@dataclass(frozen=True)
class ClusterPart:
    """A part of the cluster, and whether it works."""

    name: str
    works: bool
    said: str


def check_owner(state: State) -> None:
    """Raises ClusterError if the cluster of another checkout runs: somebody may be using it."""
    owner = state.owner.read_text() if state.owner.exists() else ""
    if owner and owner != str(ROOT) and Daemons(state).running():
        raise ClusterError(f"the cluster that runs here is that of {owner}: end it with {owner}/e2e/cluster down")


def bring_up(state: State, progress: Progress) -> Kubectl:
    """Bring up the cluster until the node is Ready and the operator available. Raises ClusterError."""
    check_owner(state)
    ensure_packages(progress)
    programs, containerd = _programs(progress)
    images = ensure_images(progress)
    daemons = Daemons(state)
    kubectl = Kubectl(str(programs / "kubectl"), str(state.kubeconfig))
    if set(daemons.running()) != set(DAEMONS):
        if state.root.exists():
            progress("removing what an earlier cluster left")
            take_down(state, progress)
        _start(state, programs, containerd, daemons, progress)
    await_node(kubectl, daemons)
    give_fake_gpus(kubectl)
    import_images(state, images, progress)
    offer_volumes(state, kubectl)
    progress("installing the chart")
    install_operator(state, programs, images[1])
    name_valkey_by_its_address(kubectl)
    return kubectl


def _programs(progress: Progress) -> tuple[Path, Path]:
    """The folders of the cluster's programs, and of containerd's."""
    try:
        return ensure_programs(progress, (*PROGRAMS, *NODE_PROGRAMS)), ensure_containerd(progress)
    except BuildError as error:
        raise ClusterError(str(error)) from error


def _start(state: State, programs: Path, containerd: Path, daemons: Daemons, progress: Progress) -> None:
    check_network()
    state.root.mkdir(parents=True)
    state.owner.write_text(str(ROOT))
    remember_machine(state)
    ensure_bridge()
    progress("starting the control plane")
    plane = start_control_plane(state, programs, daemons)
    progress("starting the node")
    start_containerd(state, containerd, daemons)
    start_kubelet(state, plane, daemons)
    start_kube_proxy(state, plane, daemons)


def take_down(state: State, progress: Progress) -> None:
    """End what was started, the node's part first, and remove all of it. Does nothing if there is nothing."""
    if not state.root.exists():
        return
    check_owner(state)
    daemons = Daemons(state)
    for name in reversed(daemons.known()):
        if name in daemons.running():
            progress(f"ending {name}")
            daemons.stop(name)
    progress("removing pods, mounts, network and state")
    cgroups.kill()
    remove_network()
    remove_mounts(state)
    restore_machine(state)
    shutil.rmtree(state.root)


def look(state: State) -> list[ClusterPart]:
    """The parts of the cluster, and whether each works. Changes nothing."""
    running = Daemons(state).running()
    parts = [ClusterPart(n, n in running, f"process {running[n]}" if n in running else "not running") for n in DAEMONS]
    if "kube-apiserver" not in running:
        return parts
    kubectl = kubectl_of(state)
    ready = node_is_ready(kubectl)
    parts.append(ClusterPart("node", ready, "Ready" if ready else "not Ready"))
    path = "{.items[*].status.availableReplicas}"
    found = kubectl.run("-n", NAMESPACE, "get", "deployments", PATIENCE, f"--output=jsonpath={path}")
    available = found.stdout.strip()
    parts.append(ClusterPart("operator", bool(available), f"{available or 'none'} available"))
    return parts


def kubectl_of(state: State) -> Kubectl:
    """The administrator's kubectl, from the programs that the cluster runs."""
    server = Path(f"/proc/{Daemons(state).running()['kube-apiserver']}/exe")
    return Kubectl(str(server.readlink().parent / "kubectl"), str(state.kubeconfig))
