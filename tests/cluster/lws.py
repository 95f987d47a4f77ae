"""LeaderWorkerSet beside a control plane, as its project delivers it: its definitions, its controller, its webhooks."""

import base64
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from cluster.build import LWS, ensure_definitions, ensure_program
from cluster.control_plane import ControlPlane
from justitia_cli.local.ports import free_ports

MODULE = "sigs.k8s.io/lws"
OF_ITS_PODS = {"matchExpressions": [{"key": "leaderworkerset.sigs.k8s.io/name", "operator": "Exists"}]}


@contextmanager
def running_lws(plane: ControlPlane, progress: Callable[[str], None] = lambda line: None) -> Iterator[None]:
    """Installed for a while. It goes with all its objects."""
    definitions = ensure_definitions(MODULE, "config/crd/bases", progress)
    program = ensure_program(LWS, progress)
    webhooks, health = free_ports(2)
    certificate, key, authority = plane.issue_server("lws")
    for file, name in ((certificate, "tls.crt"), (key, "tls.key")):
        (plane.folder / name).write_bytes(file.read_bytes())
    settings = {
        "apiVersion": "config.lws.x-k8s.io/v1alpha1",
        "kind": "Configuration",
        "internalCertManagement": {"enable": False},
        "webhook": {"host": "127.0.0.1", "port": webhooks, "certDir": str(plane.folder)},
        "health": {"healthProbeBindAddress": f"127.0.0.1:{health}"},
        "metrics": {"bindAddress": "0"},
        "leaderElection": {"leaderElect": False},
    }
    configuration = plane.folder / "lws.yaml"
    configuration.write_text(yaml.safe_dump(settings))
    plane.define(definitions)
    hooks = list(_webhooks(ensure_definitions(MODULE, "config/webhook", progress), webhooks, authority))
    plane.kubectl("apply", "-f", "-", input=yaml.safe_dump_all(hooks))
    plane.start(program, f"--kubeconfig={plane.issue_kubeconfig('lws')}", f"--config={configuration}")
    try:
        plane.await_ready("lws", f"http://127.0.0.1:{health}/readyz")
        yield
    finally:
        plane.kubectl("delete", "leaderworkersets", "--all", "--all-namespaces")
        plane.kubectl("delete", *(f"{hook['kind']}/{hook['metadata']['name']}" for hook in hooks))
        plane.kubectl("delete", "-f", str(definitions))
        plane.kill("lws")


def _webhooks(folder: Path, port: int, authority: Path) -> Iterator[dict[str, Any]]:
    """Reached on loopback and not through a Service; those for pods only for its own, as in its delivery."""
    bundle = base64.b64encode(authority.read_bytes()).decode()
    for document in yaml.safe_load_all((folder / "manifests.yaml").read_text()):
        document["metadata"]["name"] = f"lws-{document['kind'].lower()}"
        for hook in document["webhooks"]:
            path = hook["clientConfig"]["service"]["path"]
            hook["clientConfig"] = {"url": f"https://127.0.0.1:{port}{path}", "caBundle": bundle}
            if path.endswith("-pod"):
                hook["objectSelector"] = OF_ITS_PODS
        yield document
