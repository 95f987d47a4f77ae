"""The work queue, on a clock that the test moves."""

from collections.abc import Callable

from justitia_operator.queue import LAST_RETRY_SECONDS, KeyedQueue


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
