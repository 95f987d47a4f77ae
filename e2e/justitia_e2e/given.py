"""A cluster that is given to the tests, by kubeconfig and context. Nothing else in the kubeconfig is used."""

import json
from contextlib import AbstractContextManager
from pathlib import Path

import yaml

from justitia_cli import sidecars
from justitia_e2e.example import EXAMPLE, NAMESPACE, POOL
from justitia_e2e.install import NAMESPACE as SYSTEM
from justitia_e2e.machine import ClusterError
from justitia_operator.build.builders import SERVICE_PORT
from support.kubectl import Kubectl


def kubectl_of_given(program: Path, kubeconfig: str, context: str | None, folder: Path) -> Kubectl:
    """kubectl for the context alone, by a copy of the kubeconfig in the folder. Raises ClusterError."""
    everything = Kubectl(str(program), kubeconfig)
    if not Path(kubeconfig).is_file():
        raise ClusterError(f"there is no kubeconfig {kubeconfig}")
    known = everything("config", "get-contexts", "-o", "name").split()
    if context not in known:
        missing = f"it has no context {context}" if context else "name the context too, with CONTEXT="
        raise ClusterError(f"{kubeconfig}: {missing}; it has {', '.join(known) or 'none'}")
    copy = folder / "kubeconfig"
    copy.touch(0o600)
    copy.write_text(everything("config", "view", "--raw", "--minify", "--flatten", f"--context={context}"))
    return Kubectl(str(program), str(copy))


def check_given(kubectl: Kubectl, example: Path) -> None:
    """Raises ClusterError if the tests cannot run there, or would touch what others have made. Changes nothing."""
    answer = kubectl.run("get", "--raw", "/readyz", "--request-timeout=10s")
    if answer.returncode:
        raise ClusterError(f"the cluster does not answer: {answer.stderr.strip()}")
    deployments = json.loads(kubectl("-n", SYSTEM, "get", "deployments", "-o", "json"))["items"]
    if not any(d["metadata"].get("labels", {}).get("app.kubernetes.io/name") == "justitia" for d in deployments):
        install = (
            f"helm install justitia charts/justitia --namespace {SYSTEM} --create-namespace --set image.repository="
        )
        raise ClusterError(f"no operator is installed in the namespace {SYSTEM}: `{install}YOUR_IMAGE`")
    if kubectl.exists("namespace", NAMESPACE):
        raise ClusterError(f"the namespace {NAMESPACE} exists: the tests make it and delete it, so delete it first")
    if missing := names(EXAMPLE) - names(example):
        lacks = ", ".join(" ".join(each) for each in sorted(missing))
        raise ClusterError(f"{example} must have the objects of {EXAMPLE.name}, and lacks {lacks}")


def names(example: Path) -> set[tuple[str, str]]:
    """Kinds and names of the objects that the tests use. An example may have others, such as claims."""
    ours = {"Tenant", "ServingPool", "LLMApplication", "Secret", "Namespace"}
    documents = yaml.safe_load_all(example.read_text())
    return {(d["kind"], d["metadata"]["name"]) for d in documents if d and d["kind"] in ours}


def forwarded(kubectl: Kubectl) -> AbstractContextManager[str]:
    """A local address that leads to the pool's Service, or to one of its pods while that lives."""
    command = [kubectl.program, f"--kubeconfig={kubectl.kubeconfig}", f"--namespace={NAMESPACE}"]
    return sidecars.forwarded(command, f"service/justitia-{POOL}", SERVICE_PORT)
