"""What the chart becomes, without a cluster."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from chart.helm import CHART, helm, rendered

CRDS = Path(__file__).parents[2] / "crds"
KEEP = {"helm.sh/resource-policy": "keep"}


def definitions(*arguments: str) -> list[dict[str, Any]]:
    return [document for document in rendered(*arguments) if document["kind"] == "CustomResourceDefinition"]


def test_the_chart_passes_its_linter() -> None:
    answer = helm("lint", "--strict", str(CHART))
    assert answer.returncode == 0, answer.stdout + answer.stderr


def test_the_charts_definitions_are_the_generated_ones() -> None:
    copies = {file.name: file.read_bytes() for file in (CHART / "files" / "crds").iterdir()}
    assert copies == {file.name: file.read_bytes() for file in CRDS.iterdir()}, "run `make crds`"


def test_definitions_are_rendered_as_they_are_apart_from_the_annotation() -> None:
    originals = {file.name: yaml.safe_load(file.read_text()) for file in CRDS.iterdir()}
    kept = definitions()
    assert all(definition["metadata"].pop("annotations") == KEEP for definition in kept)
    by_name = sorted(kept, key=lambda definition: str(definition["metadata"]["name"]))
    assert by_name == sorted(originals.values(), key=lambda definition: str(definition["metadata"]["name"]))


def test_definitions_can_be_left_out() -> None:
    assert definitions("--set", "crds.enabled=false") == []


def test_definitions_that_are_not_kept_have_no_policy() -> None:
    assert all("annotations" not in definition["metadata"] for definition in definitions("--set", "crds.keep=false"))


@pytest.mark.parametrize(
    ("setting", "complaint"),
    [
        ("replicas=3", "replicas"),
        ("crds.keep=perhaps", "crds/keep"),
        ("resyncSeconds=1", "resyncSeconds"),
        ("logLevel=LOUD", "logLevel"),
        ("image.repository=", "image/repository"),
    ],
)
def test_a_wrong_value_is_refused_and_named(setting: str, complaint: str) -> None:
    answer = helm("template", "justitia", str(CHART), "--set", setting)
    assert answer.returncode != 0
    assert complaint in answer.stderr.replace(".", "/")


def test_the_sidecar_is_the_operators_image_unless_given() -> None:
    def sidecar(*arguments: str) -> str:
        (deployment,) = (document for document in rendered(*arguments) if document["kind"] == "Deployment")
        settings = deployment["spec"]["template"]["spec"]["containers"][0]["env"]
        return next(str(entry["value"]) for entry in settings if entry["name"] == "JUSTITIA_SIDECAR_IMAGE")

    assert (
        sidecar("--set", "image.repository=registry.example/justitia,image.tag=9.1.0")
        == "registry.example/justitia:9.1.0"
    )
    assert sidecar("--set", "sidecarImage=other:1") == "other:1"
