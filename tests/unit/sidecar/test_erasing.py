"""Samples that are too old or too many and orphaned data are erased, on the pod's disk and in the store."""

import pytest

from justitia_sidecar.learning import samples as samples_module
from justitia_sidecar.learning.learner import build_learner
from justitia_sidecar.learning.samples import RETENTION
from support.learning_room import NAME, WRITTEN, Room, finished, learning_pool
from support.sidecar_client import pool


def put(room: Room, *names: str) -> None:
    for name in names:
        room.store.put_samples(name, room.clock.time_of_day(), "another", WRITTEN[:3])


def configure(room: Room, *learned_from: str) -> None:
    room.learner.configure(learning_pool(2).model_copy(update={"learned_from": learned_from}))


# On the disk.


async def test_samples_of_an_application_that_is_gone_go_at_once(room: Room) -> None:
    configure(room, NAME, "refused")
    room.samples.add([finished(name=name) for name in (NAME, "refused", "gone")])
    await room.learner.erasing.tidy_disk()
    assert room.samples.counts().keys() == {NAME, "refused"}
    room.learner.configure(pool(3))
    await room.learner.erasing.tidy_disk()
    assert room.samples.counts() == {}


async def test_samples_that_are_too_old_or_too_many_go(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samples_module, "MOST_RUNS", 2)
    configure(room, NAME)
    now = room.clock.time_of_day()
    room.samples.add([finished(at=now - RETENTION - 1), *(finished(number, at=now) for number in range(3))])
    await room.learner.erasing.tidy_disk()
    assert [sample.cost for _, sample in room.samples.unflushed(NAME, 10)] == [WRITTEN[n].cost for n in (1, 2)]


async def test_a_disk_that_is_not_tidied_is_counted(room: Room) -> None:
    configure(room, NAME)
    room.samples.close()
    await room.learner.erasing.tidy_disk()
    assert room.failures("write") == 1


# In the store.


async def test_what_is_orphaned_at_two_looks_is_erased(room: Room) -> None:
    put(room, "gone", "refused", NAME)
    configure(room, NAME, "refused")
    await room.learner.erasing.erase_orphans()
    assert room.store.applications() == {"gone", "refused", NAME}
    await room.learner.erasing.erase_orphans()
    assert room.store.applications() == {"refused", NAME}


async def test_a_look_that_the_store_did_not_answer_does_not_count(room: Room) -> None:
    put(room, "gone")
    configure(room, NAME)
    await room.learner.erasing.erase_orphans()
    room.store.away = True
    await room.learner.erasing.erase_orphans()
    assert room.failures("store") == 1
    room.store.away = False
    await room.learner.erasing.erase_orphans()
    assert room.store.applications() == frozenset()


async def test_what_could_not_be_erased_is_erased_at_the_next_look_and_keeps_no_other(room: Room) -> None:
    put(room, "gone", "gone-too")
    configure(room, NAME)
    room.store.away_for = {"gone"}
    for _ in range(2):
        await room.learner.erasing.erase_orphans()
    assert room.store.applications() == {"gone"}
    assert room.failures("store") == 1
    room.store.away_for = ()
    await room.learner.erasing.erase_orphans()
    assert room.store.applications() == frozenset()


# Without a configuration, or a place.


async def test_before_there_is_a_configuration_nothing_is_erased(room: Room) -> None:
    room.samples.add([finished(name="somebody")])
    put(room, "somebody")
    for _ in range(2):
        await room.learner.erasing.tidy_disk()
        await room.learner.erasing.erase_orphans()
    assert room.samples.counts() == {"somebody": (1, 0)}
    assert room.store.applications() == {"somebody"}


async def test_where_nothing_is_kept_there_is_nothing_to_erase(room: Room) -> None:
    learner = build_learner(None, None, room.metrics, room.clock, room.clock.time_of_day)
    learner.configure(learning_pool())
    await learner.erasing.tidy_disk()
    await learner.erasing.erase_orphans()
    assert (room.failures("write"), room.failures("store")) == (0, 0)
