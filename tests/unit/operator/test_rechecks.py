"""A pod is asked again soon after it was told something, until its engine orders by it."""

import asyncio
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import cast

import pytest

from justitia_api.conditions import Condition
from justitia_operator.decide.rechecks import Rechecks
from justitia_operator.runtime.cache import ObjectCache
from justitia_operator.runtime.control import Control
from justitia_operator.runtime.controller import Controller
from justitia_operator.runtime.kube import Kube
from justitia_operator.runtime.metrics import Metrics
from justitia_operator.runtime.queue import KeyedQueue
from justitia_operator.world.objects import Json, Kind, Push, Ref, StatusPatch
from justitia_operator.world.reports import Report
from support.resources import INSTALLATION, NOW, pod, settled, small_world

POD = Ref(Kind.POD, "apps", "justitia-shared-1")
POOL = Ref(Kind.SERVING_POOL, "apps", "shared")
PUSH = Push(POD, "containerd://one", "10.0.0.7", "uid", 2, b"documents")


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def report(status: str = "False", reason: str = "Outdated", generation: int = 2) -> Report:
    fields = {"type": "PolicyInEffect", "status": status, "reason": reason, "message": "", "observedGeneration": 2}
    policy = Condition.model_validate(fields | {"lastTransitionTime": NOW})
    return Report(PUSH.instance, 2, generation, policy=policy)


IN_FORCE = report("True", "Configured")


def times(rechecks: Rechecks, answer: Report) -> list[float]:
    """When the pod is asked in the first half minute, in seconds, where it always answers this."""
    asked = []
    for quarter in range(120):
        now = at(quarter / 4)
        for push in rechecks.due(now):
            asked.append(quarter / 4)
            rechecks.asked(push, answer, now)
    return asked


def test_an_engine_that_stays_behind_is_asked_ever_later_and_then_with_all_others() -> None:
    rechecks = Rechecks()
    rechecks.told(PUSH, report(), NOW)
    assert times(rechecks, report()) == [0.5, 1.5, 3.5, 7.5, 15.5]


def test_an_engine_that_has_it_is_asked_no_more() -> None:
    rechecks = Rechecks()
    rechecks.told(PUSH, report(), NOW)
    assert times(rechecks, IN_FORCE) == [0.5]
    assert rechecks.due(at(3600)) == []


@pytest.mark.parametrize(
    "answer",
    [
        IN_FORCE,
        report(reason="NotConnected"),
        report(reason="PolicyFailed"),
        Report("containerd://one", 2, None, "it does not answer"),
        Report("containerd://one", 2, 2),
    ],
    ids=["in effect", "not connected", "failed", "silent", "no engine that orders"],
)
def test_what_no_moment_mends_waits_for_the_round(answer: Report) -> None:
    rechecks = Rechecks()
    rechecks.told(PUSH, answer, NOW)
    assert times(rechecks, answer) == []


def test_who_is_told_anew_begins_anew_and_who_was_only_asked_does_not_begin() -> None:
    rechecks = Rechecks()
    rechecks.asked(PUSH, report(), NOW)
    assert rechecks.due(at(3600)) == []
    rechecks.told(PUSH, report(), NOW)
    rechecks.asked(PUSH, report(), at(1))
    later = replace(PUSH, generation=3)
    rechecks.told(later, report(), at(1))
    assert rechecks.due(at(1.4)) == []
    assert rechecks.due(at(1.5)) == [replace(later, documents=b"")]


class TakingCluster:
    """In place of the API server: takes everything."""

    def __init__(self) -> None:
        self.policy: list[str] = []
        self.written = asyncio.Event()

    def seconds_left(self) -> float:
        return 1.0

    async def get(self, ref: Ref) -> None:
        return

    look = get

    async def apply(self, obj: Json, before: Json | None) -> Json:
        return obj

    async def apply_status(self, patch: StatusPatch, before: Json) -> None:
        found = {c["type"]: c["status"] for c in patch.status["conditions"]}
        if patch.ref == POOL and "PolicyInEffect" in found:
            self.policy.append(found["PolicyInEffect"])
            self.written.set()

    async def record(self, *_: object) -> None:
        return


class TellingPod:
    """In place of the control port: its engine takes what it is told after the first answer."""

    async def tell(self, push: Push) -> Report:
        return replace(report(generation=push.generation), told=push.generation)

    async def ask(self, push: Push, *, keep: bool) -> Report:
        return replace(IN_FORCE, told=push.generation, generation=push.generation)


async def test_the_conditions_agree_half_a_second_after_a_pod_was_told() -> None:
    now, cluster = [NOW], TakingCluster()
    queue: KeyedQueue[Ref] = KeyedQueue(asyncio.get_running_loop().call_later)
    controller = Controller(
        cast("Kube", cluster),
        cast("Control", TellingPod()),
        ObjectCache(INSTALLATION),
        queue,
        clock=lambda: now[0],
        key_namespace="justitia-system",
        metrics=Metrics(),
    )
    for obj in (*settled(small_world()).objects.values(), pod()):
        controller.seen(obj)
    queue.add(POOL)
    work = asyncio.create_task(controller.work())
    await asyncio.wait_for(cluster.written.wait(), 30)
    assert cluster.policy[-1] == "False"
    await controller.ask_again()
    assert cluster.policy[-1] == "False"
    cluster.written.clear()
    now[0] = at(0.5)
    await controller.ask_again()
    await asyncio.wait_for(cluster.written.wait(), 30)
    assert cluster.policy[-1] == "True"
    work.cancel()
    with suppress(asyncio.CancelledError):
        await work
