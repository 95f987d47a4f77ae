"""Resources at which the operator fails among hundreds, and a pod's forged last words: a real API server, and the
operator's process.
"""

import json
from collections.abc import Callable

import pytest
import yaml

from support.kubectl import ROOT, Json, OperatorProcess, eventually
from support.stage import SYSTEM, Stage

APPLICATIONS, NIGHTLY_APPLICATIONS, POISONED = 200, 1000, 20
AT_ONCE = 250
ALL_SECONDS = 180.0


class PoisonedOperator(OperatorProcess):
    """Fails at every resource whose name begins with `poisoned`."""

    MODULE = "support.poisoned_operator"


def forged_training(stage: Stage) -> Json:
    """A Job as the operator makes them, by a user who may make Jobs."""
    chat = stage.kubectl.get("llmapp", "chat", stage.namespace)["metadata"]["uid"]
    metadata = {
        "labels": {"app.kubernetes.io/managed-by": "justitia-operator"},
        "annotations": {"justitia.dev/application": f"{stage.namespace}/chat"},
    }
    pod = {"restartPolicy": "Never", "containers": [{"name": "train", "image": "forged"}]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": f"justitia-train-{chat}", "namespace": stage.namespace, **metadata},
        "spec": {"template": {"metadata": metadata, "spec": pod}},
    }


def test_a_pods_forged_last_words_are_a_training_that_failed(stage: Stage, operator: OperatorProcess) -> None:
    stage.set(pool={"learning": {"store": {"claimName": "models"}}}, application={"predictor": {"minimumSamples": 20}})
    job = forged_training(stage)
    stage.kubectl.apply(job)
    label = f"batch.kubernetes.io/job-name={job['metadata']['name']}"
    (pod,) = eventually(lambda: stage.kubectl.names("pods", stage.namespace, label))
    ended = {"exitCode": 0, "reason": "Completed", "startedAt": "2026-01-01T00:00:00Z"}
    ended |= {"finishedAt": "2026-01-01T00:01:00Z"}
    ended |= {"message": json.dumps({"version": "no version", "kind": "linear", "samples": 10**30})}
    train = {"name": "train", "image": "", "imageID": "", "ready": False, "restartCount": 0}
    stage.report(pod, phase="Succeeded", containerStatuses=[train | {"state": {"terminated": ended}}])
    eventually(lambda: stage.condition("llmapp", "chat", "PredictorReady") == ("False", "TrainingFailed"))
    stage.set(tenant={"weight": "9"})
    eventually(lambda: stage.config().tenants[0].weight == 9.0)
    assert operator.entries("begun") == 1


def applications(stage: Stage) -> dict[str, dict[str, Json]]:
    """Conditions by name."""
    listed = stage.kubectl.items("llmapp", stage.namespace)
    return {
        obj["metadata"]["name"]: {each["type"]: each for each in obj.get("status", {}).get("conditions", ())}
        for obj in listed
    }


def named(stage: Stage, prefix: str) -> list[dict[str, Json]]:
    return [conditions for name, conditions in applications(stage).items() if name.startswith(prefix)]


def test_resources_at_which_it_fails_delay_no_other_and_say_so_until_it_is_mended(
    stage: Stage,
    operator: OperatorProcess,
    tmp_path_factory: pytest.TempPathFactory,
    start: Callable[..., OperatorProcess],
    pytestconfig: pytest.Config,
) -> None:
    count = NIGHTLY_APPLICATIONS if pytestconfig.getoption("nightly") else APPLICATIONS
    assert operator.stop() == 0
    log = tmp_path_factory.mktemp("poisoned") / "log"
    # A look at all of them each second would keep the machine busy, and with it the control plane.
    environment = {"PYTHONPATH": str(ROOT / "tests"), "JUSTITIA_RESYNC_SECONDS": "300"}
    poisoned = PoisonedOperator(stage.kubectl.kubeconfig, SYSTEM, log, **environment)
    try:
        poisoned.wait_until_working()
        names = [f"poisoned-{number}" for number in range(POISONED)]
        names += [f"good-{number}" for number in range(count - POISONED)]
        for begin in range(0, len(names), AT_ONCE):
            objects = [stage.application(name) for name in names[begin : begin + AT_ONCE]]
            stage.kubectl("create", "-f", "-", stdin=yaml.safe_dump_all(objects))
        good = count - POISONED
        eventually(lambda: sum("Ready" in each for each in named(stage, "good")) == good, ALL_SECONDS)
        reasons = ["OperatorFailed"] * POISONED
        eventually(lambda: [each["Reconciled"]["reason"] for each in named(stage, "poisoned")] == reasons)
        stage.set(tenant={"weight": "7"})
        eventually(lambda: stage.config().tenants[0].weight == 7.0)
        assert poisoned.entries("failed") >= POISONED
    finally:
        poisoned.stop()
    start(JUSTITIA_RESYNC_SECONDS="300")
    eventually(lambda: all("Accepted" in each for each in named(stage, "poisoned")), ALL_SECONDS)
    assert not any("Reconciled" in each for each in named(stage, "poisoned"))
