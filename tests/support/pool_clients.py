"""Clients of a pool of real sidecars."""

import asyncio
import json
import math
import re
from dataclasses import dataclass

import aiohttp

from justitia_benchmarks.paced_pool import MODEL, PacedPool, Pod, Reached, key_of

TENANT = "one"
PROMPT, OUTPUT = 64, 16


@dataclass
class Answer:
    status: int
    body: bytes
    headers: dict[str, str]

    @property
    def whole(self) -> bool:
        return self.status == 200 and self.body.endswith(b"data: [DONE]\n\n")

    @property
    def code(self) -> str:
        return str(json.loads(self.body)["error"]["code"])


class Clients:
    def __init__(self, pool: PacedPool, client: aiohttp.ClientSession) -> None:
        self.pool = pool
        self.pods = pool.pods
        self.client = client

    async def ask(self, at: Reached, output: int = OUTPUT, **headers: str) -> Answer:
        body = {"model": MODEL, "prompt": [1] * PROMPT, "max_tokens": output, "stream": True, "ignore_eos": True}
        authorization = {"authorization": f"Bearer {key_of(TENANT)}", "content-type": "application/json"}
        data = json.dumps(body)
        async with self.client.post(at.url, data=data, headers={**authorization, **headers}) as answer:
            parts = []
            try:
                async for part in answer.content.iter_any():
                    parts.append(part)
            except aiohttp.ClientError:
                parts.append(b"broken off")
            return Answer(answer.status, b"".join(parts), dict(answer.headers))

    def ask_at_once(self, at: Reached, number: int, output: int = OUTPUT) -> "asyncio.Future[list[Answer]]":
        return asyncio.ensure_future(asyncio.gather(*(self.ask(at, output) for _ in range(number))))

    async def metric(self, pod: Pod, name: str, **labels: str) -> float:
        """The sum of a metric over all of its labels but those."""
        async with self.client.get(f"http://127.0.0.1:{pod.admin}/metrics") as answer:
            lines = re.findall(rf"^{name}(\{{[^}}]*\}})? (\S+)$", await answer.text(), re.MULTILINE)
        wanted = [f'{label}="{value}"' for label, value in labels.items()]
        return sum(float(value) for found, value in lines if all(each in found for each in wanted))

    async def served(self) -> list[float]:
        """How many requests each engine has served to their end."""
        return [await self.metric(pod, "justitia_requests_total", outcome="completed") for pod in self.pods]

    async def eventually(self, pod: Pod, least: float, name: str, most: float = math.inf) -> None:
        """Wait until a metric is within these bounds."""
        async with asyncio.timeout(60):
            while True:
                if least <= await self.metric(pod, name) <= most:
                    return
                await asyncio.sleep(0.05)

    async def share(self) -> None:
        """Wait until all serve, and each knows where the others are: that takes an exchange more."""
        await self.pool.serves(self.client, shares=True)
        for pod in self.pods:
            exchanges = await self.metric(pod, "justitia_pool_exchange_seconds_count")
            await self.eventually(pod, exchanges + 2, "justitia_pool_exchange_seconds_count")
