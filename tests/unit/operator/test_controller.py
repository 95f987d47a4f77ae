"""One resource at which the operator fails, among others."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any, cast

import pytest

from justitia_operator.decide.reconcile import reconcile
from justitia_operator.runtime import controller as module
from justitia_operator.runtime.cache import ObjectCache
from justitia_operator.runtime.control import Control
from justitia_operator.runtime.controller import Controller
from justitia_operator.runtime.kube import Kube, Outdated, Rejected
from justitia_operator.runtime.metrics import Metrics
from justitia_operator.runtime.queue import KeyedQueue
from justitia_operator.world.objects import Json, Kind, Plan, Ref, ref_of
from support.misbehaving_kube import MisbehavingKube
from support.owners import set_by
from support.resources import INSTALLATION, NOW, application, key, pool, tenant

POISONED = Ref(Kind.LLM_APPLICATION, "apps", "poisoned")


class Room:
    """A controller at work, on timers that the test fires."""

    def __init__(self) -> None:
        self.kube, self.metrics, self.delays = MisbehavingKube(), Metrics(), list[float]()
        self.timers: list[Callable[[], None]] = []
        self.now, self.cache = NOW, ObjectCache(INSTALLATION)
        self.queue: KeyedQueue[Ref] = KeyedQueue(self._call_later)
        self.controller = Controller(
            cast("Kube", self.kube),
            cast("Control", None),
            self.cache,
            self.queue,
            clock=lambda: self.now,
            key_namespace=INSTALLATION.namespace,
            metrics=self.metrics,
        )

    def _call_later(self, delay: float, callback: Callable[[], None]) -> None:
        self.delays.append(delay)
        self.timers.append(callback)

    def see(self, *objects: Json) -> None:
        for version, obj in enumerate(objects, 1):
            self.controller.seen(obj | {"metadata": {"uid": "u", **obj["metadata"], "resourceVersion": str(version)}})

    async def work(self, rounds: int = 1) -> None:
        """Until nothing waits, and after that for each time that what failed comes again."""
        worker = asyncio.create_task(self.controller.work())
        for left in reversed(range(rounds)):
            while len(self.queue):
                await asyncio.sleep(0)
                assert not worker.done(), worker.exception()
            await asyncio.sleep(0)
            timers, self.timers = self.timers, []
            for fire in timers if left else ():
                fire()
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)

    def faults(self, ref: Ref, fault: str) -> float:
        labels = {"kind": str(ref.kind), "fault": fault}
        return self.metrics.registry.get_sample_value("justitia_operator_faults_total", labels) or 0

    def told(self, ref: Ref) -> list[Json]:
        return [patch.status for patch in self.kube.statuses if patch.ref == ref]


@pytest.fixture
def poison(monkeypatch: pytest.MonkeyPatch) -> Callable[[Exception], None]:
    """Makes the decision about one resource raise this."""

    def begin(error: Exception) -> None:
        def failing(world: Any, ref: Ref, now: Any) -> Plan:
            if ref == POISONED:
                raise error
            return reconcile(world, ref, now)

        monkeypatch.setattr(module, "reconcile", failing)

    return begin


async def test_a_failure_stays_with_its_resource_and_comes_again_later_each_time(
    poison: Callable[[Exception], None],
) -> None:
    room = Room()
    poison(KeyError("a secret"))
    room.see(tenant(), key(), pool(), application(), application("poisoned"))
    await room.work(rounds=4)
    assert room.told(Ref(Kind.LLM_APPLICATION, "apps", "chat"))
    assert Ref(Kind.DEPLOYMENT, "apps", "justitia-shared") in room.kube.applied
    assert room.delays == [0.5, 1.0, 2.0, 4.0]
    assert room.faults(POISONED, "Failed") == 4


async def test_a_failure_is_told_in_a_condition_and_an_event_without_what_it_quotes(
    poison: Callable[[Exception], None],
) -> None:
    room = Room()
    poison(KeyError("a secret"))
    room.see(tenant(), key(), pool(), application("poisoned"))
    await room.work()
    (status,) = room.told(POISONED)
    (condition,) = status["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("Reconciled", "False", "OperatorFailed")
    assert "KeyError" in condition["message"]
    assert "a secret" not in condition["message"]
    (note,) = [note for note in room.kube.notes if ref_of(note.about) == POISONED]
    assert (note.type, note.reason) == ("Warning", "OperatorFailed")


async def test_where_nothing_can_be_written_the_others_go_on_all_the_same() -> None:
    room = Room()
    room.kube.errors[POISONED] = Rejected("the status is refused")
    room.see(tenant(), key(), pool(), application("poisoned"), application())
    await room.work(rounds=3)
    assert room.told(Ref(Kind.LLM_APPLICATION, "apps", "chat"))
    assert room.faults(POISONED, "Rejected") == 3
    assert room.delays == [0.5, 1.0, 2.0]


async def test_a_failure_that_is_over_leaves_no_condition() -> None:
    room = Room()
    stamp = {"observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z", "message": "", "status": "False"}
    failed = {"conditions": [{"type": "Reconciled", "reason": "OperatorFailed", **stamp}]}
    room.see(tenant(), key(), pool(), application() | {"status": failed})
    await room.work()
    last = room.told(Ref(Kind.LLM_APPLICATION, "apps", "chat"))[-1]
    assert "Reconciled" not in {condition["type"] for condition in last["conditions"]}


DEPLOYMENT = Ref(Kind.DEPLOYMENT, "apps", "justitia-shared")


class Contest(Room):
    """A settled pool, to whose Deployment somebody adds a variable. The time is the test's."""

    def __init__(self) -> None:
        super().__init__()
        self.version = 5000

    async def begin(self) -> None:
        self.see(tenant(), key(), pool(), application())
        await self.work()
        self.kube.applied.clear()

    def add(self, *path: str) -> None:
        self.version += 1
        known = self.cache.snapshot().objects[DEPLOYMENT]
        ours = known["metadata"]["managedFields"][0]
        theirs = [set_by("kubectl-set", *path)] if path else []
        metadata = known["metadata"] | {"managedFields": [ours, *theirs], "resourceVersion": str(self.version)}
        self.kube.version = self.version
        self.controller.seen(known | {"metadata": metadata})
        self.version = self.kube.version + 10

    def accepted(self) -> str:
        conditions = self.told(Ref(Kind.SERVING_POOL, "apps", "shared"))[-1]["conditions"]
        return str(next(each["reason"] for each in conditions if each["type"] == "Accepted"))


