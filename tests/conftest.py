"""For all tests."""

import asyncio
import os
import signal

import pytest
from hypothesis import HealthCheck, Phase, settings
from xdist.remote import Producer

from support.workers import BySharedPrograms

# pytest-asyncio asks for the main thread's loop before each asynchronous test. Unless one was set, Python 3.11 makes
# a new one, which nobody closes. Saying that there is none keeps it from doing so.
asyncio.set_event_loop(None)

# What a shell runs in the background has its interrupts ignored, and so have its children. Those of tests are
# interrupted on purpose.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# One core for each process that computes: other tests, and the clients of an engine, need the rest. Threads that share
# a small model's work wait for each other more than they gain.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# What holds does not depend on how fast the machine is, and other work on it makes no test fail.
settings.register_profile("any-speed", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=20)
settings.load_profile("any-speed")
settings.register_profile("nightly", settings.get_profile("any-speed"), max_examples=100)

# For `make mutate`: a mutant has the same verdict each time, and a failure is enough, however long its example is.
settings.register_profile(
    "mutation",
    settings.get_profile("any-speed"),
    derandomize=True,
    database=None,
    phases=(Phase.explicit, Phase.generate),
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--nightly", action="store_true", help="five times the examples, and a thousand of what may be many"
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("nightly"):
        settings.load_profile("nightly")


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> BySharedPrograms:
    return BySharedPrograms(config, log)
