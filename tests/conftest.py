"""For all tests."""

import asyncio

# pytest-asyncio asks for the main thread's loop before each asynchronous test. Unless one was set, Python 3.11 makes
# a new one, which nobody closes. Saying that there is none keeps it from doing so.
asyncio.set_event_loop(None)
