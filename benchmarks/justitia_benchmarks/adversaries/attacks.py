"""`python -m justitia_benchmarks.adversaries.attacks`: every adversary at once, until its time is over.

Some have no key, some have the key of a tenant. Each counts what it was answered. The process takes only the processor
time that nobody else wants (SCHED_IDLE): what is measured is harm through the pool, not through the machine.
"""

import asyncio
import contextlib
import json
import os
import random
import resource
import socket
import sys
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from justitia_benchmarks.adversaries.requests import completion, head
from justitia_vocabulary.units import Seconds

PAUSE: Seconds = 0.05
"""Between two steps of those who need not be fast."""
ANSWER_SECONDS: Seconds = 60.0
_IDLE_CONNECTIONS = 1500
_FLOODING_CLIENTS = 256
_STALLED_READERS = 16
_SMALL_BUFFER = 4096


@dataclass
class Adversary:
    """Where the pool is, the key of the tenant who attacks, and what the attacks were answered."""

    url: str
    admin: str
    key: str
    answers: Counter[str] = field(default_factory=Counter)

    @property
    def public(self) -> tuple[str, int]:
        return _address(self.url)

    async def exchange(self, data: bytes, address: tuple[str, int] | None = None) -> bytes:
        """Send all, read the answer's first bytes, close. Raises OSError and TimeoutError."""
        async with asyncio.timeout(ANSWER_SECONDS):
            reader, writer = await asyncio.open_connection(*(address or self.public))
            try:
                writer.write(data)
                await writer.drain()
                return await reader.read(4096)
            finally:
                writer.transport.abort()

    async def count(self, name: str, data: bytes, address: tuple[str, int] | None = None) -> None:
        """An exchange whose status is counted."""
        try:
            answer = await self.exchange(data, address)
        except (OSError, TimeoutError) as error:
            self.answers[f"{name}: {type(error).__name__}"] += 1
            await asyncio.sleep(PAUSE)
        else:
            self.answers[f"{name}: {answer[9:12].decode('latin-1') or 'closed'}"] += 1


Attack = Callable[[Adversary], Coroutine[Any, Any, None]]


async def wrong_keys(a: Adversary) -> None:
    """Requests with a key that nobody has, as fast as they are refused."""
    request = head("POST", "/v1/completions", key="nobody-has-this-key-0123456789", length=2) + b"{}"
    while True:
        await a.count("wrong key", request)


async def large_heads(a: Adversary) -> None:
    """8 MiB of header lines without a key."""
    lines = b"".join(b"x-%d: %s\r\n" % (n, b"y" * 1000) for n in range(8192))
    while True:
        await a.count("large head", b"GET /v1/models HTTP/1.1\r\nhost: pool\r\n" + lines)
        await asyncio.sleep(PAUSE)


async def slow_heads(a: Adversary) -> None:
    """A head of which one byte comes a second."""
    while True:
        try:
            _, writer = await asyncio.open_connection(*a.public)
            for byte in head("GET", "/v1/models", key=a.key):
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(1)
        except OSError:
            a.answers["slow head: closed"] += 1
            await asyncio.sleep(PAUSE)


async def idle_connections(a: Adversary) -> None:
    """Connections on which nothing is ever said, made again as they are closed."""

    async def hold() -> None:
        while True:
            try:
                reader, writer = await asyncio.open_connection(*a.public)
                await reader.read()
                writer.transport.abort()
            except OSError:
                pass
            a.answers["idle connection: closed"] += 1
            await asyncio.sleep(1)

    await asyncio.gather(*(hold() for _ in range(_IDLE_CONNECTIONS)))


async def flood(a: Adversary) -> None:
    """Many clients with a key, who ask again at once whatever they are told."""

    async def client(number: int) -> None:
        draw = random.Random(number)
        while True:
            body = completion(draw, output=60, stream=draw.random() < 0.5)
            await a.count("flood", head("POST", "/v1/completions", key=a.key, length=len(body)) + body)

    await asyncio.gather(*(client(number) for number in range(_FLOODING_CLIENTS)))


