"""Calls helm on the chart."""

import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from cluster.build import ensure_programs
from cluster.control_plane import ControlPlane

CHART = Path(__file__).parents[2] / "charts" / "justitia"


def helm(*arguments: str, kubeconfig: Path | None = None) -> subprocess.CompletedProcess[str]:
    """What helm answers. Its own files stay out of the user's home."""
    program = ensure_programs(lambda line: None) / "helm"
    with tempfile.TemporaryDirectory() as home:
        settings = {f"HELM_{kind}_HOME": home for kind in ("CACHE", "CONFIG", "DATA")}
        if kubeconfig:
            settings["KUBECONFIG"] = str(kubeconfig)
        return subprocess.run(
            [program, *arguments], capture_output=True, text=True, check=False, env={**os.environ, **settings}
        )


def rendered(*arguments: str) -> list[dict[str, Any]]:
    """The objects that the chart becomes with the given options."""
    answer = helm("template", "justitia", str(CHART), "--namespace", "justitia-system", *arguments)
    assert answer.returncode == 0, answer.stderr
    return [document for document in yaml.safe_load_all(answer.stdout) if document]


@dataclass(frozen=True)
class Release:
    """The release `justitia` in a namespace of a real API server."""

    plane: ControlPlane
    namespace: str

    def attempt(self, verb: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """What helm answers about it, success or not."""
        if verb == "uninstall":
            self._use_definitions()
        return helm(verb, "justitia", *arguments, "--namespace", self.namespace, kubeconfig=self.plane.kubeconfig)

    def __call__(self, verb: str, *arguments: str) -> None:
        answer = self.attempt(verb, *arguments)
        assert answer.returncode == 0, answer.stderr

    def install(self, *arguments: str, chart: Path = CHART) -> None:
        self("install", str(chart), *arguments)

    def _use_definitions(self) -> None:
        """One that is deleted before its storage is there may stay for minutes: the API server tries again, meets its
        own write, and waits for the next resync of its informer.
        """
        if defined := definitions(self.plane):
            self.plane.kubectl("get", ",".join(defined), "--all-namespaces")

    def upgrade(self, *arguments: str, chart: Path = CHART) -> None:
        self("upgrade", str(chart), *arguments)


def definitions(plane: ControlPlane) -> dict[str, dict[str, Any]]:
    """Ours by name, those that are being deleted included: they are still their release's."""
    items = plane.get("customresourcedefinitions")["items"]
    return {item["metadata"]["name"]: item for item in items if item["spec"]["group"] == "justitia.dev"}
