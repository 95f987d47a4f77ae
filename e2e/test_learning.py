"""A predictor that is asked for: from runs to samples, a training, a comparison, and a version in force, untouched."""

import itertools
import json

import openai

from justitia_e2e.example import APPLICATION, CHANGE_SECONDS, NAMESPACE, Record, User, complete, timed
from support.kubectl import Json, eventually

PREDICTOR = {"minimumSamples": 20, "rollout": {"minimumRuns": 10, "confidencePercent": 80}}
"""As few as there may be: the engine shares two cores with all else."""
LENGTHS = (4, 120)
"""Of answers, as clients bound them: what a run costs is known from its first request."""
LEARNED_SECONDS = 600.0


def told(user: User) -> set[str]:
    """Reasons of the Events about the application."""
    found = json.loads(user("-n", NAMESPACE, "get", "events", "-o", "json"))["items"]
    return {each["reason"] for each in found if each["involvedObject"]["name"] == APPLICATION}


def predictor(user: User) -> Json:
    status: Json = user.get("llmapplication", APPLICATION, NAMESPACE)["status"]
    return dict(status.get("predictor") or {})


def test_a_predictor_that_is_asked_for_comes_in_force_by_itself(
    user: User, client: openai.OpenAI, record_property: Record
) -> None:
    user.patch("llmapplication", APPLICATION, NAMESPACE, {"spec": {"predictor": PREDICTOR}})
    lengths = itertools.cycle(LENGTHS)

    def in_force() -> str | None:
        complete(client, next(lengths))
        version: str | None = predictor(user).get("version")
        return version

    with timed(record_property, "predictor asked for, until a version is in force"):
        version = eventually(in_force, LEARNED_SECONDS)
    condition = eventually(
        lambda: user.condition("llmapplication", APPLICATION, NAMESPACE, "PredictorReady"), CHANGE_SECONDS
    )
    assert condition == ("True", "Predicting")
    status = predictor(user)
    assert (status["version"], status["lastDecision"]["reason"]) == (version, "Promoted")
    assert {"Trained", "Promoted"} <= told(user)
    record_property("why it is in force", status["lastDecision"]["message"])
    user.patch("llmapplication", APPLICATION, NAMESPACE, {"spec": {"predictor": None}})
    eventually(lambda: not predictor(user), CHANGE_SECONDS)
