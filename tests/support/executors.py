"""Executors that run work in the test's own thread, so that a test says when."""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from typing import Any


class ByHand(Executor):
    """Work waits until the test calls `work`."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Future[Any], Callable[[], Any]]] = deque()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        future: Future[Any] = Future()
        self._waiting.append((future, partial(fn, *args, **kwargs)))
        return future

    def work(self) -> None:
        """Run all that waits."""
        while self._waiting:
            _run(*self._waiting.popleft())

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        while cancel_futures and self._waiting:
            self._waiting.popleft()[0].cancel()


class AtOnce(Executor):
    """Work is done when it is submitted."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        future: Future[Any] = Future()
        _run(future, partial(fn, *args, **kwargs))
        return future


def _run(future: "Future[Any]", work: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(work())
    except Exception as error:
        future.set_exception(error)
