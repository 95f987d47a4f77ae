"""One of each resource, with all that pods have a say in: a predictor that is being trained, objectives, a gamma."""

import json
from dataclasses import replace
from functools import lru_cache

from justitia_api.status import ErrorSums, LearningStatus, ModelStatus
from justitia_operator.decide.reconcile import reconcile
from justitia_operator.runtime.control import read_report
from justitia_operator.world.objects import Json, Kind, Push, Ref
from justitia_operator.world.snapshot import Snapshot
from support.objectives import FIRST_TOKEN, boosted, pool_status, told
from support.resources import NOW, application, applied, key, pod, pool, put, settled, tenant, world

CHAT = Ref(Kind.LLM_APPLICATION, "apps", "chat")
POD = Ref(Kind.POD, "apps", "justitia-shared-1")
JOB = Ref(Kind.JOB, "apps", "justitia-train-uid-LLMApplication-chat")
VERSION = "d" * 64


def report() -> Json:
    """What a pod says that learned and counted."""
    sums = ErrorSums(runs=40, error=10.0, baseline=20.0, squared_difference=5.0)
    model = ModelStatus(version=VERSION, loaded=True, since_start=sums, recent=sums)
    learned = LearningStatus(namespace="apps", name="chat", samples=200, version=model, candidate=model)
    status = pool_status((told(FIRST_TOKEN, [(0.0, 0.5), (0.1, 2.0)]),), generation=1, boost=boosted())
    found: Json = status.model_copy(update={"learning": (learned,)}).model_dump(by_alias=True, mode="json")
    condition = {"type": "PolicyInEffect", "status": "False", "reason": "PolicyFailed", "message": "it raised"}
    stamp = {"observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z"}
    return found | {"conditions": [condition | stamp]}


def heard(snapshot: Snapshot, told_by_pod: bytes) -> Snapshot:
    """The pod has said this when it was asked."""
    push = Push(POD, "containerd://one", "10.0.0.7", "uid", 1, b"")
    return replace(snapshot, reports={POD: read_report(push, told_by_pod)})


@lru_cache
def served() -> Snapshot:
    """One of each, with all that pods can have a say in: a predictor that is trained, objectives, a gamma."""
    scheduling = {"policy": "UniBoost", "enforcement": "Engine", "boost": {"mode": "SLO"}}
    pools = pool(learning={"store": {"claimName": "models"}}, scheduling=scheduling)
    snapshot = settled(world(tenant(), key(), pools, application(predictor={}, slo=[FIRST_TOKEN])))
    learning = heard(put(snapshot, pod()), json.dumps(report()).encode())
    plan = reconcile(learning, CHAT, NOW)
    return put(applied(snapshot, plan), pod())


def trained(snapshot: Snapshot, message: str) -> Snapshot:
    """The training's Job has ended, with this termination message of its pod."""
    job = snapshot.objects[JOB]
    metadata = job["metadata"] | {"creationTimestamp": "2026-01-02T03:04:05Z", "uid": "job"}
    job = job | {"metadata": metadata, "status": {"conditions": [{"type": "Complete", "status": "True"}]}}
    template = job["spec"]["template"]["metadata"]
    owner = {"kind": "Job", "name": JOB.name, "uid": "job", "controller": True}
    end = {"exitCode": 0, "reason": "Completed", "message": message}
    trainer = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "trainer", "namespace": "apps", "uid": "x", "ownerReferences": [owner], **template},
        "status": {"containerStatuses": [{"name": "train", "state": {"terminated": end}}]},
    }
    return put(snapshot, job, trainer)
