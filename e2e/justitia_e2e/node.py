"""Starts the node: containerd, kubelet and kube-proxy, each with its state in the cluster's folder."""

import json
import os
import time
from pathlib import Path
from typing import Any

from cluster.components import answers
from justitia_cli.local.ports import free_ports
from justitia_e2e import cgroups
from justitia_e2e.control import ControlPlane
from justitia_e2e.daemons import Daemons
from justitia_e2e.machine import ClusterError, State, run
from justitia_e2e.network import NODE_ADDRESS, PLUGINS, PODS, write_plugin_configuration
from support.kubectl import Kubectl

NAME = "e2e"
READY_SECONDS = 90.0
POLL_SECONDS = 0.3
FAKE_GPUS = 4
PATIENCE = "--request-timeout=5s"
"""kubectl's timeout, for an API server that may have lost its etcd."""
SANDBOX_IMAGE = "justitia.dev/e2e/sandbox:1"
EVICTION_SIGNALS = ("memory.available", "nodefs.available", "nodefs.inodesFree", "imagefs.available")
_CRI = "io.containerd.cri.v1"


def start_containerd(state: State, programs: Path, daemons: Daemons) -> None:
    state.containerd.symlink_to(programs)
    folder = state.root / "containerd"
    folder.mkdir()
    configuration = folder / "config.toml"
    configuration.write_text(_containerd_configuration(state, folder, write_plugin_configuration(state)))
    # containerd looks there for the programs that start containers.
    path = {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    daemons.start("containerd", [programs / "containerd", f"--config={configuration}"], path)
    daemons.await_ready("containerd", lambda: state.containerd_socket.is_socket() and _lists_images(state))


def _lists_images(state: State) -> bool:
    try:
        ctr(state, "images", "ls", "-q")
    except ClusterError:
        return False
    return True


def ctr(state: State, *arguments: str) -> str:
    return run(ctr_command(state, *arguments))


def ctr_command(state: State, *arguments: str) -> list[str]:
    """containerd's own client, in the kubelet's namespace."""
    return [str(state.containerd / "ctr"), f"--address={state.containerd_socket}", "--namespace=k8s.io", *arguments]


def _containerd_configuration(state: State, folder: Path, plugins: Path) -> str:
    return f"""\
version = 3
root = "{folder / "root"}"
state = "{folder / "state"}"
imports = []
disabled_plugins = ["io.containerd.nri.v1.nri"]
[grpc]
address = "{state.containerd_socket}"
[plugins."io.containerd.internal.v1.opt"]
path = "{folder / "opt"}"
[plugins."{_CRI}.images".pinned_images]
sandbox = "{SANDBOX_IMAGE}"
[plugins."{_CRI}.runtime"]
# Machines that are containers or small virtual machines themselves do not let scores be lowered.
restrict_oom_score_adj = true
netns_mounts_under_state_dir = true
[plugins."{_CRI}.runtime".cni]
bin_dirs = ["{PLUGINS}"]
conf_dir = "{plugins}"
[plugins."{_CRI}.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."{_CRI}.runtime".containerd.runtimes.runc.options]
SystemdCgroup = false
"""


def start_kubelet(state: State, plane: ControlPlane, daemons: Daemons) -> None:
    folder = state.root / "kubelet"
    folder.mkdir()
    resolver = folder / "resolv.conf"
    resolver.touch()
    (port,) = free_ports(1)
    configuration = folder / "config.json"
    configuration.write_text(json.dumps(_kubelet_configuration(state, plane, resolver, port), indent=2))
    daemons.start(
        "kubelet",
        [
            plane.programs / "kubelet",
            f"--config={configuration}",
            f"--kubeconfig={plane.client(f'system:node:{NAME}', 'system:nodes')}",
            f"--root-dir={folder}",
            f"--cert-dir={folder / 'pki'}",
            f"--hostname-override={NAME}",
            f"--node-ip={NODE_ADDRESS}",
        ],
    )
    daemons.await_ready("kubelet", lambda: answers(f"http://127.0.0.1:{port}/healthz"))


def _kubelet_configuration(state: State, plane: ControlPlane, resolver: Path, health_port: int) -> dict[str, Any]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": NODE_ADDRESS,
        "healthzBindAddress": "127.0.0.1",
        "healthzPort": health_port,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(plane.authority.certificate)},
        },
        "authorization": {"mode": "Webhook"},
        "containerRuntimeEndpoint": f"unix://{state.containerd_socket}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{cgroups.NAME}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "podLogsDir": str(state.root / "pod-logs"),
        "volumePluginDir": str(state.root / "volume-plugins"),
        "resolvConf": str(resolver),
        "makeIPTablesUtilChains": False,
        # The disk is shared with other work, and removed images could not be pulled again.
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "evictionHard": dict.fromkeys(EVICTION_SIGNALS, "1%"),
    }


def start_kube_proxy(state: State, plane: ControlPlane, daemons: Daemons) -> None:
    health, metrics = free_ports(2)
    configuration = {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "clusterCIDR": str(PODS),
        "hostnameOverride": NAME,
        "healthzBindAddress": f"127.0.0.1:{health}",
        "metricsBindAddress": f"127.0.0.1:{metrics}",
        "clientConnection": {"kubeconfig": str(plane.client("system:kube-proxy"))},
        # Zero leaves the machine's limits as they are.
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
    }
    path = plane.folder / "kube-proxy.json"
    path.write_text(json.dumps(configuration, indent=2))
    daemons.start("kube-proxy", [plane.programs / "kube-proxy", f"--config={path}"])
    daemons.await_ready("kube-proxy", lambda: answers(f"http://127.0.0.1:{health}/livez"))


def await_node(kubectl: Kubectl, daemons: Daemons) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while not node_is_ready(kubectl):
        if time.monotonic() > deadline:
            raise ClusterError(f"the node is not Ready after {READY_SECONDS:.0f} s:\n{daemons.said('kubelet')}")
        time.sleep(POLL_SECONDS)


def node_is_ready(kubectl: Kubectl) -> bool:
    path = '{.status.conditions[?(@.type=="Ready")].status}'
    return kubectl.run("get", "node", NAME, PATIENCE, f"--output=jsonpath={path}").stdout == "True"


def give_fake_gpus(kubectl: Kubectl) -> None:
    """Give the node fake GPUs. The Kubernetes scheduler counts them; no container sees one."""
    change = json.dumps({"status": {"capacity": {"nvidia.com/gpu": str(FAKE_GPUS)}}})
    kubectl("patch", "node", NAME, "--subresource=status", "--type=merge", f"--patch={change}")
