"""Conditions say what a client sees at that moment: what the operator writes is given to a real sidecar process, and a
client is asked beside the conditions. The engine is one that says what vLLM says, or none.
"""

import asyncio
import os
import subprocess
import sys
from base64 import b64decode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx2 as httpx
import pytest

from justitia_cli.local.ports import free_ports
from justitia_operator.world.objects import Json, Kind, Ref
from justitia_operator.world.snapshot import Snapshot
from support.misbehaving_engine import MisbehavingEngine
from support.resources import (
    application,
    child,
    condition,
    key,
    pool,
    settled,
    tenant,
    with_ready_engines,
    without,
    world,
)
from support.serving import answers, eventually, stop

OURS = "a-long-enough-token-of-alice"
BODY = {"model": "acme/model", "prompt": [1, 2, 3], "max_tokens": 2, "stream": True}
GOLD = pool(scheduling={"tiers": [{"name": "gold", "weight": "2"}]})


@dataclass(frozen=True)
class World:
    """What there is, what goes after it has settled, and whether an engine serves."""

    objects: tuple[Json, ...]
    engine: bool = True
    gone: tuple[Ref, ...] = ()

    def observed(self) -> Snapshot:
        cold = settled(world(*self.objects))
        warm = settled(with_ready_engines(cold)) if self.engine else cold
        return settled(without(warm, *self.gone)) if self.gone else warm


WORLDS = {
    "all is there": World((tenant(), key(), pool(), application())),
    "no engine": World((tenant(), key(), pool(), application()), engine=False),
    "no key": World((tenant(), pool(), application())),
    "a key that is too short": World((tenant(), key(token="short"), pool(), application())),
    "a key that was revoked": World(
        (tenant(), key(), pool(), application()), gone=(Ref(Kind.SECRET, "justitia-system", "alice-key"),)
    ),
    "another tenant's key": World(
        (
            tenant(created="2026-01-02T00:00:00Z"),
            key(),
            tenant("bob", created="2026-01-01T00:00:00Z"),
            key("bob", token=OURS),
            pool(),
            application(),
            application("bobs", tenant="bob"),
        )
    ),
    "a known tier": World((tenant(tier="gold"), key(), GOLD, application())),
    "an unknown tier": World((tenant(tier="tin"), key(), GOLD, application())),
    "a namespace that the tenant does not allow": World(
        (tenant(namespaces={"names": ["other"]}), key(), pool(), application())
    ),
    "a tenant that is not there": World((key(), pool(), application())),
    "an application that is new and paused": World((tenant(), key(), pool(), application(paused=True))),
    "a pool that is new and paused": World((tenant(), key(), pool(paused=True), application()), engine=False),
}


def begin(environment: dict[str, str]) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-m", "justitia_sidecar"], env=environment)


@asynccontextmanager
async def scheduler(snapshot: Snapshot, folder: Path, engine: bool) -> AsyncIterator[str]:
    """A sidecar's process with the files that the operator wrote. Its public URL."""
    for name, text in child(snapshot, Kind.CONFIG_MAP).get("data", {}).items():
        (folder / name).write_text(text)
    for name, encoded in child(snapshot, Kind.SECRET)["data"].items():
        (folder / name).write_bytes(b64decode(encoded))
    public, admin = free_ports(2)
    async with MisbehavingEngine().serving() as serving:
        settings = {
            "CONFIG_FILE": folder / "pool.json",
            "KEYS_FILE": folder / "keys.json",
            "ENGINE_URL": serving.url if engine else "http://127.0.0.1:1",
            "HOST": "127.0.0.1",
            "PORT": public,
            "ADMIN_HOST": "127.0.0.1",
            "ADMIN_PORT": admin,
        }
        environment = os.environ | {f"JUSTITIA_{name}": str(value) for name, value in settings.items()}
        process = await asyncio.to_thread(begin, environment)
        probe = f"http://127.0.0.1:{admin}/{'readyz' if engine else 'healthz'}"
        try:
            await asyncio.to_thread(eventually, "the scheduler is up", lambda: answers(probe), 60)
            yield f"http://127.0.0.1:{public}"
        finally:
            await asyncio.to_thread(stop, process)


async def is_answered(public: str) -> bool:
    """Whether a client of the application gets an answer."""
    url = f"{public}/applications/apps/chat/v1/completions"
    async with httpx.AsyncClient(timeout=60) as client:
        answer = await client.post(url, json=BODY, headers={"authorization": f"Bearer {OURS}"})
    return answer.status_code == 200


@pytest.mark.parametrize("given", WORLDS.values(), ids=WORLDS)
async def test_ready_is_true_where_a_client_is_answered_and_nowhere_else(given: World, tmp_path: Path) -> None:
    snapshot = given.observed()
    ready = condition(snapshot, Kind.LLM_APPLICATION, "chat", "Ready")
    if Ref(Kind.CONFIG_MAP, "apps", "justitia-shared") not in snapshot.objects:
        assert ready[0] == "False", "nothing was written for pods to run by"
        return
    async with scheduler(snapshot, tmp_path, given.engine) as public:
        answered = await is_answered(public)
    assert (ready[0] == "True") is answered, ready
    if Ref(Kind.TENANT, "", "alice") in snapshot.objects:
        tenants = condition(snapshot, Kind.TENANT, "alice", "Ready")
        assert (tenants[0] == "True") is answered, tenants
    assert condition(snapshot, Kind.SERVING_POOL, "shared", "PoolFairness")[0] == ("True" if given.engine else "False")
