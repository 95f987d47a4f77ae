"""A real control plane with kube-scheduler, and nodes that kwok simulates. Pods have addresses of the loopback."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cluster.build import KWOK, ensure_program
from cluster.components import scheduler_arguments
from cluster.control_plane import ControlPlane
from justitia_cli.local.ports import free_ports

STAGES = Path(__file__).with_name("kwok.yaml")
PODS = "127.77.0.0/16"
NODES = 10
CAPACITY = {"cpu": "1000", "memory": "8Ti", "pods": "100", "nvidia.com/gpu": "64"}


@contextmanager
def simulated_cluster(progress: Callable[[str], None]) -> Iterator[ControlPlane]:
    """With the project's definitions and nodes that take pods."""
    kwok = ensure_program(KWOK, progress)
    with ControlPlane(progress) as plane:
        (port,) = free_ports(1)
        plane.start("kube-scheduler", *scheduler_arguments(plane.folder, plane.kubeconfig, port))
        plane.await_ready("kube-scheduler", f"https://127.0.0.1:{port}/healthz")
        plane.define_resources()
        nodes = {"apiVersion": "v1", "kind": "List", "items": [_node(number) for number in range(NODES)]}
        plane.kubectl("create", "-f", "-", input=json.dumps(nodes))
        plane.start(
            kwok,
            f"--kubeconfig={plane.kubeconfig}",
            "--manage-all-nodes",
            f"--cidr={PODS}",
            "--node-ip=127.0.0.1",
            f"--config={STAGES}",
            "--node-lease-duration-seconds=40",
        )
        plane.kubectl("wait", "--for=condition=Ready", "--timeout=60s", "nodes", "--all")
        yield plane


def _node(number: int) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"node-{number}"},
        "status": {"allocatable": CAPACITY, "capacity": CAPACITY},
    }
