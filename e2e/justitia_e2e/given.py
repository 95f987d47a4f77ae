"""A cluster that somebody gives to the tests, by kubeconfig and context: nothing else in the kubeconfig is touched."""

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
    """For the context alone, from a copy that is kept in the folder. Raises ClusterError."""
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
    """Raises ClusterError where the tests cannot run, or would touch what is somebody's. Changes nothing."""
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
        raise ClusterError(f"the namespace {NAMESPACE}, which the tests make and delete, is there already")
    if missing := names(EXAMPLE) - names(example):
        lacks = ", ".join(" ".join(each) for each in sorted(missing))
        raise ClusterError(f"{example} must have the objects of {EXAMPLE.name}, and lacks {lacks}")


def names(example: Path) -> set[tuple[str, str]]:
    """What the tests know of an example. Claims and whatever else it needs are its own."""
    ours = {"Tenant", "ServingPool", "LLMApplication", "Secret", "Namespace"}
    documents = yaml.safe_load_all(example.read_text())
    return {(d["kind"], d["metadata"]["name"]) for d in documents if d and d["kind"] in ours}


def forwarded(kubectl: Kubectl) -> AbstractContextManager[str]:
    """A local address that leads to the pool's Service, or to one of its pods as long as that lives."""
    command = [kubectl.program, f"--kubeconfig={kubectl.kubeconfig}", f"--namespace={NAMESPACE}"]
    return sidecars.forwarded(command, f"service/justitia-{POOL}", SERVICE_PORT)
