"""An operator that dies after any of its writes, and one that comes after it: as if nothing had happened.

Dying is losing all that a process knows, at the moment when the API server has done what was asked and has not
answered. So it needs no process: the API server and what is written are real.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import aiohttp
import pytest

from cluster.control_plane import ControlPlane
from justitia_operator.runtime.cache import ObjectCache
from justitia_operator.runtime.control import Control
from justitia_operator.runtime.controller import Controller
from justitia_operator.runtime.kube import Kube, connect
from justitia_operator.runtime.metrics import Metrics
from justitia_operator.runtime.queue import KeyedQueue
from justitia_operator.world.installation import Installation
from justitia_operator.world.objects import Json, Ref
from support.kubectl import CHILDREN, OWN, Kubectl, eventually
from support.stage import SYSTEM, Stage

ROOT = "5a" * 32
LEAST_WRITES = 10
"""Seven children of a pool, and the statuses of pool, application and tenant."""


class MortalKube(Kube):
    """Dies with the `last` write: it is carried out, and its answer never comes. To look is no write."""

    def __init__(self, kube: Kube, last: int | None) -> None:
        super().__init__(kube._api)
        self.writes = 0
        self.dead = asyncio.Event()
        self._last = last

    async def _exchange(self, method: str, *args: Any, **kwargs: Any) -> tuple[int, Json]:
        answer = await super()._exchange(method, *args, **kwargs)
        self.writes += method != "GET" and "dryRun" not in str(args)
        if self.writes == self._last:
            self.dead.set()
            await asyncio.Event().wait()
        return answer


class LookedAtQueue(KeyedQueue[Ref]):
    """`worked_on` counts the keys that were taken and are not done."""

    worked_on = 0

    async def get(self) -> Ref:
        key = await super().get()
        self.worked_on += 1
        return key

    def succeeded(self, key: Ref) -> None:
        self.worked_on -= 1
        super().succeeded(key)

    def failed(self, key: Ref) -> float:
        self.worked_on -= 1
        return super().failed(key)

    @property
    def idle(self) -> bool:
        return not (len(self) or self.worked_on)


@asynccontextmanager
async def operator(last: int | None = None) -> AsyncIterator[tuple[Controller, LookedAtQueue, MortalKube]]:
    """One that knows nothing yet. It does not watch: it sees what it lists, and what its writes are answered."""
    async with connect() as kube, aiohttp.ClientSession() as session:
        mortal = MortalKube(kube, last)
        queue = LookedAtQueue(asyncio.get_running_loop().call_later)
        cache = ObjectCache(Installation(SYSTEM, "justitia:test", ROOT))
        controller = Controller(
            mortal,
            Control(session, ROOT, lambda: datetime.now(UTC)),
            cache,
            queue,
            clock=lambda: datetime.now(UTC),
            key_namespace=SYSTEM,
            metrics=Metrics(),
        )
        yield controller, queue, mortal


async def live(last: int | None = None) -> int:
    """Works until nothing is left to do, or until it dies. How many writes it made."""
    async with operator(last) as (controller, queue, kube):
        worker = asyncio.create_task(_work(controller, queue))
        death = asyncio.create_task(kube.dead.wait())
        done, pending = await asyncio.wait([worker, death], return_when=asyncio.FIRST_COMPLETED, timeout=60)
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        assert done, "it neither ended nor died"
        if worker in done:
            worker.result()
        return kube.writes


async def _work(controller: Controller, queue: LookedAtQueue) -> None:
    await controller.resync()
    worker = asyncio.create_task(controller.work())
    while not queue.idle:  # noqa: ASYNC110 - it tells nobody
        await asyncio.sleep(0.01)
    worker.cancel()
    await asyncio.gather(worker, return_exceptions=True)


@pytest.fixture(scope="module")
def own_kubectl() -> Iterator[Kubectl]:
    """The administrator of a control plane where nobody else writes."""
    with ControlPlane() as plane:
        plane.define_resources()
        plane.kubectl("create", "namespace", SYSTEM)
        yield plane.administrator


def apply(kubectl: Kubectl, namespace: str) -> Stage:
    kubectl("create", "namespace", namespace)
    stage = Stage(kubectl, namespace)
    stage.set()
    return stage


def remove(stage: Stage) -> None:
    stage.kubectl("delete", "tenant", stage.tenant)
    stage.kubectl("delete", "namespace", stage.namespace, "--wait=false")
    eventually(lambda: not stage.kubectl.items("spool,llmapp", stage.namespace))


def found(stage: Stage) -> dict[str, str]:
    """All objects, by kind and name, without what differs from one namespace to the next."""
    children = stage.kubectl.items(CHILDREN, stage.namespace, "justitia.dev/pool")
    own = stage.kubectl.items(OWN, stage.namespace)
    known = {}
    for item in [*children, *own]:
        kept = {"generation": item["metadata"].get("generation"), "spec": item.get("spec")}
        if item["apiVersion"].startswith("justitia.dev/"):
            kept["status"] = item.get("status")
        elif "data" in item:
            kept["data"] = sorted(item["data"]) if item["kind"] == "Secret" else item["data"]
        text = json.dumps(kept, sort_keys=True)
        text = re.sub(r'"lastTransitionTime": "[^"]*"|"clusterIPs?": (\[[^]]*\]|"[^"]*")|keyDigests\W*\w+', "", text)
        name = f"{item['kind']} {item['metadata']['name']}"
        known[name.replace(stage.namespace, "NAMESPACE")] = text.replace(stage.namespace, "NAMESPACE")
    return known


def settle(stage: Stage) -> None:
    """The controllers of Kubernetes have done what the operator's Deployment asks for, and the operator has seen it."""
    stage.pods()
    eventually(lambda: stage.child("deployment").get("status", {}).get("replicas") == 1)
    asyncio.run(live())


def test_whatever_write_was_its_last_the_next_operator_makes_the_same_of_it(
    own_kubectl: Kubectl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", own_kubectl.kubeconfig)
    stage = apply(own_kubectl, "whole")
    writes = asyncio.run(live())
    assert writes >= LEAST_WRITES
    settle(stage)
    wanted = found(stage)
    assert asyncio.run(live()) == 0, "all is as it should be"
    remove(stage)
    differed = 0
    for last in range(1, writes + 1):
        stage = apply(own_kubectl, f"dies-{last}")
        assert asyncio.run(live(last)) == last
        differed += found(stage) != wanted
        asyncio.run(live())
        settle(stage)
        assert found(stage) == wanted, f"after a death with write {last} of {writes}"
        remove(stage)
    assert differed >= LEAST_WRITES - 2, "it died before there was something left to do"
