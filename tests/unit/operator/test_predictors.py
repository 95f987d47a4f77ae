"""From an application's predictor to pods' volumes, a training Job, and a version in effect."""

import json
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from justitia_api.status import ErrorSums, LearningStatus, ModelStatus
from justitia_operator.decide.affected import affected
from justitia_operator.decide.reconcile import reconcile
from justitia_operator.world.objects import Json, Kind, Plan, Ref, ref_of
from justitia_operator.world.reports import Report
from justitia_operator.world.snapshot import Rejection, Snapshot
from support.resources import (
    NOW,
    application,
    applied,
    child,
    condition,
    config,
    key,
    namespace,
    pod,
    pool,
    put,
    settled,
    tenant,
    without,
    world,
)

CHAT = Ref(Kind.LLM_APPLICATION, "apps", "chat")
POD = Ref(Kind.POD, "apps", "justitia-shared-1")
JOB = Ref(Kind.JOB, "apps", "justitia-train-uid-LLMApplication-chat")
CLAIM = {"store": {"claimName": "models"}}
BUCKET = {
    "store": {
        "bucket": {
            "url": "s3://models/justitia",
            "endpoint": "http://minio.storage:9000",
            "secretRef": {"name": "bucket-key"},
        }
    }
}
VERSION = "d" * 64


def learning_world(learning: Json | None = None, **predictor: Any) -> Snapshot:
    return settled(
        world(tenant(), key(), pool(learning=CLAIM if learning is None else learning), application(predictor=predictor))
    )


def reporting(snapshot: Snapshot, samples: int | None = None, **models: ModelStatus) -> Snapshot:
    """A pod that was told all there is, and tells what it learned."""
    told = LearningStatus(namespace="apps", name="chat", samples=samples, **models)
    report = Report("containerd://one", 99, 99, learning={("apps", "chat"): told})
    return replace(put(snapshot, pod()), reports={POD: report})


def reconciled(snapshot: Snapshot, now: datetime = NOW) -> tuple[Snapshot, Plan]:
    plan = reconcile(snapshot, CHAT, now)
    return applied(snapshot, plan), plan


def record(snapshot: Snapshot) -> Json:
    return dict(snapshot.objects[CHAT]["status"].get("predictor") or {})


def ended(snapshot: Snapshot, message: Json | str, *, failed: bool = False, created: datetime = NOW) -> Snapshot:
    """What the Job's controller and the kubelet would have written."""
    job = snapshot.objects[JOB]
    uid = f"uid-of-{JOB.name}-{created}"
    job = job | {
        "metadata": job["metadata"] | {"creationTimestamp": created.strftime("%Y-%m-%dT%H:%M:%SZ"), "uid": uid},
        "status": {"conditions": [{"type": "Failed" if failed else "Complete", "status": "True"}]},
    }
    text = message if isinstance(message, str) else json.dumps(message)
    end = {"exitCode": int(failed), "reason": "Error" if failed else "Completed", "message": text}
    template = job["spec"]["template"]["metadata"]
    owner = {"kind": "Job", "name": JOB.name, "uid": uid, "controller": True}
    trainer = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"{JOB.name}-x", "namespace": "apps", "uid": "x", "ownerReferences": [owner], **template},
        "status": {"containerStatuses": [{"name": "train", "state": {"terminated": end}}]},
    }
    return put(snapshot, job, trainer)


TRAINED = {"version": VERSION, "kind": "linear", "samples": 140}


def test_a_pool_with_a_claim_brings_it_to_the_scheduler() -> None:
    spec = child(learning_world(), Kind.DEPLOYMENT)["spec"]["template"]["spec"]
    scheduler = spec["initContainers"][-1]
    assert {"name": "store", "persistentVolumeClaim": {"claimName": "models"}} in spec["volumes"]
    assert {"name": "store", "mountPath": "/store"} in scheduler["volumeMounts"]
    assert {"name": "JUSTITIA_STORE_URL", "value": "file:///store/uid-ServingPool-shared"} in scheduler["env"]
    assert {"name": "JUSTITIA_SAMPLES_FILE", "value": "/samples/samples.sqlite"} in scheduler["env"]
    assert all(mount["name"] not in {"store", "samples"} for mount in spec["containers"][0]["volumeMounts"])


def test_a_bucket_is_reached_with_the_keys_of_a_secret_that_may_be_missing() -> None:
    spec = child(learning_world(BUCKET), Kind.DEPLOYMENT)["spec"]["template"]["spec"]
    env = {v["name"]: v for v in spec["initContainers"][-1]["env"]}
    assert env["JUSTITIA_STORE_URL"]["value"] == "s3://models/justitia/uid-ServingPool-shared"
    assert env["AWS_ENDPOINT"]["value"] == "http://minio.storage:9000"
    assert env["AWS_REGION"]["value"] == "us-east-1"
    reference = {"name": "bucket-key", "key": "AWS_SECRET_ACCESS_KEY", "optional": True}
    assert env["AWS_SECRET_ACCESS_KEY"]["valueFrom"]["secretKeyRef"] == reference
    assert "store" not in {volume["name"] for volume in spec["volumes"]}


