"""`justitia predictor`: what people do to an application's predictor by hand.

An application's samples are reached through a sidecar of its pool, which has the store's volume or keys. So whoever may
run commands in the pool's pods may read or erase them.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from justitia_cli.console import ContextOption, KubeconfigOption, OneLineErrors, fail, output
from justitia_cli.sidecars import SidecarsError, kubectl_command, output_of
from justitia_operator.world.names import SIDECAR_CONTAINER
from justitia_operator.world.objects import POOL_LABEL
from justitia_operator.world.sidecars import sidecar_pod

app = typer.Typer(
    cls=OneLineErrors, no_args_is_help=True, help="Roll an application's predictor back; export or erase its samples."
)

ApplicationArgument = Annotated[str, typer.Argument(help="Name of the LLMApplication")]
NamespaceOption = Annotated[
    str | None, typer.Option("--namespace", "-n", help="Namespace of the application; the context's unless given")
]


@app.command()
def rollback(
    application: ApplicationArgument,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="VERSION", help="A version that was in effect before, or its beginning; the last one unless given"
        ),
    ] = None,
    namespace: NamespaceOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
) -> None:
    """Put an earlier version into effect, and keep it until spec.predictor.version is removed."""
    with _reaching(application, namespace, kubeconfig, context) as found:
        earlier = found.record.get("history", [])
        versions = [each for each in earlier if each.startswith(to or "")]
        if not versions:
            known = ", ".join(each[:12] for each in earlier) or "none"
            fail(
                f"{application} has no such earlier version (it has {known}): to go back to the running mean, remove "
                "spec.predictor"
            )
        change = json.dumps({"spec": {"predictor": {"version": versions[0]}}})
        found.kubectl("patch", "llmapplication", application, "--type=merge", f"--patch={change}")
        output.print(
            f"{versions[0]} is in effect until spec.predictor.version is removed:", highlight=False, soft_wrap=True
        )
        undo = json.dumps([{"op": "remove", "path": "/spec/predictor/version"}])
        output.print(
            f"  kubectl patch llmapplication {application} --type=json --patch='{undo}'",
            highlight=False,
            soft_wrap=True,
        )


@app.command()
def export(
    application: ApplicationArgument,
    version: Annotated[
        str | None,
        typer.Option(metavar="VERSION", help="Write the file of this version instead, for an image (learning.image)"),
    ] = None,
    namespace: NamespaceOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
) -> None:
    """Write the application's samples to standard output, as JSON lines, or a version of its predictor."""
    with _reaching(application, namespace, kubeconfig, context) as found:
        pod, *_ = found.pods()
        which = [] if version is None else [f"--version={version}"]
        command = found.inside(pod, "justitia_predictor", "export", f"--application={found.uid}", *which)
        if subprocess.run(command, stdout=sys.stdout.fileno(), check=False).returncode:
            what = "the samples" if version is None else f"version {version[:12]}"
            fail(f"{what} of {application} were not exported as a whole")


@app.command()
def erase(
    application: ApplicationArgument,
    namespace: NamespaceOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
) -> None:
    """Erase all that was learned about the application: samples and versions, in the store and in pods."""
    with _reaching(application, namespace, kubeconfig, context) as found:
        for pod in found.pods():
            output_of(found.inside(pod, "justitia_sidecar.forget", found.uid))
        pod, *_ = found.pods()
        erased = json.loads(output_of(found.inside(pod, "justitia_predictor", "erase", f"--application={found.uid}")))
        output.print(f"{erased['objects']} objects of {application} are erased from the store", highlight=False)


@dataclass(frozen=True)
class Found:
    """An application of a cluster, and the namespace and name of the pool that serves it."""

    command: list[str]
    uid: str
    record: dict[str, Any]
    pool: tuple[str, str]

    def kubectl(self, *arguments: str) -> str:
        return output_of([*self.command, *arguments])

    def pods(self) -> list[str]:
        """The pods of its pool that run a sidecar. Raises SidecarsError if there are none."""
        namespace, name = self.pool
        selector = f"--selector={POOL_LABEL}={name}"
        items = json.loads(self.kubectl("get", "pods", f"--namespace={namespace}", selector, "--output=json"))["items"]
        running = [pod["metadata"]["name"] for pod in items if sidecar_pod(pod)]
        if not running:
            raise SidecarsError(f"no pod of ServingPool {namespace}/{name} runs a sidecar: see `kubectl get spool`")
        return running

    def inside(self, pod: str, module: str, *arguments: str) -> list[str]:
        """A command that runs a module beside the pod's sidecar."""
        where = (pod, f"--namespace={self.pool[0]}", f"--container={SIDECAR_CONTAINER}")
        return [*self.command, "exec", *where, "--", "python", "-m", module, *arguments]


@contextmanager
def _reaching(application: str, namespace: str | None, kubeconfig: str | None, context: str | None) -> Iterator[Found]:
    """Find the application. Errors become one line."""
    command = kubectl_command(namespace, kubeconfig, context)
    try:
        obj = json.loads(output_of([*command, "get", "llmapplication", application, "--output=json"]))
        reference = obj["spec"].get("poolRef") or {"name": application}
        pool = (reference.get("namespace") or obj["metadata"]["namespace"], reference["name"])
        record = (obj.get("status") or {}).get("predictor") or {}
        yield Found(command, obj["metadata"]["uid"], record, pool)
    except SidecarsError as error:
        fail(str(error))
