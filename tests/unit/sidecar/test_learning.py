"""Runs become samples and are predicted, and nothing that fails there is noticed by requests."""

import math
import threading

import pytest

from justitia_predictor.artifact import Artifact
from justitia_predictor.features import Features, FirstRequest
from justitia_sidecar.learning.prediction import MOST_FEATURE_BYTES
from justitia_sidecar.limits.held import HeldKind, Holding
from justitia_sidecar.service import Sidecar
from justitia_vocabulary.units import TenantId
from support.failing_model import FailingModel
from support.learning_room import FIRST, NAME, WRITTEN, Room, learning_pool, predicted, request, trained
from support.misbehaving_engine import MisbehavingEngine, Misbehaviour
from support.sidecar_client import Client, pool

SURVEY = Features.of(FirstRequest(b"survey the system", 17, 5, 2, 1, 1))


async def in_effect(sidecar: Sidecar, room: Room, version: str, candidate: str | None = None) -> None:
    """These models, loaded."""
    sidecar.parts.current.put_config(learning_pool(2, version=version, candidate=candidate))
    await room.learner.loading.load()


# Samples.


async def test_a_run_becomes_a_sample_of_its_first_request_and_all_its_cost(sidecar: Sidecar, room: Room) -> None:
    await Client(sidecar, **request("r", prompt="survey the system")).run()
    await Client(sidecar, **request("r", prompt="something else", ends=True)).run()
    assert room.samples.counts() == {}
    await room.settle()
    ((_, sample),) = room.samples.unflushed(NAME, 10)
    assert sample.features == SURVEY
    # The engine counts 3 prompt tokens and 2 of output: 3 + 1 and 3 + 2 of KV, twice.
    assert sample.cost == 2 * (4 + 5)
    assert sample.stages == (9, 9)
    assert sample.finished == pytest.approx(1.8e9, abs=200)
    assert sample.text is None


async def test_text_is_kept_where_the_application_asks_for_it(sidecar: Sidecar, room: Room) -> None:
    sidecar.parts.current.put_config(learning_pool(2, keep_text=True))
    await Client(sidecar, **request("r", prompt="survey the system", ends=True)).run()
    await room.settle()
    ((_, sample),) = room.samples.unflushed(NAME, 10)
    assert sample.text == b"survey the system"


async def test_aborted_runs_are_marked(sidecar: Sidecar, engine: MisbehavingEngine, room: Room) -> None:
    engine.behaviour = Misbehaviour.DIES_MID_STREAM
    await Client(sidecar, **request("r", ends=True)).run()
    await room.settle()
    assert room.samples.counts() == {NAME: (1, 1)}


async def test_an_application_that_is_not_to_be_learned_from_leaves_nothing(sidecar: Sidecar, room: Room) -> None:
    sidecar.parts.current.put_config(pool(2))
    await Client(sidecar, **request("r", ends=True)).run()
    await room.settle()
    assert room.samples.counts() == {}


async def test_samples_of_an_application_that_is_gone_go(sidecar: Sidecar, room: Room) -> None:
    await Client(sidecar, **request("r", ends=True)).run()
    await room.settle()
    sidecar.parts.current.put_config(pool(2))
    await room.flush()
    assert room.samples.counts() == {}


async def test_a_pod_that_ends_keeps_and_brings_what_it_has(sidecar: Sidecar, room: Room) -> None:
    await Client(sidecar, **request("r", ends=True)).run()
    await room.learner.close()
    assert len(room.store.samples(NAME, 100)[0]) == 1


@pytest.mark.parametrize("days", [-400, 400])
async def test_a_clock_that_jumps_costs_samples_at_most(sidecar: Sidecar, room: Room, days: int) -> None:
    await Client(sidecar, **request("before", ends=True)).run()
    await room.settle()
    await room.flush()
    room.clock.set_by = days * 86_400.0
    after = await Client(sidecar, **request("after", ends=True)).run()
    await room.settle()
    await room.flush()
    await room.learner.flushing.count_stored()
    assert after.status == 200
    kept, unreadable = room.store.samples(NAME, 100)
    assert (len(kept), unreadable) == (2 if days < 0 else 1, 0)
    assert all(room.failures(attempt) == 0 for attempt in ("write", "store", "load", "predict"))