def test_an_image_with_predictors_is_mounted_beside_the_store() -> None:
    with_image = {**CLAIM, "image": "example.com/predictors@sha256:1"}
    spec = child(learning_world(with_image), Kind.DEPLOYMENT)["spec"]["template"]["spec"]
    scheduler = spec["initContainers"][-1]
    assert {"name": "artifacts", "image": {"reference": "example.com/predictors@sha256:1"}} in spec["volumes"]
    assert {"name": "artifacts", "mountPath": "/artifacts", "readOnly": True} in scheduler["volumeMounts"]
    assert {"name": "JUSTITIA_ARTIFACTS_FOLDER", "value": "/artifacts"} in scheduler["env"]
    assert "artifacts" not in {mount["name"] for mount in spec["containers"][0]["volumeMounts"]}
    without = child(learning_world(), Kind.DEPLOYMENT)["spec"]["template"]["spec"]
    assert "artifacts" not in {volume["name"] for volume in without["volumes"]}


def test_a_pool_that_learns_nothing_is_as_it_was() -> None:
    spec = child(settled(world(tenant(), key(), pool(), application())), Kind.DEPLOYMENT)["spec"]["template"]["spec"]
    assert not {"store", "samples"} & {volume["name"] for volume in spec["volumes"]}
    assert not any("STORE" in v["name"] or "SAMPLES" in v["name"] for v in spec["initContainers"][-1]["env"])


def test_the_configuration_names_the_application_by_what_no_other_ever_has() -> None:
    (entry,) = config(learning_world(text="Kept")).applications
    assert entry.learning is not None
    assert (entry.learning.name, entry.learning.keep_text, entry.learning.version) == (
        "uid-LLMApplication-chat",
        True,
        None,
    )


def test_what_is_somebodys_is_told_whatever_is_wrong_with_it() -> None:
    """So that a scheduler may erase the rest."""
    lost = application("lost", tenant="nobody", predictor={})
    snapshot = settled(world(tenant(), key(), pool(learning=CLAIM), application(), lost))
    assert config(snapshot).learned_from == ("uid-LLMApplication-chat", "uid-LLMApplication-lost")
    assert [each.name for each in config(snapshot).applications] == ["chat"]
    gone = settled(without(snapshot, Ref(Kind.LLM_APPLICATION, "apps", "lost")))
    assert config(gone).learned_from == ("uid-LLMApplication-chat",)


def test_a_predictor_needs_a_store() -> None:
    snapshot = settled(world(tenant(), key(), pool(), application(predictor={})))
    status, reason, message = condition(snapshot, Kind.LLM_APPLICATION, "chat", "PredictorReady")
    assert (status, reason) == ("False", "NoStore")
    assert "learning.store" in message
    assert config(snapshot).applications[0].learning is None


def test_without_a_predictor_there_is_no_condition() -> None:
    snapshot = settled(world(tenant(), key(), pool(learning=CLAIM), application()))
    assert "PredictorReady" not in {c["type"] for c in snapshot.objects[CHAT]["status"]["conditions"]}


def test_enough_samples_lead_to_a_job_and_fewer_do_not() -> None:
    _, plan = reconciled(reporting(learning_world(), samples=99))
    assert plan.applies == ()
    after, plan = reconciled(reporting(learning_world(), samples=100))
    (job,) = plan.applies
    assert ref_of(job) == JOB
    container = job["spec"]["template"]["spec"]["containers"][0]
    assert container["command"][-4:] == [
        "--application",
        "uid-LLMApplication-chat",
        "--report",
        "/dev/termination-log",
    ]
    assert "justitia.dev/pool" not in job["spec"]["template"]["metadata"]["labels"]
    assert job["metadata"]["ownerReferences"][0]["kind"] == "ServingPool"
    assert condition(after, Kind.LLM_APPLICATION, "chat", "PredictorReady")[1] == "Training"
    _, again = reconciled(after)
    assert not again, "a Job that runs is left alone"


def test_what_comes_of_the_job_becomes_the_candidate_and_is_told_to_the_pods() -> None:
    after, _ = reconciled(reporting(learning_world(), samples=140))
    after, plan = reconciled(ended(after, TRAINED))
    assert record(after)["candidate"] == VERSION
    assert [note.reason for note in plan.events] == ["Trained", "Comparing"]
    assert "PredictorReady" in {c["type"] for c in after.objects[CHAT]["status"]["conditions"]}
    entry = config(settled(without(after, POD))).applications[0].learning
    assert entry is not None
    assert (entry.version, entry.candidate) == (None, VERSION)
    assert not reconciled(after)[1], "an outcome counts once"