ADDED = ("f:spec", "f:template", "f:spec", "f:hostNetwork")


async def test_what_somebody_adds_is_taken_out_and_told_in_an_event() -> None:
    room = Contest()
    await room.begin()
    room.add(*ADDED)
    await room.work()
    assert (room.kube.disowned, room.kube.applied) == ([DEPLOYMENT], [DEPLOYMENT])
    (note,) = [note for note in room.kube.notes if note.reason == "FieldsRemoved"]
    assert note.type == "Warning"
    assert ref_of(note.about) == Ref(Kind.SERVING_POOL, "apps", "shared")
    assert "Deployment apps/justitia-shared: spec.template.spec.hostNetwork (by kubectl-set)" in note.message
    assert room.faults(DEPLOYMENT, "ObjectOverridden") == 1


async def test_who_added_it_is_told_though_the_object_changed_while_it_was_taken_out() -> None:
    room = Contest()
    await room.begin()
    room.add(*ADDED)
    room.kube.once[DEPLOYMENT] = Outdated("it has changed")
    await room.work()
    assert not room.kube.applied
    room.controller.seen(room.kube.owners[DEPLOYMENT])
    await room.work()
    assert (room.kube.disowned, room.kube.applied) == ([DEPLOYMENT], [DEPLOYMENT])
    (note,) = [note for note in room.kube.notes if note.reason == "FieldsRemoved"]
    assert "spec.template.spec.hostNetwork (by kubectl-set)" in note.message


async def test_who_puts_it_back_again_and_again_is_not_fought_without_end_and_told_in_a_condition() -> None:
    room = Contest()
    await room.begin()
    for _ in range(20):
        room.add(*ADDED)
        await room.work()
    assert len(room.kube.applied) == 3
    assert room.accepted() == "FieldsAdded"
    room.now += timedelta(hours=1)
    room.cache.retry_rejections()
    room.queue.add(Ref(Kind.SERVING_POOL, "apps", "shared"))
    await room.work()
    assert len(room.kube.applied) == 4, "later it is tried again"
    assert room.accepted() == "Accepted"


async def test_what_is_wanted_anew_is_applied_though_somebody_adds_to_it() -> None:
    room = Contest()
    await room.begin()
    for _ in range(4):
        room.add(*ADDED)
        await room.work()
    changed = pool(replicas=3)
    changed["metadata"]["resourceVersion"] = "9999"
    room.controller.seen(changed)
    await room.work()
    assert len(room.kube.applied) == 4
    assert room.accepted() == "FieldsAdded"


async def test_nothing_is_wrong_any_more_once_they_took_it_back_themselves() -> None:
    room = Contest()
    await room.begin()
    for _ in range(4):
        room.add(*ADDED)
        await room.work()
    assert room.accepted() == "FieldsAdded"
    room.add()
    await room.work()
    assert room.accepted() == "Accepted"
    assert len(room.kube.applied) == 3


async def test_a_list_brings_what_a_watch_has_missed() -> None:
    room = Room()
    room.see(tenant(), key(), pool(), application(), application("gone"))
    await room.work()
    kept = room.cache.snapshot().objects
    room.kube.listed = {kind: [kept[ref] for ref in kept.of(kind) if ref.name != "gone"] for kind in Kind}
    room.kube.listed[Kind.LLM_APPLICATION].append(listed_application("new"))
    await room.controller.relist()
    applications = {ref.name for ref in room.cache.snapshot().objects.of(Kind.LLM_APPLICATION)}
    assert applications == {"chat", "new"}
    assert len(room.queue) > 0
    await room.work()
    assert room.told(Ref(Kind.LLM_APPLICATION, "apps", "new"))


async def test_a_list_that_brings_nothing_new_has_nothing_reconciled() -> None:
    room = Room()
    room.see(tenant(), key(), pool(), application())
    await room.work()
    kept = room.cache.snapshot().objects
    room.kube.listed = {kind: [kept[ref] for ref in kept.of(kind)] for kind in Kind}
    await room.controller.relist()
    assert len(room.queue) == 0


def listed_application(name: str) -> Json:
    obj = application(name)
    return obj | {"metadata": obj["metadata"] | {"uid": name, "resourceVersion": "900"}}
