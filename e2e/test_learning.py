"""A predictor that is asked for: from runs to samples, a training, a canary and a version in effect, and back when runs
are no longer as they were, all by itself.
"""

import itertools
import json
import subprocess
from pathlib import Path

import openai
import pytest

from justitia_e2e.example import (
    APPLICATION,
    CHANGE_SECONDS,
    ENGINE_SECONDS,
    NAMESPACE,
    POOL,
    Record,
    User,
    answer_of,
    command_line,
    complete,
    pods,
    serves,
    timed,
)
from justitia_e2e.images import Image
from justitia_e2e.importing import import_images
from justitia_e2e.install import MODEL
from justitia_e2e.machine import State
from justitia_e2e.oci import image_of_files
from support.kubectl import Json, eventually

CANARY = {"strategy": "Canary", "percent": 50}
PREDICTOR = {"minimumSamples": 20, "rollout": CANARY | {"minimumRuns": 10, "confidencePercent": 80}}
"""As few samples and runs as there may be: the engine shares two cores with everything else."""
LENGTHS = (4, 120)
"""Lengths to which clients bound answers, so that a run's first request shows what the run costs."""
LEARNED_SECONDS = 600.0
MODEL_IMAGE, PREDICTORS_IMAGE = "docker.io/library/tiny-model:e2e", "docker.io/library/predictors:e2e"


def events(user: User) -> set[str]:
    """The reasons of Events about the application."""
    found = json.loads(user("-n", NAMESPACE, "get", "events", "-o", "json"))["items"]
    return {each["reason"] for each in found if each["involvedObject"]["name"] == APPLICATION}


def predictor(user: User) -> Json:
    status: Json = user.get("llmapplication", APPLICATION, NAMESPACE)["status"]
    return dict(status.get("predictor") or {})


def test_a_predictor_that_is_asked_for_takes_effect_by_itself(
    user: User, client: openai.OpenAI, record_property: Record
) -> None:
    user.patch("llmapplication", APPLICATION, NAMESPACE, {"spec": {"predictor": PREDICTOR}})
    lengths = itertools.cycle(LENGTHS)

    def in_effect() -> str | None:
        complete(client, next(lengths))
        version: str | None = predictor(user).get("version")
        return version

    with timed(record_property, "predictor asked for, until a version is in effect"):
        version = eventually(in_effect, LEARNED_SECONDS)
    condition = eventually(
        lambda: user.condition("llmapplication", APPLICATION, NAMESPACE, "PredictorReady"), CHANGE_SECONDS
    )
    assert condition == ("True", "Predicting")
    status = predictor(user)
    assert (status["version"], status["lastDecision"]["reason"]) == (version, "Promoted")
    assert {"Trained", "Promoted"} <= events(user)
    record_property("why it is in effect", status["lastDecision"]["message"])


def test_a_version_whose_runs_have_changed_is_rolled_back_by_itself(
    user: User, client: openai.OpenAI, record_property: Record
) -> None:
    """Runs that begin as the small ones did cost as much as the large ones from now on."""
    version, (short, long) = predictor(user)["version"], LENGTHS
    runs = (f"changed-{number}" for number in itertools.count())

    def rolled_back() -> bool:
        run = next(runs)
        complete(client, short, run)
        complete(client, long, run, last=True)
        return "RolledBack" in events(user)

    with timed(record_property, "runs changed, until the version is rolled back"):
        eventually(rolled_back, LEARNED_SECONDS)
    record_property("runs until then", next(runs).rpartition("-")[2])
    assert predictor(user).get("version") != version
    user.patch("llmapplication", APPLICATION, NAMESPACE, {"spec": {"predictor": {"version": version}}})
    eventually(lambda: predictor(user).get("version") == version, CHANGE_SECONDS)


@pytest.mark.node
def test_a_model_and_a_predictor_may_come_with_images(
    user: User, client: openai.OpenAI, tmp_path: Path, record_property: Record
) -> None:
    """The predictor is the version in effect. Once it is exported, it is erased from the store."""
    version = predictor(user)["version"]
    exported = tmp_path / version
    command, environment = command_line(user, tmp_path, "predictor", "export", APPLICATION, f"--version={version}")
    with exported.open("wb") as file:
        subprocess.run(command, stdout=file, env=environment, check=True, timeout=60)
    command, environment = command_line(user, tmp_path, "predictor", "erase", APPLICATION)
    assert b"objects" in subprocess.run(command, capture_output=True, env=environment, check=True, timeout=60).stdout
    state = State()
    model = {file.name: file for file in (state.models / MODEL).iterdir()}
    for name, files in ((MODEL_IMAGE, model), (PREDICTORS_IMAGE, {version: exported})):
        folder = tmp_path / name.rpartition("/")[2]
        image_of_files(folder, name, files)
        import_images(state, [Image(name, folder / "layout")], print)

    user.patch("llmapplication", APPLICATION, NAMESPACE, {"spec": {"predictor": {"version": version}}})
    with timed(record_property, "model and predictor taken from images, until the pool is ready"):
        images = {"model": {"uri": f"oci://{MODEL_IMAGE}"}, "learning": {"image": PREDICTORS_IMAGE}}
        user.patch("servingpool", POOL, NAMESPACE, {"spec": images})
        eventually(lambda: mounted(user) == [{MODEL_IMAGE, PREDICTORS_IMAGE}] and serves(user), ENGINE_SECONDS)
    assert complete(client) == 8
    eventually(lambda: loaded(user, tmp_path) == {version: True}, CHANGE_SECONDS)
    user.patch("llmapplication", APPLICATION, NAMESPACE, {"spec": {"predictor": None}})
    eventually(lambda: not predictor(user), CHANGE_SECONDS)


def loaded(user: User, folder: Path) -> dict[str, bool]:
    """Whether the pod has loaded the version in effect, for each application that has one."""
    learned = answer_of(user, folder, "top")["learning"]
    return {each["version"]["version"]: each["version"]["loaded"] for each in learned if each["version"]}


def mounted(user: User) -> list[set[str]]:
    """The images that each of the pool's pods has as volumes."""
    return [{v["image"]["reference"] for v in pod["spec"]["volumes"] if "image" in v} for pod in pods(user)]
