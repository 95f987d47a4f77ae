"""What is due in the background, and when."""

import asyncio
from collections.abc import Callable

import pytest

from justitia_sidecar.learning.attempts import Attempts
from justitia_sidecar.learning.background import FLUSH_SECONDS, ORPHANS_SECONDS, WRITE_SECONDS, Background
from justitia_sidecar.learning.erasing import Erasing
from justitia_sidecar.learning.flushing import Flushing
from justitia_sidecar.learning.lessons import SETTLE
from justitia_sidecar.learning.loading import Loading
from justitia_sidecar.learning.recording import Recording
from support.executors import AtOnce
from support.learning_room import NAME, WRITTEN, Room, finished, learning_pool, prediction, tracked, trained
from support.simulated_time import in_simulated_time


@pytest.fixture
def room(room: Room) -> Room:
    """With a configuration, whose work has been done."""
    room.learner.configure(learning_pool())
    return room


async def rounds(room: Room, seconds: float) -> None:
    """Each second one, until so many have passed."""
    until = room.clock.now + seconds
    while room.clock.now < until:
        room.clock.now += WRITE_SECONDS
        await room.learner.background.round()


def stored(room: Room) -> int:
    return len(room.store.samples(NAME, 100)[0])


def run_over(room: Room) -> None:
    run = tracked()
    room.learner.lessons.run_began(run, prediction())
    room.learner.lessons.run_ended(run, room.clock())


async def test_runs_are_recorded_as_soon_as_they_are_settled(room: Room) -> None:
    run_over(room)
    await rounds(room, SETTLE - 1)
    assert room.samples.counts() == {}
    await rounds(room, 1)
    assert room.samples.counts() == {NAME: (1, 0)}


async def test_samples_go_to_the_store_each_minute(room: Room) -> None:
    await rounds(room, 1)
    room.samples.add([finished()])
    await rounds(room, FLUSH_SECONDS - 2)
    assert stored(room) == 0
    await rounds(room, 1)
    assert stored(room) == 1
    room.samples.add([finished()])
    await rounds(room, FLUSH_SECONDS - 1)
    assert stored(room) == 1
    await rounds(room, 1)
    assert stored(room) == 2


async def test_after_a_change_models_are_loaded_and_samples_counted_at_once(room: Room) -> None:
    version = room.store.put_artifact(trained())
    room.learner.configure(learning_pool(2, version=version))
    await rounds(room, 1)
    assert room.learner.models.missing() == []
    learned = room.learner.applications.learned(NAME)
    assert learned is not None
    assert learned.stored == 0


async def test_a_model_that_is_missing_is_asked_for_each_minute(room: Room) -> None:
    room.learner.configure(learning_pool(2, version="0" * 64))
    await rounds(room, 1)
    assert room.failures("load") == 1
    await rounds(room, FLUSH_SECONDS - 2)
    assert room.failures("load") == 1
    await rounds(room, 1)
    assert room.failures("load") == 2


async def test_orphaned_data_is_erased_at_the_second_of_two_looks_an_hour_apart(room: Room) -> None:
    room.store.put_samples("gone", room.clock.time_of_day(), "another", WRITTEN[:3])
    await rounds(room, 2 * ORPHANS_SECONDS - FLUSH_SECONDS)
    assert room.store.applications() == {"gone"}
    await rounds(room, FLUSH_SECONDS)
    assert room.store.applications() == frozenset()


async def test_the_end_records_and_brings_what_is_over_settled_or_not(room: Room) -> None:
    run_over(room)
    room.samples.add([finished(name="gone")])
    await room.learner.background.finish()
    assert stored(room) == 1
    assert room.samples.counts() == {NAME: (1, 0)}, "orphaned samples go first"


def test_it_goes_on_for_ever_whatever_fails(room: Room) -> None:
    """With a disk and a store that fail for almost an hour."""
    room.samples.close()
    room.store.away = True

    async def almost_an_hour() -> None:
        clock = asyncio.get_running_loop().time
        async with asyncio.timeout(3600 - WRITE_SECONDS / 2):
            await background_at_once(room, clock).work_forever()

    with pytest.raises(TimeoutError):
        in_simulated_time(almost_an_hour())
    assert room.failures("write") == 3600 // FLUSH_SECONDS - 1


def background_at_once(room: Room, clock: Callable[[], float]) -> Background:
    """The room's, without a thread: a thread works in real time."""
    learner, samples, store = room.learner, room.samples, room.store
    tables, day, attempts = learner.applications, room.clock.time_of_day, Attempts(AtOnce(), room.metrics)
    return Background(
        Recording(learner.lessons, tables, samples, attempts, metrics=room.metrics, time_of_day=day),
        Loading(learner.models, store, None, attempts),
        Flushing(tables, samples, store, attempts, pod="pod", clock=clock, time_of_day=day),
        Erasing(tables, samples, store, attempts, day),
        clock,
    )
