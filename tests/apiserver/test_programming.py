"""A pod is told its configuration: a real API server, the operator's process and a sidecar's, over their real ports.

Only the kubelet's part is the test's: it writes the sidecar's files from ConfigMap and Secret, once, and reports the
pod's address.
"""

import json
import urllib.request
from pathlib import Path

import pytest

from support.kubectl import eventually
from support.local_pod import Files, local_sidecar, running
from support.stage import Stage

ADDRESS = "127.0.0.3"
"""The pod's: no other test listens there."""


def weight_in(admin: str) -> float:
    with urllib.request.urlopen(f"{admin}/internal/status", timeout=5) as answer:
        (tenant,) = json.loads(answer.read())["tenants"]
    return float(tenant["weight"])


def programmed(stage: Stage) -> tuple[str, str]:
    return stage.condition("spool", "shared", "Programmed")


@pytest.mark.usefixtures("operator")
def test_a_change_is_in_effect_in_the_pod_which_is_told_again_when_it_starts_again(
    stage: Stage, tmp_path: Path
) -> None:
    assert eventually(lambda: programmed(stage)) == ("False", "NoPods")
    (pod,) = stage.pods()
    files = Files(stage, tmp_path)
    with local_sidecar(files, ADDRESS) as admin:
        eventually(lambda: weight_in(admin) == 1.0)
        stage.report(pod, **running("one", ADDRESS))
        eventually(lambda: programmed(stage) == ("True", "Programmed"))
        stage.set(tenant={"weight": "5"})
        eventually(lambda: weight_in(admin) == 5.0)
        eventually(lambda: programmed(stage) == ("True", "Programmed"))
    eventually(lambda: programmed(stage) == ("False", "NotReachable"))
    with local_sidecar(files, ADDRESS) as admin:
        eventually(lambda: weight_in(admin) == 5.0)
        stage.report(pod, **running("two", ADDRESS))
        eventually(lambda: programmed(stage) == ("True", "Programmed"))
