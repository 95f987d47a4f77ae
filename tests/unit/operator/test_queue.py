"""The work queue, on a clock that the test moves."""

from collections.abc import Callable

from justitia_operator.runtime.app import lane_of
from justitia_operator.runtime.queue import LAST_RETRY_SECONDS, KeyedQueue
from justitia_operator.world.objects import Kind, Ref


class Timers:
    """What was asked to be called later."""

    def __init__(self) -> None:
        self.pending: list[tuple[float, Callable[[], None]]] = []

    def call_later(self, delay: float, callback: Callable[[], None]) -> None:
        self.pending.append((delay, callback))

    def fire(self) -> None:
        pending, self.pending = self.pending, []
        for _, callback in pending:
            callback()


async def test_a_key_added_twice_is_worked_on_once() -> None:
    queue: KeyedQueue[str] = KeyedQueue(Timers().call_later)
    for key in ("a", "a", "b"):
        queue.add(key)
    assert [await queue.get(), await queue.get()] == ["a", "b"]


async def test_a_key_added_while_it_is_worked_on_comes_again_afterwards() -> None:
    queue: KeyedQueue[str] = KeyedQueue(Timers().call_later)
    queue.add("a")
    assert await queue.get() == "a"
    queue.add("a")
    queue.add("b")
    assert await queue.get() == "b"
    queue.succeeded("a")
    assert await queue.get() == "a"


async def test_a_failed_key_comes_back_later_and_later_until_it_succeeds() -> None:
    timers = Timers()
    queue: KeyedQueue[str] = KeyedQueue(timers.call_later)
    queue.add("a")
    delays = []
    for _ in range(10):
        assert await queue.get() == "a"
        delays.append(queue.failed("a"))
        timers.fire()
    assert delays[:4] == [0.5, 1.0, 2.0, 4.0]
    assert delays[-1] == LAST_RETRY_SECONDS
    assert await queue.get() == "a"
    queue.succeeded("a")
    queue.add("a")
    assert await queue.get() == "a"
    assert queue.failed("a") == 0.5


async def test_lanes_take_turns_however_many_keys_one_has() -> None:
    queue: KeyedQueue[str] = KeyedQueue(Timers().call_later, lane=lambda key: key[0])
    for number in range(1000):
        queue.add(f"a{number}")
    queue.add("b0")
    queue.add("b1")
    queue.add("c0")
    assert [await queue.get() for _ in range(6)] == ["a0", "b0", "c0", "a1", "b1", "a2"]


async def test_a_key_that_comes_again_at_once_waits_for_the_other_lanes_turn() -> None:
    queue: KeyedQueue[str] = KeyedQueue(Timers().call_later, lane=lambda key: key[0])
    queue.add("a")
    queue.add("b")
    assert await queue.get() == "a"
    queue.add("a")
    queue.succeeded("a")
    assert [await queue.get(), await queue.get()] == ["b", "a"]


async def test_a_resource_waits_neither_for_another_kind_nor_for_another_namespace() -> None:
    queue: KeyedQueue[Ref] = KeyedQueue(Timers().call_later, lane_of)
    for number in range(1000):
        queue.add(Ref(Kind.LLM_APPLICATION, "flood", f"{number}"))
    pool, other = Ref(Kind.SERVING_POOL, "flood", "pool"), Ref(Kind.LLM_APPLICATION, "quiet", "application")
    queue.add(pool)
    queue.add(other)
    await queue.get()
    assert [await queue.get(), await queue.get()] == [pool, other]
