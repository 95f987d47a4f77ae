"""A phase of the demo samples tenants while it replays, also beside a sidecar that is too busy to answer at times."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from justitia_cli.demo import measure
from justitia_cli.demo.measure import DemoPhase

TENANT = {"name": "gold", "service": 3.0, "queued": 1, "running": 2}


class BusyPool:
    """Answers every second time it is asked."""

    def __init__(self) -> None:
        self._answers: Iterator[int] = iter(range(100))

    def status(self) -> dict[str, Any]:
        if next(self._answers) % 2 == 0:
            raise TimeoutError("timed out")
        return {"tenants": [TENANT]}


async def test_a_sample_that_does_not_come_in_time_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "SAMPLE_SECONDS", 0.0)

    class Anything:
        policy = "any"

    phase = DemoPhase(BusyPool(), Anything(), [], lambda status, text: None)  # type: ignore[arg-type]
    phase._samples, phase._progress = [], ""
    sampler = asyncio.create_task(phase._sample(0.0))
    while len(phase._samples) < 3:
        await asyncio.sleep(0)
        assert not sampler.done()
    sampler.cancel()
    assert {(s.tenant, s.queued) for s in phase._samples} == {("gold", 1)}
