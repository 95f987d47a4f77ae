"""A client of a sidecar over ASGI, in the test's own event loop, and the pool that it asks."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from justitia_api.config import (
    ApplicationConfig,
    KeyEntry,
    KeyTable,
    PoolConfig,
    SchedulingConfig,
    TenantConfig,
    key_digest,
)
from justitia_sidecar.ports.public import PublicApp
from justitia_sidecar.request.asgi import Receive, Scope, Send
from justitia_sidecar.request.parts import Parts
from justitia_sidecar.service import Sidecar
from justitia_vocabulary.policies import CostModelName, PolicyName
from justitia_vocabulary.units import TenantId

Application = Callable[[Scope, Receive, Send], Awaitable[None]]
PEPPER = "0f" * 16
KEY = b"sk-0123456789abcdef"
GOLD = TenantId("gold")
BODY = {"model": "m", "prompt": [1, 2, 3], "max_tokens": 2, "stream": True}


def pool(generation: int = 1, **changes: Any) -> PoolConfig:
    fields = {
        "generation": generation,
        "namespace": "ns",
        "name": "p",
        "model": "m",
        "scheduling": SchedulingConfig(policy=PolicyName.FCFS, cost_model=CostModelName.WEIGHTED_TOKENS),
        "tenants": (TenantConfig(name="gold", weight=1),),
        "applications": (ApplicationConfig(namespace="ns", name="a", tenant="gold"),),
    }
    return PoolConfig(**{**fields, **changes})


def give_key(sidecar: Sidecar) -> None:
    """Let the sidecar know `KEY`, which is gold's."""
    entry = KeyEntry(digest=key_digest(PEPPER, KEY), tenant=GOLD)
    sidecar.parts.current.put_keys(KeyTable(pepper=PEPPER, keys=(entry,)))


async def engine_answers(sidecar: Sidecar) -> None:
    admission = sidecar.parts.current.configured().admission
    admission.engine_told(await sidecar.parts.engine.probe(admission.engine), sidecar.parts.clock())


@dataclass
class Client:
    """One request over ASGI."""

    sidecar: Sidecar
    body: bytes = field(default_factory=lambda: json.dumps(BODY).encode())
    headers: dict[bytes, bytes] = field(default_factory=dict)
    path: str = "/v1/completions"
    sent: list[dict[str, Any]] = field(default_factory=list)
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    first_chunk: asyncio.Event = field(default_factory=asyncio.Event)
    read_bytes: bool = False
    chunked: bool = False
    app: Callable[[Parts], Application] = PublicApp

    async def run(self) -> "Client":
        length = {} if self.chunked else {b"content-length": b"%d" % len(self.body)}
        headers = {b"authorization": b"Bearer " + KEY, **length, **self.headers}
        scope = {"type": "http", "method": "POST", "path": self.path, "headers": list(headers.items())}
        async with asyncio.timeout(60):
            await self.app(self.sidecar.parts)(scope, self._receive, self._send)
        return self

    async def _receive(self) -> dict[str, Any]:
        if not self.read_bytes:
            self.read_bytes = True
            return {"type": "http.request", "body": self.body, "more_body": False}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        self.sent.append(message)
        if message.get("body"):
            self.first_chunk.set()

    @property
    def status(self) -> int:
        return int(self.sent[0]["status"])

    @property
    def answer(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent[1:])

    @property
    def code(self) -> str:
        return str(json.loads(self.answer)["error"]["code"])


def assert_nothing_left(sidecar: Sidecar) -> None:
    admission = sidecar.parts.current.configured().admission
    assert not admission.books.requests
    assert len(admission.books.runs) == 0
    assert (admission.held, admission.books.queued, sidecar.parts.open.count) == (0, 0, 0)
    assert not sidecar.parts.open.waits
