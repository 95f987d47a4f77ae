"""Somebody with a pool's token tells its pod other documents than the operator wrote: a real sidecar's process, what
the operator decides, and its client. The cluster's objects are the test's.
"""

import os
import subprocess
import sys
from base64 import b64decode
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
import pytest

from justitia_api.config import KeyEntry, KeyTable, PoolConfig, PoolDocuments, key_digest
from justitia_cli.local.ports import free_ports
from justitia_operator.decide.reconcile import reconcile
from justitia_operator.runtime.control import Control
from justitia_operator.world.objects import Kind, Push, Ref
from justitia_operator.world.reports import Report
from justitia_operator.world.snapshot import Snapshot
from support.resources import PEPPER, ROOT, child, config, keys, pod, pool, put, settled, small_world, without
from support.serving import answers, eventually, http, stop

POOL = Ref(Kind.SERVING_POOL, "apps", "shared")
POD = Ref(Kind.POD, "apps", "justitia-shared-1")
OURS, THEIRS = b"a-long-enough-token-of-alice", b"a-long-enough-token-of-mallory"
FAR = 1_000_000
NOW = datetime.now(UTC)
"""The time of certificates: no clock can be given to TLS."""


@dataclass
class Pod:
    """A sidecar's process, as a kubelet would have begun it."""

    public: str
    admin: str
    control_port: int

    @property
    def weight(self) -> float:
        (found,) = http.get(f"{self.admin}/internal/status").raise_for_status().json()["tenants"]
        return float(found["weight"])

    def takes(self, api_key: bytes) -> bool:
        headers = {"Authorization": f"Bearer {api_key.decode()}"}
        return http.get(f"{self.public}/v1/models", headers=headers).status_code != 401


@dataclass
class Operator:
    """Decides and tells as the operator does, when it is asked to look."""

    world: Snapshot
    control: Control
    last: Push | None = None

    async def look(self) -> None:
        """Asks the pod and carries out what follows."""
        if self.last is not None:
            self._heard(await self.control.ask(replace(self.last, documents=b""), keep=False))
        for push in reconcile(self.world, POOL, NOW).pushes:
            self.last = push
            self._heard(await self.control.tell(push))

    def _heard(self, report: Report) -> None:
        self.world = replace(self.world, reports={POD: report})

    @property
    def programmed(self) -> tuple[str, str, str]:
        (patch,) = reconcile(put(self.world, self.world.objects[POOL] | {"status": {}}), POOL, NOW).statuses
        (found,) = (c for c in patch.status["conditions"] if c["type"] == "Programmed")
        return found["status"], found["reason"], found["message"]


@pytest.fixture
def world() -> Snapshot:
    return put(settled(small_world(), NOW), pod(address="127.0.0.1"))


@pytest.fixture
def scheduler(world: Snapshot, tmp_path: Path) -> Iterator[Pod]:
    """With the files that the operator wrote for it."""
    (tmp_path / "pool.json").write_text(child(world, Kind.CONFIG_MAP)["data"]["pool.json"])
    for name, encoded in child(world, Kind.SECRET)["data"].items():
        (tmp_path / name).write_bytes(b64decode(encoded))
    public, admin, control = free_ports(3)
    settings = {
        "CONFIG_FILE": tmp_path / "pool.json",
        "KEYS_FILE": tmp_path / "keys.json",
        "CONTROL_FOLDER": tmp_path,
        "CONTROL_HOST": "127.0.0.1",
        "CONTROL_PORT": control,
        "ENGINE_URL": "http://127.0.0.1:1",
        "HOST": "127.0.0.1",
        "PORT": public,
        "ADMIN_HOST": "127.0.0.1",
        "ADMIN_PORT": admin,
    }
    environment = os.environ | {f"JUSTITIA_{name}": str(value) for name, value in settings.items()}
    process = subprocess.Popen([sys.executable, "-m", "justitia_sidecar"], env=environment)
    found = Pod(f"http://127.0.0.1:{public}", f"http://127.0.0.1:{admin}", control)
    try:
        eventually("the scheduler is up", lambda: answers(f"{found.admin}/internal/status"))
        yield found
    finally:
        stop(process)


def foreign(world: Snapshot, configuration_generation: int, keys_generation: int) -> PoolDocuments:
    """Another weight, and a key of mallory's in the place of alice's."""
    before: PoolConfig = config(world)
    entry = KeyEntry(digest=key_digest(PEPPER, THEIRS), tenant="alice")
    tenants = tuple(each.model_copy(update={"weight": 1000.0}) for each in before.tenants)
    return PoolDocuments(
        configuration=before.model_copy(update={"generation": configuration_generation, "tenants": tenants}),
        keys=KeyTable(generation=keys_generation, pepper=keys(world).pepper, keys=(entry,)),
    )


async def test_a_revoked_key_is_refused_though_the_pool_is_paused(world: Snapshot, scheduler: Pod) -> None:
    async with aiohttp.ClientSession() as session:
        operator = Operator(world, Control(session, ROOT, lambda: NOW, scheduler.control_port))
        await operator.look()
        paused = pool(paused=True) | {"status": world.objects[POOL]["status"]}
        halted = without(put(operator.world, paused), Ref(Kind.SECRET, "justitia-system", "alice-key"))
        operator.world = halted
        await operator.look()
        assert (scheduler.weight, scheduler.takes(OURS)) == (1.0, False)


@pytest.mark.parametrize(
    ("configuration", "table"),
    [(FAR, FAR), (1, 1), (1, FAR), (FAR, 1), (2**62, 2**62)],
    ids=["far ahead", "the same generation", "keys far ahead", "configuration far ahead", "as far as can be"],
)
async def test_what_somebody_else_put_in_effect_is_replaced_at_the_next_look(
    world: Snapshot, scheduler: Pod, configuration: int, table: int
) -> None:
    async with aiohttp.ClientSession() as session:
        operator = Operator(world, Control(session, ROOT, lambda: NOW, scheduler.control_port))
        await operator.look()
        assert (scheduler.weight, scheduler.takes(OURS), scheduler.takes(THEIRS)) == (1.0, True, False)
        assert operator.last is not None
        documents = foreign(world, configuration, table).model_dump_json(by_alias=True).encode()
        await operator.control.tell(replace(operator.last, documents=documents))
        assert scheduler.weight == 1000.0
        await operator.look()
        assert (scheduler.weight, scheduler.takes(OURS), scheduler.takes(THEIRS)) == (1.0, True, False)
        assert operator.programmed[:2] == ("True", "Programmed")
