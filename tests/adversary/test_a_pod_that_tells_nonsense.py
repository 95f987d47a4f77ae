"""Whoever may make pods in a namespace can have one say anything, in its report or in its last words. The operator
decides about every resource all the same, and writes nothing that the resources' definitions refuse.
"""

import json
from typing import Any

import pytest

from justitia_api.application import LLMApplicationStatus
from justitia_api.pool import ServingPoolStatus
from justitia_operator.decide.reconcile import reconcile
from justitia_operator.world.objects import OWN_KINDS, Json, Kind
from justitia_operator.world.snapshot import Snapshot
from support.resources import NOW, applied, condition, put
from support.served_world import CHAT, VERSION, heard, report, served, trained

TRAINED = {"version": VERSION, "kind": "linear", "samples": 140}
FORGED = {
    "a version that is none": json.dumps(TRAINED | {"version": "x" * 1000}),
    "more samples than a number holds": json.dumps(TRAINED | {"samples": 10**30}),
    "fewer samples than none": json.dumps(TRAINED | {"samples": -1}),
    "samples without end": json.dumps(TRAINED | {"samples": float("inf")}),
    "an object where a word belongs": json.dumps({"version": {}, "kind": [], "samples": "many"}),
    "brackets without end": "[" * 4096,
    "half a character": json.dumps(TRAINED | {"kind": "\ud800"}),
    "nothing": "",
}


def carried_out(snapshot: Snapshot) -> Snapshot:
    """After one plan for each resource. Fails where the API server would refuse a status."""
    for ref in [ref for ref in snapshot.objects if ref.kind in OWN_KINDS]:
        plan = reconcile(snapshot, ref, NOW)
        for patch in plan.statuses:
            if patch.ref.kind is Kind.LLM_APPLICATION:
                LLMApplicationStatus.model_validate_json(json.dumps(patch.status))
            elif patch.ref.kind is Kind.SERVING_POOL:
                ServingPoolStatus.model_validate_json(json.dumps(patch.status))
        snapshot = applied(snapshot, plan)
    return snapshot


@pytest.mark.parametrize("message", FORGED.values(), ids=FORGED)
def test_a_forged_termination_message_is_a_training_that_failed(message: str) -> None:
    after = carried_out(trained(served(), message))
    assert condition(after, Kind.LLM_APPLICATION, "chat", "PredictorReady")[1] == "TrainingFailed"


def saying(**changes: Any) -> Snapshot:
    return carried_out(heard(served(), json.dumps(report() | changes).encode()))


def test_a_reason_of_another_release_is_told_as_it_is() -> None:
    (known,) = report()["conditions"]
    after = saying(conditions=[known | {"reason": "EngineOnFire", "message": "it burns"}])
    status, reason, message = condition(after, Kind.SERVING_POOL, "shared", "PolicyInEffect")
    assert (status, reason) == ("False", "Other")
    assert "EngineOnFire: it burns" in message


def learning(**sums: float) -> list[Json]:
    (told,) = report()["learning"]
    candidate = {"version": VERSION, "loaded": True, "sinceStart": sums, "recent": sums}
    return [told | {"version": candidate, "candidate": candidate}]


@pytest.mark.parametrize("error", [1e6, 1e15, 1e308, -1.0])
def test_sums_of_errors_that_no_run_has(error: float) -> None:
    predicted = served().objects[CHAT]["status"] | {"predictor": {"version": VERSION, "samples": 100}}
    world = put(served(), served().objects[CHAT] | {"status": predicted})
    told = learning(runs=1, error=error, baseline=0.0, squaredDifference=0.0)
    after = carried_out(heard(world, json.dumps(report() | {"learning": told}).encode()))
    assert condition(after, Kind.LLM_APPLICATION, "chat", "PredictorReady")[:2] == ("True", "Predicting")
    assert 0 <= after.objects[CHAT]["status"]["predictor"].get("versionErrorPercent", 0) < 2**31
