"""A small streamed request to a sidecar that runs."""

import aiohttp

from support.serving import RunningSidecar


async def ask(client: aiohttp.ClientSession, sidecar: RunningSidecar, key: str) -> int:
    """Read the whole answer; returns its status."""
    body = {"model": "tiny", "prompt": [1, 2, 3], "max_tokens": 2, "stream": True}
    headers = {"authorization": f"Bearer {key}"}
    async with client.post(f"{sidecar.public}/v1/completions", json=body, headers=headers) as answer:
        await answer.read()
        return answer.status