async def stalled_readers(a: Adversary) -> None:
    """Streams of which nothing is read."""

    async def client(number: int) -> None:
        draw = random.Random(number)
        while True:
            body = completion(draw, output=1500, stream=True)
            sock = socket.socket()
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SMALL_BUFFER)
            sock.setblocking(False)
            loop = asyncio.get_running_loop()
            with sock:
                try:
                    await loop.sock_connect(sock, a.public)
                    await loop.sock_sendall(sock, head("POST", "/v1/completions", key=a.key, length=len(body)) + body)
                except OSError:
                    a.answers["stalled reader: refused"] += 1
                await asyncio.sleep(ANSWER_SECONDS)
                a.answers["stalled reader"] += 1

    await asyncio.gather(*(client(number) for number in range(_STALLED_READERS)))


async def aborted_prompts(a: Adversary) -> None:
    """Long prompts whose client goes away before anything is answered."""
    draw = random.Random(0)
    while True:
        body = completion(draw, prompt=1500, output=16, stream=False)
        data = head("POST", "/v1/completions", key=a.key, length=len(body)) + body
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection(*a.public)
            writer.write(data)
            await writer.drain()
            await asyncio.sleep(PAUSE)
            writer.transport.abort()
        a.answers["aborted prompt"] += 1


async def large_bodies(a: Adversary) -> None:
    """Bodies as large as they may be, of which the last byte never comes, and model names of 4 MiB."""
    name = json.dumps({"model": "m" * (4 * 2**20 - 100), "prompt": "x"}).encode()
    while True:
        await a.count("large name", head("POST", "/v1/completions", key=a.key, length=len(name)) + name)
        with contextlib.suppress(OSError, TimeoutError):
            await a.exchange(head("POST", "/v1/completions", key=a.key, length=len(name)) + name[:-1])
        a.answers["body without an end"] += 1


async def deep_bodies(a: Adversary) -> None:
    """JSON that is nested a hundred thousand times."""
    body = b'{"model": "tiny", "metadata": ' + b"[" * 100_000 + b"]" * 100_000 + b', "prompt": "x"}'
    while True:
        await a.count("deep body", head("POST", "/v1/completions", key=a.key, length=len(body)) + body)
        await asyncio.sleep(PAUSE)


async def endless_runs(a: Adversary) -> None:
    """A run of its own for each request, which never ends."""
    draw = random.Random(1)
    number = 0
    while True:
        number += 1
        body = completion(draw, output=1, stream=False)
        request = head("POST", "/v1/completions", key=a.key, length=len(body), run=f"never-ends-{number}")
        await a.count("endless run", request + body)


async def scrapes(a: Adversary) -> None:
    """Whoever reaches the admin port asks for the metrics again and again."""
    while True:
        await a.count("scrape", head("GET", "/metrics"), _address(a.admin))
        await asyncio.sleep(PAUSE)


ATTACKS: tuple[Attack, ...] = (
    wrong_keys,
    large_heads,
    slow_heads,
    idle_connections,
    flood,
    stalled_readers,
    aborted_prompts,
    large_bodies,
    deep_bodies,
    endless_runs,
    scrapes,
)


async def attack(adversary: Adversary, seconds: Seconds) -> Mapping[str, int]:
    """All of them, for so long. Returns how often each was answered how."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds), asyncio.TaskGroup() as group:
            for each in ATTACKS:
                group.create_task(each(adversary))
    return adversary.answers


def _address(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    assert parts.hostname is not None
    assert parts.port is not None
    return parts.hostname, parts.port


def main() -> None:
    """Arguments: public URL, admin URL, key, seconds. Prints the counts as JSON."""
    url, admin, key, seconds = sys.argv[1:]
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    answers = asyncio.run(attack(Adversary(url, admin, key), float(seconds)))
    print(json.dumps(dict(sorted(answers.items()))))  # noqa: T201


if __name__ == "__main__":
    main()