async def test_a_disk_that_takes_nothing_costs_samples_and_nothing_else(sidecar: Sidecar, room: Room) -> None:
    room.samples.close()
    client = await Client(sidecar, **request("r", ends=True)).run()
    assert client.status == 200
    await room.settle()
    assert room.failures("write") == 1


# Predictions.


async def test_the_version_in_effect_predicts_and_the_candidate_beside_it(sidecar: Sidecar, room: Room) -> None:
    version, candidate = (room.store.put_artifact(trained(part)) for part in (WRITTEN, WRITTEN[1:]))
    assert (await predicted(room.learner, version=version)).predicted_cost is None
    await in_effect(sidecar, room, version, candidate)
    found = await predicted(room.learner, version=version, candidate=candidate)
    wanted = {v: room.store.artifact(NAME, v).predict(Features.of(FIRST)) for v in (version, candidate)}
    assert (found.by_version, found.predicted_cost) == (wanted, wanted[version])
    assert (await predicted(room.learner)).by_version == {}


async def test_the_policy_is_given_the_prediction(sidecar: Sidecar, room: Room) -> None:
    version = room.store.put_artifact(trained())
    await in_effect(sidecar, room, version)
    await Client(sidecar, **request("r", prompt="survey the system")).run()
    (opened,) = sidecar.parts.current.configured().admission.books.runs.open
    assert opened.predicted_cost == pytest.approx(room.store.artifact(NAME, version).predict(SURVEY))


async def test_how_far_each_model_was_off_is_measured(sidecar: Sidecar, room: Room) -> None:
    version, candidate = (room.store.put_artifact(trained(part)) for part in (WRITTEN, WRITTEN[1:]))
    await in_effect(sidecar, room, version, candidate)
    await Client(sidecar, **request("r", prompt="survey the system", ends=True)).run()
    await room.settle()
    for role, of_role in (("version", version), ("candidate", candidate)):
        labels = {"tenant": "gold", "application": "ns/a", "model": role}
        error = room.counted("justitia_prediction_error_sum", **labels)
        assert error == pytest.approx(abs(math.log(room.store.artifact(NAME, of_role).predict(SURVEY) / 9)))


async def test_a_model_that_is_slow_is_not_waited_for(
    sidecar: Sidecar, room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()
    room.learner.predicting.deadline = 0
    monkeypatch.setattr(Artifact, "predict", lambda self, features: 5.0 if go_on.wait(600) else 0.0)
    await in_effect(sidecar, room, room.store.put_artifact(trained()))
    client = await Client(sidecar, **request("r", ends=True)).run()
    assert client.status == 200
    assert not go_on.is_set()
    go_on.set()
    await room.learner.close()
    assert room.samples.counts() == {NAME: (1, 0)}


async def test_a_model_that_fails_leaves_the_run_without_prediction(sidecar: Sidecar, room: Room) -> None:
    version = "a" * 64
    sidecar.parts.current.put_config(learning_pool(2, version=version))
    room.learner.models.loaded((NAME, version), FailingModel())
    client = await Client(sidecar, **request("r")).run()
    assert client.status == 200
    assert room.failures("predict") == 1
    (opened,) = sidecar.parts.current.configured().admission.books.runs.open
    assert opened.predicted_cost is None


# The account of what is held.


async def test_what_is_kept_to_learn_from_is_on_its_tenants_account_until_it_is_written(
    sidecar: Sidecar, room: Room
) -> None:
    held = room.learner.held
    await Client(sidecar, **request("r")).run()
    assert 0 < held.total < MOST_FEATURE_BYTES
    await Client(sidecar, **request("r", ends=True)).run()
    assert held.total > 0
    await room.settle()
    assert held.total == 0
    assert room.samples.counts() == {NAME: (1, 0)}


async def test_nothing_is_learned_of_a_run_for_which_there_is_no_room(sidecar: Sidecar, room: Room) -> None:
    def unnoticed() -> float:
        return room.counted("justitia_unnoticed_runs_total")

    held = room.learner.held
    await Client(sidecar, **request("r")).run()
    held.capacity = held.total + 2**11  # a body, but no features of all its words
    await Client(sidecar, **request("s", prompt=" ".join(map(str, range(300))), ends=True)).run()
    assert unnoticed() == 1
    held.capacity = held.total
    assert held.put(Holding(TenantId("silver"), HeldKind.BODY, lambda: None), held.capacity // 2)
    assert unnoticed() == 2
    await room.settle()
    assert room.samples.counts() == {}
