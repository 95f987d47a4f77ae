"""First requests wait for the look at them until the deadline, and go on without it; the look counts all the same."""

import asyncio
from dataclasses import dataclass, field, replace

import pytest

from justitia_api.config import LearningConfig
from justitia_predictor.features import Features, FirstRequest
from justitia_sidecar.learning.application_table import ApplicationTable
from justitia_sidecar.learning.model_table import ModelTable
from justitia_sidecar.learning.predicting import MOST_WAITING, Predicting
from justitia_sidecar.learning.prediction import RunPrediction
from justitia_sidecar.metrics import SidecarMetrics
from support.executors import ByHand
from support.failing_model import FailingModel
from support.learning_room import FIRST, NAME, learning_pool, trained
from support.simulated_time import in_simulated_time

LEARNING = LearningConfig(name=NAME)
VERSION = "a" * 64


@dataclass
class Rig:
    """A learner's `Predicting` with a thread that looks when the test says so, and no time to wait for it."""

    thread: ByHand = field(default_factory=ByHand)
    metrics: SidecarMetrics = field(default_factory=SidecarMetrics)
    applications: ApplicationTable = field(default_factory=ApplicationTable)
    models: ModelTable = field(default_factory=ModelTable)

    def __post_init__(self) -> None:
        self.predicting = Predicting(self.applications, self.models, self.metrics, self.thread, deadline=0)

    async def predict(self, run: str = "r", request: FirstRequest = FIRST, version: str | None = None) -> RunPrediction:
        found = await self.predicting.predict(LEARNING.model_copy(update={"version": version}), request, run)
        assert found is not None
        return found

    async def look(self) -> None:
        self.thread.work()
        # The thread's answer comes over the loop.
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    def counted(self, metric: str, **labels: str) -> float:
        return self.metrics.registry.get_sample_value(metric, labels) or 0.0


@pytest.fixture
def rig() -> Rig:
    return Rig()


async def test_a_request_goes_on_without_a_look_that_takes_too_long(rig: Rig) -> None:
    found = await rig.predict()
    assert (found.features, found.predicted_cost) == (None, None)


async def test_a_look_that_comes_late_completes_the_prediction(rig: Rig) -> None:
    model = trained()
    rig.models.want([(NAME, VERSION)])
    rig.models.loaded((NAME, VERSION), model)
    found = await rig.predict(version=VERSION)
    await rig.look()
    assert found.features == Features.of(FIRST).packed
    assert found.predicted_cost == model.predict(Features.of(FIRST))
    assert rig.counted("justitia_prediction_seconds_count") == 1


async def test_a_request_waits_for_a_look_within_the_deadline(rig: Rig) -> None:
    rig.predicting.deadline = 60.0
    waiting = asyncio.create_task(rig.predict())
    await asyncio.sleep(0)
    assert not waiting.done()
    rig.thread.work()
    assert (await waiting).features is not None


async def test_only_models_that_are_loaded_and_in_a_role_predict(rig: Rig) -> None:
    rig.models.want([(NAME, VERSION)])
    rig.models.loaded((NAME, VERSION), trained())
    without_role, not_loaded = await rig.predict("r"), await rig.predict("s", version="b" * 64)
    await rig.look()
    assert (without_role.by_version, not_loaded.by_version) == ({}, {})


async def test_requests_that_begin_a_run_together_are_looked_at_once(rig: Rig) -> None:
    one, beside = await rig.predict("r"), await rig.predict("r")
    other = await rig.predict("s")
    assert one is beside
    assert one is not other
    await rig.look()
    assert rig.counted("justitia_prediction_seconds_count") == 2
    assert await rig.predict("r") is not one, "what was looked at is not kept"


async def test_when_too_many_wait_to_be_looked_at_runs_go_unnoticed(rig: Rig) -> None:
    for number in range(MOST_WAITING):
        await rig.predict(f"r{number}")
    assert await rig.predicting.predict(LEARNING, FIRST, "one too many") is None
    assert await rig.predict("r0") is not None, "this run is being looked at"
    assert rig.counted("justitia_unnoticed_runs_total") == 1
    await rig.look()
    assert await rig.predict("there is room again") is not None


async def test_a_request_that_cannot_be_looked_at_fails_nothing(rig: Rig) -> None:
    broken = replace(FIRST, text_bytes=-5)
    found = await rig.predict(request=broken)
    await rig.look()
    assert found.features is None
    assert rig.counted("justitia_learning_failures_total", attempt="predict") == 1
    assert await rig.predict() is not found, "the look is over"


async def test_a_model_that_fails_is_counted_and_leaves_the_features(rig: Rig) -> None:
    rig.models.want([(NAME, VERSION)])
    rig.models.loaded((NAME, VERSION), FailingModel())
    found = await rig.predict(version=VERSION)
    await rig.look()
    assert (found.predicted_cost, found.features is not None) == (None, True)
    assert rig.counted("justitia_learning_failures_total", attempt="predict") == 1


async def test_a_run_is_compared_by_what_was_in_effect_when_it_began(rig: Rig) -> None:
    before = await rig.predict("r")
    rig.applications.configure(learning_pool(version=VERSION))
    after = await rig.predict("s")
    assert before.begun is None, "nothing was learned of the application yet"
    assert after.begun is not None
    assert after.begun.version == VERSION


async def test_at_the_end_looks_that_are_under_way_are_completed(rig: Rig) -> None:
    found = await rig.predict()
    ending = asyncio.create_task(rig.predicting.close())
    await asyncio.sleep(0)
    assert not ending.done()
    rig.thread.work()
    await ending
    assert found.features is not None


def test_at_the_end_looks_that_take_too_long_are_given_up(rig: Rig) -> None:
    problems: list[object] = []

    async def end() -> RunPrediction:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: problems.append(context))
        found = await rig.predict()
        await rig.predicting.close()
        await rig.look()
        return found

    assert in_simulated_time(end()).features is None
    assert problems == []
    assert rig.counted("justitia_learning_failures_total", attempt="predict") == 0


def test_an_end_without_looks_waits_for_nothing(rig: Rig) -> None:
    with pytest.raises(StopIteration):
        rig.predicting.close().send(None)