def test_a_candidate_that_errs_less_is_in_effect_in_the_configuration() -> None:
    after, _ = reconciled(reporting(learning_world(), samples=140))
    after, _ = reconciled(ended(after, TRAINED))
    sums = ErrorSums(runs=60, error=15.0, baseline=60.0, squared_difference=40.0)
    candidate = ModelStatus(version=VERSION, loaded=True, since_start=sums)
    after, plan = reconciled(reporting(after, samples=200, candidate=candidate))
    assert (record(after)["version"], record(after).get("candidate")) == (VERSION, None)
    assert [note.reason for note in plan.events] == ["Promoted", "Predicting"]
    entry = config(settled(without(after, POD))).applications[0].learning
    assert entry is not None
    assert entry.version == VERSION


def test_a_job_that_failed_is_told_and_made_anew_after_an_hour() -> None:
    after, _ = reconciled(reporting(learning_world(), samples=140))
    after, plan = reconciled(ended(after, {"error": "file:///store: no space left on device"}, failed=True))
    assert [(n.type, n.reason) for n in plan.events][:1] == [("Warning", "TrainingFailed")]
    message = condition(after, Kind.LLM_APPLICATION, "chat", "PredictorReady")[2]
    assert "no space left" in message
    assert "kubectl logs -n apps" in message
    assert not reconciled(after, NOW + timedelta(minutes=59))[1]
    after, plan = reconciled(after, NOW + timedelta(minutes=61))
    assert plan.deletes == (JOB,)
    _, plan = reconciled(after, NOW + timedelta(minutes=61))
    assert [ref_of(obj) for obj in plan.applies] == [JOB]


def test_a_job_that_the_api_server_refuses_is_told_and_not_asked_for_again_and_again() -> None:
    snapshot = reporting(learning_world(), samples=140)
    (job,) = reconciled(snapshot)[1].applies
    asked = job["metadata"]["annotations"]["justitia.dev/applied-hash"]
    for retry in (False, True):
        refused = replace(snapshot, rejections={JOB: Rejection(asked, "quota exceeded", retry=retry)})
        after, plan = reconciled(refused)
        assert bool(plan.applies) is retry
    after, _ = reconciled(replace(snapshot, rejections={JOB: Rejection(asked, "quota exceeded")}))
    assert "quota exceeded" in condition(after, Kind.LLM_APPLICATION, "chat", "PredictorReady")[2]


@pytest.mark.parametrize("message", ["", "no JSON", "[1]", '{"version": "x"}'])
def test_a_job_that_does_not_tell_what_came_of_it_is_a_failure(message: str) -> None:
    after, _ = reconciled(reporting(learning_world(), samples=140))
    after, _ = reconciled(ended(after, message))
    assert record(after)["lastDecision"]["reason"] == "TrainingFailed"


def test_a_job_whose_pod_was_not_seen_yet_has_no_outcome() -> None:
    after, _ = reconciled(reporting(learning_world(), samples=140))
    after = without(ended(after, TRAINED), Ref(Kind.POD, "apps", f"{JOB.name}-x"))
    assert "candidate" not in record(reconciled(after)[0])


def test_what_is_recorded_survives_a_tenant_that_is_away() -> None:
    after, _ = reconciled(reporting(learning_world(), samples=140))
    after, _ = reconciled(ended(after, TRAINED))
    gone, plan = reconciled(without(after, Ref(Kind.TENANT, "", "alice")))
    assert plan.statuses
    assert record(gone)["candidate"] == VERSION


def test_what_is_paused_is_not_trained() -> None:
    snapshot = reporting(learning_world(), samples=140)
    paused = snapshot.objects[CHAT] | {"spec": snapshot.objects[CHAT]["spec"] | {"paused": True}}
    assert reconciled(put(snapshot, paused))[1].applies == ()


def test_a_job_and_its_pod_concern_their_application_alone() -> None:
    after, _ = reconciled(reporting(learning_world(), samples=140))
    after = ended(after, TRAINED)
    assert CHAT in affected(after, JOB)
    assert CHAT in affected(after, Ref(Kind.POD, "apps", f"{JOB.name}-x"))


def test_a_pool_of_another_namespace_trains_where_its_store_is() -> None:
    elsewhere = application(namespace="team", predictor={})
    elsewhere["spec"]["poolRef"] = {"name": "shared", "namespace": "apps"}
    snapshot = settled(
        world(
            tenant(namespaces={"names": ["team"]}),
            key(),
            pool(learning=CLAIM, allowedNamespaces={"names": ["team"]}),
            namespace("team"),
            elsewhere,
        )
    )
    told = LearningStatus(namespace="team", name="chat", samples=500)
    report = Report("containerd://one", 99, 99, learning={("team", "chat"): told})
    snapshot = replace(put(snapshot, pod()), reports={POD: report})
    plan = reconcile(snapshot, Ref(Kind.LLM_APPLICATION, "team", "chat"), NOW)
    (job,) = plan.applies
    assert job["metadata"]["namespace"] == "apps"
    assert affected(put(snapshot, job), ref_of(job)) >= {Ref(Kind.LLM_APPLICATION, "team", "chat")}
