"""The process, as far as it takes no cluster."""

import asyncio
import getpass
from datetime import UTC, datetime
from typing import cast

import pytest

from justitia_operator.runtime.app import build_informer
from justitia_operator.runtime.control import Control
from justitia_operator.runtime.controller import Controller
from justitia_operator.runtime.kube import Kube
from justitia_operator.runtime.metrics import Metrics
from justitia_operator.runtime.queue import KeyedQueue
from justitia_operator.runtime.store import Store
from justitia_operator.world.objects import Kind, Ref
from support.resources import INSTALLATION


async def test_it_watches_as_a_user_whom_the_machine_has_no_name_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def unnamed() -> str:
        raise KeyError("getpwuid(): uid not found: 65532")

    monkeypatch.setattr(getpass, "getuser", unnamed)
    queue: KeyedQueue[Ref] = KeyedQueue(asyncio.get_running_loop().call_later)
    controller = Controller(
        cast("Kube", None),
        cast("Control", None),
        Store(INSTALLATION),
        queue,
        clock=lambda: datetime.now(UTC),
        key_namespace="justitia-system",
        metrics=Metrics(),
    )
    stop, watching = asyncio.Event(), asyncio.Event()
    stop.set()
    informer = build_informer(controller, (Kind.SECRET,), stop, watching, ["justitia-system"])
    await asyncio.wait_for(informer, timeout=30)
