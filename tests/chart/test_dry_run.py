"""The API server takes every object that the chart renders, and knows all of its fields."""

import subprocess

import pytest

from chart.helm import CHART, helm
from chart.switches import SWITCHES, WATCHED
from cluster.control_plane import ControlPlane


def dry_run(control_plane: ControlPlane, manifest: str) -> list[str]:
    """What would have been applied."""
    arguments = ("apply", "--server-side", "--dry-run=server", "--validate=strict", "-o", "name", "-f", "-")
    return control_plane.kubectl(*arguments, input=manifest).split()


@pytest.mark.parametrize("name", SWITCHES)
def test_every_rendered_object_is_taken(
    control_plane: ControlPlane, prometheus: None, namespace: str, name: str
) -> None:
    for other in WATCHED:
        manifest = f"{{apiVersion: v1, kind: Namespace, metadata: {{name: {other}}}}}"
        control_plane.kubectl("apply", "-f", "-", input=manifest)
    answer = helm(
        "template", "justitia", str(CHART), "--namespace", namespace, "--set=metrics.dashboards=true", *SWITCHES[name]
    )
    assert len(dry_run(control_plane, answer.stdout)) == answer.stdout.count("\nkind: ")


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        pytest.param("  replicas: 1", "  replica: 1", id="of a Deployment"),
        pytest.param("podMetricsEndpoints:", "podMetricEndpoints:", id="of a PodMonitor"),
    ],
)
def test_a_field_that_is_not_there_is_found_out(
    control_plane: ControlPlane, prometheus: None, namespace: str, right: str, wrong: str
) -> None:
    answer = helm("template", "justitia", str(CHART), "--namespace", namespace, "--set=metrics.podMonitors=true").stdout
    assert right in answer
    with pytest.raises(subprocess.CalledProcessError) as refusal:
        dry_run(control_plane, answer.replace(right, wrong))
    assert wrong.strip().partition(":")[0] in refusal.value.stderr
