"""What a sidecar reports of its predictors, and which of them counts."""

import math
from pathlib import Path

import pytest

from justitia_api.config import PoolConfig
from justitia_api.status import LearningStatus, ModelStatus
from justitia_predictor.features import Features, FirstRequest
from justitia_sidecar.learning.evidence import in_canary
from justitia_sidecar.service import Sidecar
from support.learning_room import NAME, WRITTEN, Room, learning_pool, request, trained
from support.misbehaving_engine import MisbehavingEngine, Misbehaviour
from support.sidecar_client import Client, pool

SURVEY = Features.of(FirstRequest(b"survey the system", 17, 5, 2, 1, 1))
COST = 9
"""What a run of one request costs, as the engine counts."""


def status(sidecar: Sidecar) -> LearningStatus:
    (found,) = sidecar.report.status().learning
    assert (found.namespace, found.name) == ("ns", "a")
    return found


def version_of(sidecar: Sidecar) -> ModelStatus:
    found = status(sidecar).version
    assert found is not None
    return found


def candidate_of(sidecar: Sidecar) -> ModelStatus:
    found = status(sidecar).candidate
    assert found is not None
    return found


async def one_run(sidecar: Sidecar, room: Room, name: str = "r") -> None:
    await Client(sidecar, **request(name, prompt="survey the system", ends=True)).run()
    await room.settle()


@pytest.fixture
def versions(room: Room) -> tuple[str, str]:
    """Two versions in the store."""
    one, other = (room.store.put_artifact(trained(part)) for part in (WRITTEN, WRITTEN[1:]))
    return one, other


async def in_effect(sidecar: Sidecar, room: Room, config: PoolConfig) -> None:
    sidecar.parts.current.put_config(config)
    await room.learner.loading.load()


async def test_applications_that_are_not_learned_from_are_not_reported(sidecar: Sidecar) -> None:
    assert status(sidecar) == LearningStatus(namespace="ns", name="a")
    sidecar.parts.current.put_config(pool(2))
    assert sidecar.report.status().learning == ()


# Samples.


async def test_samples_are_counted_in_the_store_those_of_other_pods_too(sidecar: Sidecar, room: Room) -> None:
    room.store.put_samples(NAME, room.clock.time_of_day(), "another", WRITTEN[:7])
    assert status(sidecar).samples is None
    await room.learner.flushing.count_stored()
    assert status(sidecar).samples == 7
    await one_run(sidecar, room)
    await room.flush()
    await room.learner.flushing.count_stored()
    assert status(sidecar).samples == 8


# Models.


async def test_a_model_is_loaded_or_it_is_said_why_not(
    sidecar: Sidecar, room: Room, versions: tuple[str, str], tmp_path: Path
) -> None:
    version, damaged = versions
    (tmp_path / "store" / NAME / "artifacts" / damaged).write_bytes(b"damaged")
    sidecar.parts.current.put_config(learning_pool(2, version=version, candidate=damaged))
    assert version_of(sidecar) == ModelStatus(version=version, loaded=False)
    await room.learner.loading.load()
    assert version_of(sidecar) == ModelStatus(version=version, loaded=True)
    problem = f"the artifact {damaged[:12]} is damaged: its content has another digest"
    assert candidate_of(sidecar) == ModelStatus(version=damaged, loaded=False, problem=problem, unusable=True)
    sidecar.parts.current.put_config(learning_pool(3, version=version))
    assert status(sidecar).candidate is None


# Errors.


async def test_errors_are_summed_up_over_runs_that_both_were_made_of(
    sidecar: Sidecar, room: Room, versions: tuple[str, str]
) -> None:
    version, candidate = versions
    await in_effect(sidecar, room, learning_pool(2, version=version, candidate=candidate))
    await one_run(sidecar, room, "first")
    # Before the first run was over there was no mean, but a version's prediction beside the candidate's.
    assert version_of(sidecar).since_start.runs == 0
    assert candidate_of(sidecar).since_start.runs == 1
    await one_run(sidecar, room, "second")
    error = {v: abs(math.log(room.store.artifact(NAME, v).predict(SURVEY) / COST)) for v in versions}
    sums = version_of(sidecar).since_start
    assert sums.runs == 1
    assert sums.error == pytest.approx(error[version])
    assert sums.baseline == pytest.approx(0)
    assert version_of(sidecar).recent == sums
    assert candidate_of(sidecar).since_start.runs == 2
    assert candidate_of(sidecar).since_start.baseline == pytest.approx(2 * error[version])
    assert candidate_of(sidecar).since_start.error == pytest.approx(2 * error[candidate])


async def test_sums_begin_anew_and_runs_from_before_do_not_count(
    sidecar: Sidecar, room: Room, versions: tuple[str, str]
) -> None:
    await in_effect(sidecar, room, learning_pool(2, version=versions[0]))
    for name in ("r1", "r2"):
        await one_run(sidecar, room, name)
    assert version_of(sidecar).since_start.runs == 1
    await Client(sidecar, **request("open", prompt="survey the system")).run()
    await in_effect(sidecar, room, learning_pool(3, version=versions[1]))
    await Client(sidecar, **request("open", ends=True)).run()
    await room.settle()
    assert version_of(sidecar).since_start.runs == 0
    await one_run(sidecar, room, "r3")
    assert version_of(sidecar).since_start.runs == 1


async def test_aborted_runs_do_not_count(
    sidecar: Sidecar, room: Room, engine: MisbehavingEngine, versions: tuple[str, str]
) -> None:
    await in_effect(sidecar, room, learning_pool(2, version=versions[0]))
    await one_run(sidecar, room, "r1")
    engine.behaviour = Misbehaviour.DIES_MID_STREAM
    await one_run(sidecar, room, "r2")
    assert version_of(sidecar).since_start.runs == 0


async def test_a_prediction_that_comes_late_is_compared_all_the_same(
    sidecar: Sidecar, room: Room, versions: tuple[str, str]
) -> None:
    await in_effect(sidecar, room, learning_pool(2, version=versions[0]))
    await one_run(sidecar, room, "r1")
    # No time at all: the request goes on before the thread has begun.
    room.learner.predicting.deadline = 0
    await Client(sidecar, **request("r2", prompt="survey the system", ends=True)).run()
    await room.learner.close()
    assert version_of(sidecar).since_start.runs == 1


# Canaries.


async def test_the_candidates_prediction_counts_for_a_share_of_runs(
    sidecar: Sidecar, room: Room, versions: tuple[str, str]
) -> None:
    version, candidate = versions
    config = learning_pool(2, version=version, candidate=candidate, canary_percent=50)
    await in_effect(sidecar, room, config)
    learning = config.applications[0].learning
    assert learning is not None
    chosen = {name: in_canary(learning, name) for name in map(str, range(8))}
    assert set(chosen.values()) == {True, False}
    for name in chosen:
        await Client(sidecar, **request(name, prompt="survey the system")).run()
    runs = sidecar.parts.current.configured().admission.books.runs.open
    predictions = {v: room.store.artifact(NAME, v).predict(SURVEY) for v in versions}
    wanted = [predictions[candidate if canary else version] for canary in chosen.values()]
    assert [opened.predicted_cost for opened in runs] == wanted


async def test_runs_without_an_id_are_in_the_canary_too(
    sidecar: Sidecar, room: Room, versions: tuple[str, str]
) -> None:
    await in_effect(sidecar, room, learning_pool(2, candidate=versions[1], canary_percent=50))
    for _ in range(40):
        await Client(sidecar).run()
    assert {seen.canary for _, seen in room.learner.lessons.settled(math.inf)} == {True, False}
