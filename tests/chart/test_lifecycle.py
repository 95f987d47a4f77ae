"""A release over its life: what upgrade, rollback and uninstall do to definitions and to what users made of them."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from chart.helm import CHART, Release, definitions
from chart.switches import EVERYTHING
from cluster.control_plane import ControlPlane
from support.kubectl import OWN, Json, eventually
from support.stage import Stage

LABEL = "app.kubernetes.io/instance=justitia"
ALL = (*EVERYTHING, "--set=metrics.dashboards=true", "--set=crds.keep=false")


@pytest.fixture
def release(control_plane: ControlPlane, namespace: str) -> Iterator[Release]:
    """Not installed yet. What is left of it at the end goes with its definitions."""
    release = Release(control_plane, namespace)
    yield release
    release("uninstall", "--ignore-not-found")
    for name in definitions(control_plane):
        control_plane.kubectl("delete", "customresourcedefinition", name, "--ignore-not-found")


@pytest.fixture
def newer(tmp_path: Path) -> Path:
    """The chart of a next version, whose Tenants have one more field."""
    chart = tmp_path / "justitia"
    shutil.copytree(CHART, chart)
    about = yaml.safe_load((chart / "Chart.yaml").read_text())
    (chart / "Chart.yaml").write_text(yaml.safe_dump(about | {"version": "0.2.0"}))
    definition = chart / "files" / "crds" / "justitia.dev_tenants.yaml"
    document = yaml.safe_load(definition.read_text())
    spec = document["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["properties"]["costCentre"] = {"type": "string", "maxLength": 63}
    definition.write_text(yaml.safe_dump(document))
    return chart


@pytest.fixture
def stage(control_plane: ControlPlane, namespace: str) -> Stage:
    return Stage(control_plane.administrator, namespace)


def labelled(plane: ControlPlane) -> list[Json]:
    """Everything with the release's label, of all kinds that the API server can list."""
    kinds = plane.kubectl("api-resources", "--verbs=list", "-o", "name").split()
    items: list[Json] = plane.get(",".join(kinds), "--all-namespaces", f"--selector={LABEL}")["items"]
    return items


def charts(plane: ControlPlane) -> set[str]:
    """The charts of the release's own objects; objects that are made for them follow later."""
    own = [item["metadata"] for item in labelled(plane) if "ownerReferences" not in item["metadata"]]
    return {metadata["labels"]["helm.sh/chart"] for metadata in own}


def made(stage: Stage) -> dict[str, str]:
    """What users made, and of which version it is."""
    items = stage.kubectl.items(OWN)
    return {item["metadata"]["uid"]: item["metadata"]["resourceVersion"] for item in items}


def takes_the_new_field(stage: Stage) -> bool:
    tenant = yaml.safe_dump(stage.tenant_object(costCentre="4711"))
    answer = stage.kubectl.run("apply", "--dry-run=server", "--validate=strict", "-f", "-", stdin=tenant)
    assert answer.returncode == 0 or "costCentre" in answer.stderr
    return answer.returncode == 0


def log_level(release: Release) -> str:
    deployment = release.plane.get("deployment", "justitia", f"--namespace={release.namespace}")
    environment = deployment["spec"]["template"]["spec"]["containers"][0]["env"]
    return {entry["name"]: entry.get("value", "") for entry in environment}["JUSTITIA_LOG_LEVEL"]


def test_a_release_is_upgraded_with_its_definitions_rolled_back_and_leaves_nothing(
    release: Release, stage: Stage, newer: Path, prometheus: None
) -> None:
    plane = release.plane
    release.install(*ALL)
    stage.kubectl.apply(stage.tenant_object())
    before = made(stage)
    eventually(lambda: charts(plane) == {"justitia-0.1.0"})
    assert not takes_the_new_field(stage)

    release.upgrade(*ALL, "--set", "logLevel=DEBUG", chart=newer)
    eventually(lambda: charts(plane) == {"justitia-0.2.0"})
    assert log_level(release) == "DEBUG"
    eventually(lambda: takes_the_new_field(stage))

    release("rollback", "1")
    eventually(lambda: charts(plane) == {"justitia-0.1.0"})
    assert log_level(release) == "INFO"
    eventually(lambda: not takes_the_new_field(stage))
    assert made(stage) == before

    release("uninstall")
    eventually(lambda: not definitions(plane))
    eventually(lambda: not labelled(plane))
    assert not plane.get("secrets", f"--namespace={release.namespace}")["items"]


def test_an_uninstalled_release_leaves_what_users_made_to_the_next_one(
    release: Release, stage: Stage, newer: Path
) -> None:
    release.install()
    stage.kubectl.apply(stage.tenant_object(), stage.pool(), stage.application())
    before = made(stage)
    assert len(before) == 3

    release("uninstall")
    eventually(lambda: not labelled(release.plane))
    assert made(stage) == before

    release.install(chart=newer)
    assert made(stage) == before
    eventually(lambda: takes_the_new_field(stage))

    release.upgrade("--set", "crds.keep=false", chart=newer)
    release("uninstall")
    eventually(lambda: not definitions(release.plane))


@pytest.mark.parametrize(
    ("way", "owned_by_the_next"),
    [
        pytest.param(("--take-ownership",), True, id="taken over"),
        pytest.param(("--set", "crds.enabled=false"), False, id="used as they are"),
    ],
)
def test_definitions_that_a_release_of_another_namespace_left_are_taken_over_or_used_as_they_are(
    release: Release, namespace: str, control_plane: ControlPlane, way: tuple[str, ...], owned_by_the_next: bool
) -> None:
    release.install()
    release("uninstall")
    control_plane.create_namespace(f"{namespace}-next")
    following = Release(control_plane, f"{namespace}-next")
    assert "invalid ownership metadata" in following.attempt("install", str(CHART)).stderr
    following.install(*way)
    owners = {
        definition["metadata"]["annotations"]["meta.helm.sh/release-namespace"]
        for definition in definitions(control_plane).values()
    }
    assert owners == {following.namespace if owned_by_the_next else namespace}
    following("uninstall")
