"""What the programs of a control plane are told, whoever starts them, and how it is seen that they work."""

import json
import ssl
import urllib.error
import urllib.request
from pathlib import Path

from cluster.certificates import Authority, Pair


def etcd_arguments(folder: Path, client: int, peer: int) -> list[str]:
    urls = f"http://127.0.0.1:{client}", f"http://127.0.0.1:{peer}"
    return [
        f"--data-dir={folder / 'etcd'}",
        f"--listen-client-urls={urls[0]}",
        f"--advertise-client-urls={urls[0]}",
        f"--listen-peer-urls={urls[1]}",
        f"--initial-advertise-peer-urls={urls[1]}",
        f"--initial-cluster=default={urls[1]}",
        "--unsafe-no-fsync",
        "--log-level=warn",
    ]


def api_server_arguments(authority: Authority, serving: Pair, service_account: Path, etcd: int, port: int) -> list[str]:
    """All but where it listens and which addresses Services have."""
    return [
        f"--etcd-servers=http://127.0.0.1:{etcd}",
        f"--secure-port={port}",
        "--authorization-mode=Node,RBAC",
        f"--client-ca-file={authority.certificate}",
        f"--tls-cert-file={serving.certificate}",
        f"--tls-private-key-file={serving.key}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={service_account}",
        f"--service-account-signing-key-file={service_account}",
    ]


def controller_manager_arguments(
    folder: Path, authority: Authority, service_account: Path, kubeconfig: Path, port: int
) -> list[str]:
    return [
        f"--kubeconfig={kubeconfig}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--cert-dir={folder / 'controller-manager'}",
        "--use-service-account-credentials",
        f"--service-account-private-key-file={service_account}",
        f"--root-ca-file={authority.certificate}",
        "--leader-elect=false",
        "--controllers=*,-nodeipam,-cloud-node-lifecycle,-service-lb-controller,-node-route-controller",
    ]


def scheduler_arguments(folder: Path, kubeconfig: Path, port: int) -> list[str]:
    return [
        f"--kubeconfig={kubeconfig}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--cert-dir={folder / 'scheduler'}",
        "--leader-elect=false",
    ]


def write_kubeconfig(path: Path, server: str, authority: Authority, client: Pair) -> Path:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "tests",
        "clusters": [
            {"name": "tests", "cluster": {"server": server, "certificate-authority": str(authority.certificate)}}
        ],
        "users": [
            {
                "name": path.stem,
                "user": {"client-certificate": str(client.certificate), "client-key": str(client.key)},
            }
        ],
        "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": path.stem}}],
    }
    path.write_text(json.dumps(document, indent=2))
    return path


def answers(url: str, authority: Authority | None = None, client: Pair | None = None) -> bool:
    """Whether the URL answers with success. Without an authority any certificate will do: a listener on loopback that
    made one for itself.
    """
    context = ssl.create_default_context(cafile=authority.certificate if authority else None)
    if authority is None:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if client:
        context.load_cert_chain(client.certificate, client.key)
    try:
        with urllib.request.urlopen(url, context=context, timeout=5):
            return True
    except (urllib.error.URLError, OSError):
        return False
