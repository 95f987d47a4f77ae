"""Samples are brought to the store once, whatever the store does, and those in the store are counted."""

from collections.abc import Sequence

import pytest

from justitia_sidecar.learning import flushing as module
from justitia_sidecar.learning.application_table import RECOUNT_SECONDS
from justitia_sidecar.learning.flushing import BATCH, Numbered, next_batch
from justitia_sidecar.learning.learner import build_learner
from justitia_sidecar.learning.samples import RETENTION
from support.learning_room import NAME, WRITTEN, Room, finished, learning_pool, learning_pool_of

NUMBERED: Sequence[Numbered] = list(enumerate(WRITTEN[:5]))


@pytest.fixture
def room(room: Room) -> Room:
    """With a configuration."""
    room.learner.configure(learning_pool())
    return room


def stored(room: Room, name: str = NAME) -> int:
    """Samples in the store, all of which can be read."""
    samples, unreadable = room.store.samples(name, 10_000)
    assert unreadable == 0
    return len(samples)


def counted(room: Room, name: str = NAME) -> int | None:
    learned = room.learner.applications.learned(name)
    assert learned is not None
    return learned.stored


@pytest.mark.parametrize(
    ("tried", "numbers"),
    [(None, [0, 1, 2, 3, 4]), (2, [0, 1, 2]), (-1, [0, 1, 2, 3, 4])],
    ids=["all", "those of the attempt without an answer", "all where those are gone from the disk"],
)
def test_the_next_batch(tried: int | None, numbers: list[int]) -> None:
    assert [number for number, _ in next_batch(NUMBERED, tried)] == numbers


async def test_what_is_on_the_disk_is_brought_to_the_store_once(room: Room) -> None:
    room.samples.add([finished(number) for number in range(3)])
    for _ in range(2):
        await room.learner.flushing.flush()
        assert stored(room) == 3
        assert room.samples.unflushed(NAME, 10) == []


async def test_many_samples_are_brought_in_several_batches(room: Room) -> None:
    room.samples.add([finished(number % len(WRITTEN)) for number in range(BATCH + 1)])
    await room.learner.flushing.flush()
    assert stored(room) == BATCH + 1
    assert room.store.asked == [NAME, NAME]


async def test_only_applications_of_the_configuration_are_brought(room: Room) -> None:
    room.samples.add([finished(name="refused")])
    await room.learner.flushing.flush()
    assert room.store.asked == []


async def test_a_store_that_is_away_gets_everything_when_it_is_back(room: Room) -> None:
    room.samples.add([finished()])
    room.store.away = True
    await room.learner.flushing.flush()
    assert room.failures("store") == 1
    room.store.away = False
    await room.learner.flushing.flush()
    assert stored(room) == 1


async def test_what_the_store_took_without_an_answer_is_there_once(room: Room) -> None:
    room.samples.add([finished(0)])
    room.store.silent = True
    await room.learner.flushing.flush()
    assert stored(room) == 1
    room.store.silent = False
    room.samples.add([finished(1)])
    await room.learner.flushing.flush()
    assert stored(room) == 2


async def test_batches_of_two_pods_are_told_apart(room: Room) -> None:
    room.samples.add([finished()])
    for pod in ("one", "other"):
        learner = build_learner(
            room.samples, room.store, room.metrics, room.clock, room.clock.time_of_day, pod=f"pod-{pod}"
        )
        learner.configure(learning_pool())
        await learner.flushing.flush()
        room.samples.erase(NAME)
        room.samples.add([finished()])
    assert stored(room) == 2


async def test_an_application_that_the_store_never_answers_for_keeps_no_others_waiting(room: Room) -> None:
    names = ["a", "b", "c"]
    room.learner.configure(learning_pool_of(*names))
    room.samples.add([finished(name=name) for name in names])
    room.store.away_for = {"a", "b"}
    for work in (room.learner.flushing.flush, room.learner.flushing.count_stored):
        room.store.asked.clear()
        for _ in names:
            await work()
        assert "c" in room.store.asked
        assert len(room.store.asked) <= 2 * len(names), "a round ends where the store is away"


async def test_a_disk_that_cannot_be_read_is_not_a_store_that_is_away(room: Room) -> None:
    room.learner.configure(learning_pool_of("a", "b"))
    room.samples.close()
    await room.learner.flushing.flush()
    assert room.failures("store") == 2, "both are tried"


# Counting.


async def test_samples_of_all_pods_are_counted(room: Room) -> None:
    room.store.put_samples(NAME, room.clock.time_of_day(), "another", WRITTEN[:7])
    assert counted(room) is None
    await room.learner.flushing.count_stored()
    assert counted(room) == 7
    room.samples.add([finished()])
    await room.flush()
    await room.learner.flushing.count_stored()
    assert counted(room) == 8


async def test_the_store_is_asked_after_it_got_something_and_each_hour(room: Room) -> None:
    async def asked() -> int:
        room.store.asked.clear()
        await room.learner.flushing.count_stored()
        return len(room.store.asked)

    assert await asked() == 1
    assert await asked() == 0
    room.samples.add([finished()])
    await room.flush()
    assert await asked() == 1
    room.learner.configure(learning_pool(2, keep_text=True))
    assert await asked() == 0
    room.clock.now += RECOUNT_SECONDS
    assert await asked() == 1


async def test_a_count_that_failed_is_tried_again(room: Room) -> None:
    room.store.put_samples(NAME, room.clock.time_of_day(), "another", WRITTEN[:7])
    room.store.away = True
    await room.learner.flushing.count_stored()
    assert counted(room) is None
    room.store.away = False
    await room.learner.flushing.count_stored()
    assert counted(room) == 7


async def test_counting_erases_what_is_too_old_or_too_much(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_STORED", 10)
    now = room.clock.time_of_day()
    room.store.put_samples(NAME, now - 20, "another", WRITTEN[:5])
    room.store.put_samples(NAME, now - 10, "another", WRITTEN[5:15])
    await room.learner.flushing.count_stored()
    assert counted(room) == 10
    assert room.store.samples(NAME, 100)[0] == WRITTEN[5:15]
    room.clock.now += RETENTION
    await room.learner.flushing.count_stored()
    assert counted(room) == 0
    assert room.store.samples(NAME, 100) == ([], 0)


@pytest.mark.parametrize("kept", ["samples", "store"])
async def test_where_one_place_is_missing_nothing_is_brought(room: Room, kept: str) -> None:
    samples, store = (room.samples, None) if kept == "samples" else (None, room.store)
    learner = build_learner(samples, store, room.metrics, room.clock, room.clock.time_of_day)
    learner.configure(learning_pool())
    room.samples.add([finished()])
    await learner.flushing.flush()
    await learner.flushing.count_stored()
    assert stored(room) == 0
    assert len(room.samples.unflushed(NAME, 10)) == 1
    assert room.failures("store") == 0
