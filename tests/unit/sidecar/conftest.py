import asyncio

import pytest


@pytest.fixture(scope="session", autouse=True)
def no_loop_of_the_main_thread() -> None:
    """Asking for the current loop then fails instead of making one that nobody closes."""
    asyncio.set_event_loop(None)
