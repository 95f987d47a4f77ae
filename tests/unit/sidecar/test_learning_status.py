"""What a sidecar tells about its predictors, and which of them counts."""

import math
from collections.abc import Callable
from pathlib import Path

import pytest

from justitia_api.config import ApplicationConfig, LearningConfig, PoolConfig
from justitia_api.status import LearningStatus, ModelStatus
from justitia_predictor import artifact as artifact_module
from justitia_predictor.artifact import Artifact
from justitia_predictor.features import Features, FirstRequest
from justitia_predictor.store import Store, StoreError
from justitia_predictor.training import fitted
from justitia_sidecar.learning import flushing as module
from justitia_sidecar.learning.application_table import RECOUNT_SECONDS
from justitia_sidecar.learning.evidence import in_canary
from justitia_sidecar.learning.finished import FinishedRun
from justitia_sidecar.learning.samples import RETENTION
from justitia_sidecar.report.status import observe_status
from justitia_sidecar.service import Sidecar
from support.learning_room import NAME, WRITTEN, Room, learning_pool, predicted, request
from support.misbehaving_engine import MisbehavingEngine, Misbehaviour
from support.sidecar_client import Client, pool

SURVEY = Features.of(FirstRequest(b"survey the system", 17, 5, 2, 1, 1))
COST = 9
"""Of a run of one request, as the engine counts."""


def status(sidecar: Sidecar) -> LearningStatus:
    (found,) = observe_status(sidecar).learning
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
def trained(room: Room) -> tuple[str, str]:
    """Two versions in the store."""
    one, other = (room.store.put_artifact(fitted("linear", NAME, part, seed=0)) for part in (WRITTEN, WRITTEN[1:]))
    return one, other


async def in_force(sidecar: Sidecar, room: Room, config: PoolConfig) -> None:
    sidecar.put_config(config)
    await room.learner.loading.load()


async def test_of_applications_that_are_not_learned_from_nothing_is_told(sidecar: Sidecar) -> None:
    assert status(sidecar) == LearningStatus(namespace="ns", name="a")
    sidecar.put_config(pool(2))
    assert observe_status(sidecar).learning == ()


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


