"""A client that stops reading harms neither the engine nor other tenants: real sidecar process, fake engine."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from support.misbehaving_engine import MisbehavingEngine, Misbehaviour
from support.serving import KEYS, MODEL, RunningSidecar, at_rest, eventually, http, running_sidecar
from support.stalled_reader import stalled_readers

HANG_SECONDS = 4.0
PROBES = 20
"""That take longer, at one in 0.25 s or in 1 s."""
BODY: dict[str, Any] = {"model": MODEL, "prompt": [1, 2, 3], "max_tokens": 300, "stream": True}


@asynccontextmanager
async def serving(folder: Path, behaviour: Misbehaviour) -> AsyncIterator[tuple[MisbehavingEngine, RunningSidecar]]:
    settings = {"HANG_SECONDS": str(HANG_SECONDS), "HANG_FILE": str(folder / "hangs")}
    async with MisbehavingEngine().serving() as engine:
        engine.behaviour = behaviour
        starting = running_sidecar(folder / "sidecar", engine.url, settings=settings)
        sidecar = await asyncio.to_thread(starting.__enter__)
        try:
            yield engine, sidecar
        finally:
            await asyncio.to_thread(starting.__exit__, None, None, None)


def probes(engine: MisbehavingEngine, number: int) -> None:
    """Waits until the sidecar has looked at the engine so often."""
    last = engine.probed + number
    eventually("the engine is probed", lambda: engine.probed >= last)


@pytest.mark.parametrize("behaviour", [Misbehaviour.SAYS_MUCH, Misbehaviour.SAYS_MUCH_AT_ONCE])
async def test_what_the_engine_has_finished_is_released_and_the_engine_is_not_taken_to_hang(
    tmp_path: Path, behaviour: Misbehaviour
) -> None:
    body = BODY | {"stream": behaviour is Misbehaviour.SAYS_MUCH}
    async with serving(tmp_path, behaviour) as (engine, sidecar):
        with stalled_readers(sidecar.public, KEYS["silver"], body, 3):
            await asyncio.to_thread(eventually, "the engine has them", lambda: len(engine.received) == 3)
            await asyncio.to_thread(eventually, "all is released", lambda: at_rest(sidecar))
            assert sidecar.status()["kvHeldTokens"] == 0
            await asyncio.to_thread(probes, engine, PROBES)
            engine.behaviour = Misbehaviour.NONE
            answer = await asyncio.to_thread(
                http.post,
                f"{sidecar.public}/v1/completions",
                json=BODY,
                headers={"authorization": f"Bearer {KEYS['gold']}"},
            )
            assert answer.status_code == 200
            assert answer.text.endswith("data: [DONE]\n\n")
        assert "engine hangs" not in sidecar.log.read_text()
        assert not (tmp_path / "hangs").exists()
