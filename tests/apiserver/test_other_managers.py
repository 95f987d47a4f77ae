"""Others who write to the same objects: kubectl, a GitOps tool, an autoscaler. Each keeps its own fields."""

import json
import subprocess

import pytest

from support.kubectl import Json, OperatorProcess, eventually
from support.stage import Stage

GITOPS = ("apply", "--server-side", "--field-manager=argocd-controller", "-f", "-")
"""As Argo CD applies, which does not force its way."""
AUTOSCALED = {"autoscaling": {"minimumReplicas": 2, "maximumReplicas": 5}}


def apply_as_gitops(stage: Stage, obj: Json, *more: str) -> str:
    return stage.kubectl(*GITOPS, *more, stdin=json.dumps(obj))


def replicas(stage: Stage) -> tuple[int, int]:
    """The replicas of the pool and of its Deployment."""
    pool = stage.kubectl.get("spool", "shared", stage.namespace)
    return pool["spec"]["replicas"], stage.child("deployment")["spec"]["replicas"]


def rests(stage: Stage, operator: OperatorProcess) -> None:
    """Nobody takes back from the other what it took: no object changes any more."""
    operator.wait_for_resyncs(2)
    before = stage.versions()
    operator.wait_for_resyncs(3)
    assert stage.versions() == before


def test_a_gitops_tool_and_an_autoscaler_each_keep_their_fields(stage: Stage, operator: OperatorProcess) -> None:
    pool = stage.pool(**AUTOSCALED)
    stage.kubectl("-n", stage.namespace, "delete", "spool", "shared")
    apply_as_gitops(stage, pool)
    eventually(lambda: stage.child("horizontalpodautoscaler"))
    # The autoscaler has no metrics here, so this writes what it would.
    stage.kubectl("-n", stage.namespace, "scale", "spool/shared", "--replicas=4")
    eventually(lambda: replicas(stage) == (4, 4))
    tracked = pool | {"metadata": pool["metadata"] | {"labels": {"app.kubernetes.io/instance": "chat"}}}
    apply_as_gitops(stage, tracked)
    apply_as_gitops(stage, tracked)
    assert replicas(stage) == (4, 4)
    rests(stage, operator)
    same = stage.kubectl(*GITOPS, "--dry-run=server", "-o", "json", stdin=json.dumps(tracked))
    assert json.loads(same) == stage.kubectl.get("spool", "shared", stage.namespace), "the tool would see drift"


def test_who_edits_with_kubectl_what_a_tool_applies_is_told_whose_it_is(
    stage: Stage, operator: OperatorProcess
) -> None:
    stage.kubectl("-n", stage.namespace, "delete", "spool", "shared")
    apply_as_gitops(stage, stage.pool(replicas=2))
    stage.kubectl.patch("spool", "shared", stage.namespace, {"spec": {"replicas": 3}})
    eventually(lambda: replicas(stage) == (3, 3))
    with pytest.raises(subprocess.CalledProcessError) as refused:
        apply_as_gitops(stage, stage.pool(replicas=2))
    assert ".spec.replicas" in refused.value.stderr
    apply_as_gitops(stage, stage.pool(replicas=2), "--force-conflicts")
    eventually(lambda: replicas(stage) == (2, 2))
    rests(stage, operator)


def test_a_child_that_is_applied_by_force_is_put_right_and_nobody_fights(
    stage: Stage, operator: OperatorProcess
) -> None:
    deployment = stage.child("deployment")
    image = deployment["spec"]["template"]["spec"]["containers"][0]["image"]
    container = {"name": "engine", "image": "example.com/another:1"}
    theirs = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": deployment["metadata"]["name"], "namespace": stage.namespace},
        "spec": {
            "replicas": 7,
            "selector": deployment["spec"]["selector"],
            "template": {
                "metadata": {"labels": deployment["spec"]["selector"]["matchLabels"]},
                "spec": {"containers": [container]},
            },
        },
    }
    apply_as_gitops(stage, theirs, "--force-conflicts")

    def ours() -> bool:
        spec = stage.child("deployment")["spec"]
        return (spec["replicas"], spec["template"]["spec"]["containers"][0]["image"]) == (1, image)

    eventually(ours)
    rests(stage, operator)
    with pytest.raises(subprocess.CalledProcessError) as refused:
        apply_as_gitops(stage, theirs)
    assert 'conflicts with "justitia-operator"' in refused.value.stderr


def test_what_others_add_to_children_stays(stage: Stage, operator: OperatorProcess) -> None:
    where = ("-n", stage.namespace)
    (old,) = stage.pods()
    stage.kubectl(*where, "rollout", "restart", "deployment/justitia-shared")
    stage.kubectl(*where, "annotate", "service/justitia-shared", "example.com/load-balancer=internal")
    stage.kubectl(*where, "label", "configmap/justitia-shared", "example.com/cost-center=7")
    eventually(lambda: [pod for pod in stage.pods() if pod != old])
    rests(stage, operator)
    restarted = stage.child("deployment")["spec"]["template"]["metadata"]["annotations"]
    assert "kubectl.kubernetes.io/restartedAt" in restarted
    assert stage.child("service")["metadata"]["annotations"]["example.com/load-balancer"] == "internal"
    stage.set(tenant={"weight": "9"})
    eventually(lambda: stage.config().tenants[0].weight == 9.0)
    assert stage.child("configmap")["metadata"]["labels"]["example.com/cost-center"] == "7"


def test_what_is_logged_of_a_change_names_the_resource_and_its_generation(
    stage: Stage, operator: OperatorProcess
) -> None:
    stage.set(pool={"replicas": 2})
    eventually(lambda: replicas(stage) == (2, 2))
    generation = stage.kubectl.get("spool", "shared", stage.namespace)["metadata"]["generation"]

    def last_applied() -> tuple[str, int]:
        lines = [json.loads(line) for line in operator.log().splitlines()]
        applied = [line for line in lines if line["event"] == "applied" and stage.namespace in line["object"]]
        return applied[-1]["reconciled"], applied[-1]["generation"]

    # The API server shows the write before it is logged.
    eventually(lambda: last_applied() == (f"ServingPool {stage.namespace}/shared", generation))