async def test_the_store_is_looked_at_after_it_got_something_and_each_hour(
    sidecar: Sidecar, room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[str] = []
    tidy = Store.tidy_samples

    def counted(self: Store, application: str, most: int, since: float) -> int:
        looks.append(application)
        return tidy(self, application, most, since)

    async def flushed_and_looked_at() -> int:
        before = len(looks)
        await room.flush()
        await room.learner.flushing.count_stored()
        return len(looks) - before

    monkeypatch.setattr(Store, "tidy_samples", counted)
    assert await flushed_and_looked_at() == 1
    assert await flushed_and_looked_at() == 0
    await one_run(sidecar, room)
    assert await flushed_and_looked_at() == 1
    sidecar.put_config(learning_pool(2, keep_text=True))
    assert await flushed_and_looked_at() == 0
    room.clock.now += RECOUNT_SECONDS
    assert await flushed_and_looked_at() == 1


async def test_who_looks_erases_what_is_too_old_or_too_much(
    sidecar: Sidecar, room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_STORED", 10)
    now = room.clock.time_of_day()
    room.store.put_samples(NAME, now - 20, "another", WRITTEN[:5])
    room.store.put_samples(NAME, now - 10, "another", WRITTEN[5:15])
    await room.learner.flushing.count_stored()
    assert status(sidecar).samples == 10
    assert room.store.samples(NAME, 100)[0] == WRITTEN[5:15]
    room.clock.now += RETENTION
    await room.learner.flushing.count_stored()
    assert status(sidecar).samples == 0
    assert room.store.samples(NAME, 100) == ([], 0)


async def test_what_the_store_took_without_an_answer_is_there_once(
    sidecar: Sidecar, room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = Store.put_samples

    def silent(self: Store, *arguments: object) -> None:
        put(self, *arguments)  # type: ignore[arg-type]
        raise StoreError("no answer")

    await one_run(sidecar, room, "r1")
    with monkeypatch.context() as patched:
        patched.setattr(Store, "put_samples", silent)
        await room.flush()
    await one_run(sidecar, room, "r2")
    await room.flush()
    await room.learner.flushing.count_stored()
    assert len(room.store.samples(NAME, 100)[0]) == 2
    assert status(sidecar).samples == 2


# Models.


async def test_a_model_is_loaded_or_it_is_said_why_not(
    sidecar: Sidecar, room: Room, trained: tuple[str, str], tmp_path: Path
) -> None:
    version, damaged = trained
    (tmp_path / "store" / NAME / "artifacts" / damaged).write_bytes(b"damaged")
    sidecar.put_config(learning_pool(2, version=version, candidate=damaged))
    assert version_of(sidecar) == ModelStatus(version=version, loaded=False)
    await room.learner.loading.load()
    assert version_of(sidecar) == ModelStatus(version=version, loaded=True)
    problem = f"the artifact {damaged[:12]} is damaged: its content has another digest"
    assert candidate_of(sidecar) == ModelStatus(version=damaged, loaded=False, problem=problem, unusable=True)
    sidecar.put_config(learning_pool(3, version=version))
    assert status(sidecar).candidate is None


async def test_a_model_that_is_not_in_the_store_is_loaded_when_it_comes(sidecar: Sidecar, room: Room) -> None:
    made = fitted("linear", NAME, WRITTEN, seed=0)
    version = artifact_module.digest(made.to_bytes())
    await in_force(sidecar, room, learning_pool(2, version=version))
    assert version_of(sidecar).problem == f"the artifact {version[:12]} is not in the store"
    room.store.put_artifact(made)
    await room.learner.loading.load()
    assert version_of(sidecar) == ModelStatus(version=version, loaded=True)


async def test_a_model_for_other_features_is_not_loaded(
    sidecar: Sidecar, room: Room, trained: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(artifact_module, "FEATURES_VERSION", 99)
    await in_force(sidecar, room, learning_pool(2, version=trained[0]))
    assert version_of(sidecar).problem == "the artifact is for features of version 1: train it anew"


async def test_a_store_that_is_away_is_asked_once_for_all_models(
    sidecar: Sidecar, room: Room, trained: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(self: Store, application: str, name: str) -> Artifact:
        raise StoreError("the store is away" + "!" * 1000)

    monkeypatch.setattr(Store, "artifact", away)
    await in_force(sidecar, room, learning_pool(2, version=trained[0], candidate=trained[1]))
    assert room.failures("load") == 1
    for model in (version_of(sidecar), candidate_of(sidecar)):
        assert model.problem is not None
        assert model.problem.startswith("the store is away!")
        assert len(model.problem) <= 300


async def test_who_the_store_never_answers_keeps_no_others_waiting(
    sidecar: Sidecar, room: Room, trained: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["a", "b", "c"]
    applications = [
        ApplicationConfig(
            namespace="ns", name=name, tenant="gold", learning=LearningConfig(name=name, version=trained[0])
        )
        for name in names
    ]
    sidecar.put_config(pool(2, applications=tuple(applications)))
    for number, name in enumerate(names):
        features = WRITTEN[number].features.packed
        room.samples.add([FinishedRun(name, room.clock.time_of_day(), False, 1.0, (1.0,), features, None)])
    asked: list[str] = []

    def never(call: Callable[..., object]) -> Callable[..., object]:
        def answer(self: Store, application: str, *arguments: object) -> object:
            asked.append(application)
            if application != "c":
                raise StoreError("no answer in time")
            return call(self, application, *arguments)

        return answer

    for method in ("artifact", "put_samples", "tidy_samples"):
        monkeypatch.setattr(Store, method, never(getattr(Store, method)))
    for work in (room.learner.loading.load, room.flush, room.learner.flushing.count_stored):
        asked.clear()
        for _ in names:
            await work()
        assert "c" in asked
        assert len(asked) <= 2 * len(names)


# Errors.


async def test_errors_are_summed_up_over_runs_that_both_were_made_of(
    sidecar: Sidecar, room: Room, trained: tuple[str, str]
) -> None:
    version, candidate = trained
    await in_force(sidecar, room, learning_pool(2, version=version, candidate=candidate))
    await one_run(sidecar, room, "first")
    # Of the first run there was no mean yet, but a version's prediction beside the candidate's.
    assert version_of(sidecar).since_start.runs == 0
    assert candidate_of(sidecar).since_start.runs == 1
    await one_run(sidecar, room, "second")
    error = {v: abs(math.log(room.store.artifact(NAME, v).predict(SURVEY) / COST)) for v in trained}
    sums = version_of(sidecar).since_start
    assert sums.runs == 1
    assert sums.error == pytest.approx(error[version])
    assert sums.baseline == pytest.approx(0)
    assert version_of(sidecar).recent == sums
    assert candidate_of(sidecar).since_start.runs == 2
    assert candidate_of(sidecar).since_start.baseline == pytest.approx(2 * error[version])
    assert candidate_of(sidecar).since_start.error == pytest.approx(2 * error[candidate])


async def test_sums_begin_anew_and_runs_from_before_do_not_count(
    sidecar: Sidecar, room: Room, trained: tuple[str, str]
) -> None:
    await in_force(sidecar, room, learning_pool(2, version=trained[0]))
    for name in ("r1", "r2"):
        await one_run(sidecar, room, name)
    assert version_of(sidecar).since_start.runs == 1
    await Client(sidecar, **request("open", prompt="survey the system")).run()
    await in_force(sidecar, room, learning_pool(3, version=trained[1]))
    await Client(sidecar, **request("open", ends=True)).run()
    await room.settle()
    assert version_of(sidecar).since_start.runs == 0
    await one_run(sidecar, room, "r3")
    assert version_of(sidecar).since_start.runs == 1


async def test_aborted_runs_do_not_count(
    sidecar: Sidecar, room: Room, engine: MisbehavingEngine, trained: tuple[str, str]
) -> None:
    await in_force(sidecar, room, learning_pool(2, version=trained[0]))
    await one_run(sidecar, room, "r1")
    engine.behaviour = Misbehaviour.DIES_MID_STREAM
    await one_run(sidecar, room, "r2")
    assert version_of(sidecar).since_start.runs == 0


async def test_a_prediction_that_comes_late_is_compared_all_the_same(
    sidecar: Sidecar, room: Room, trained: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    await in_force(sidecar, room, learning_pool(2, version=trained[0]))
    await one_run(sidecar, room, "r1")
    # No time at all: the request goes on before the thread has begun.
    room.learner.predicting.deadline = 0
    await Client(sidecar, **request("r2", prompt="survey the system", ends=True)).run()
    await room.learner.close()
    assert version_of(sidecar).since_start.runs == 1


async def test_a_model_that_fails_takes_nothing_from_the_other(
    sidecar: Sidecar, room: Room, trained: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    version, candidate = trained
    await in_force(sidecar, room, learning_pool(2, version=version, candidate=candidate))
    (failing,) = room.learner.models.loaded_of(NAME, [candidate]).values()

    def fail(features: Features) -> float:
        raise FloatingPointError

    monkeypatch.setattr(failing, "predict", fail)
    found = await predicted(room.learner, version=version, candidate=candidate)
    assert (found.by_version.keys(), found.features is not None) == ({version}, True)
    assert room.failures("predict") == 1


# Canaries.


async def test_a_share_of_runs_is_told_the_candidates_prediction(
    sidecar: Sidecar, room: Room, trained: tuple[str, str]
) -> None:
    version, candidate = trained
    config = learning_pool(2, version=version, candidate=candidate, canary_percent=50)
    await in_force(sidecar, room, config)
    learning = config.applications[0].learning
    assert learning is not None
    chosen = {name: in_canary(learning, name) for name in map(str, range(8))}
    assert set(chosen.values()) == {True, False}
    for name in chosen:
        await Client(sidecar, **request(name, prompt="survey the system")).run()
    runs = sidecar.configured().admission.policy.runs.values()
    predictions = {v: room.store.artifact(NAME, v).predict(SURVEY) for v in trained}
    wanted = [predictions[candidate if canary else version] for canary in chosen.values()]
    assert [opened.run.predicted_cost for opened in runs] == wanted


async def test_where_the_candidate_does_not_predict_the_version_counts_in_canaries_too(
    sidecar: Sidecar, room: Room, trained: tuple[str, str]
) -> None:
    fields = {"version": trained[0], "candidate": "0" * 64, "canary_percent": 100}
    await in_force(sidecar, room, learning_pool(2, **fields))
    found = await predicted(room.learner, **fields)
    assert found.canary
    assert found.predicted_cost == found.by_version[trained[0]]


async def test_runs_without_an_id_are_told_it_too(sidecar: Sidecar, room: Room, trained: tuple[str, str]) -> None:
    told: list[bool] = []
    predict = room.learner.predicting.predict

    async def seen(learning: LearningConfig, first: FirstRequest, run: str) -> object:
        found = await predict(learning, first, run)
        assert found is not None
        told.append(found.canary)
        return found

    room.learner.predicting.predict = seen  # type: ignore[method-assign, assignment]
    await in_force(sidecar, room, learning_pool(2, candidate=trained[1], canary_percent=50))
    for _ in range(40):
        await Client(sidecar).run()
    assert set(told) == {True, False}


# What is nobody's.


async def test_what_is_left_of_an_application_that_is_gone_is_erased_at_the_second_look(
    sidecar: Sidecar, room: Room
) -> None:
    for name in ("gone", "refused", NAME):
        room.store.put_samples(name, room.clock.time_of_day(), "another", WRITTEN[:3])
    config = learning_pool(2).model_copy(update={"learned_from": (NAME, "refused")})
    sidecar.put_config(config)
    await room.learner.erasing.erase_orphans()
    assert room.store.applications() == {"gone", "refused", NAME}
    await room.learner.erasing.erase_orphans()
    assert room.store.applications() == {"refused", NAME}


async def test_what_was_nobodys_only_to_a_configuration_of_yesterday_stays(sidecar: Sidecar, room: Room) -> None:
    room.store.put_samples("new", room.clock.time_of_day(), "another", WRITTEN[:3])
    await room.learner.erasing.erase_orphans()
    sidecar.put_config(learning_pool(2).model_copy(update={"learned_from": (NAME, "new")}))
    await room.learner.erasing.erase_orphans()
    assert "new" in room.store.applications()
