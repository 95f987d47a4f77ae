import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from justitia_sidecar.engine.client import EngineClient
from justitia_sidecar.learning.learner import build_learner
from justitia_sidecar.learning.samples import Samples
from justitia_sidecar.metrics import SidecarMetrics
from justitia_sidecar.service import Sidecar
from support.learning_room import Clock, Room, learning_pool
from support.misbehaving_engine import MisbehavingEngine
from support.misbehaving_store import MisbehavingStore
from support.sidecar_client import engine_answers, give_key


@pytest.fixture(scope="session", autouse=True)
def no_loop_of_the_main_thread() -> None:
    """Asking for the current loop then fails instead of making one that nobody closes."""
    asyncio.set_event_loop(None)


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    """Requests wait for what is predicted for them, however slow the machine is."""
    with closing(Samples(tmp_path / "samples.db")) as samples:
        store, clock, metrics = MisbehavingStore(f"file://{tmp_path}/store"), Clock(), SidecarMetrics()
        learner = build_learner(samples, store, metrics, clock, clock.time_of_day, deadline=60.0)
        yield Room(learner, samples, store, clock, metrics)


@pytest.fixture
async def engine() -> AsyncIterator[MisbehavingEngine]:
    async with MisbehavingEngine().serving() as engine:
        yield engine


@pytest.fixture
async def sidecar(engine: MisbehavingEngine, room: Room) -> AsyncIterator[Sidecar]:
    """A sidecar of a pool with one application, which is learned from."""
    async with EngineClient.session() as session:
        sidecar = Sidecar(EngineClient(engine.url, session), room.metrics, room.clock, learner=room.learner)
        give_key(sidecar)
        sidecar.parts.current.put_config(learning_pool())
        await engine_answers(sidecar)
        yield sidecar
