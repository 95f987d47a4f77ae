"""What the sidecar makes of an engine's answers to its probes."""

import pytest

from justitia_sidecar.engine.client import EngineClient, EngineError
from justitia_sidecar.engine.view import EngineView
from support.misbehaving_engine import METRICS, MisbehavingEngine


async def probe(engine: MisbehavingEngine) -> EngineView:
    async with engine.serving(), EngineClient.session() as session:
        return await EngineClient(engine.url, session).probe(EngineView())


async def test_an_engine_that_would_compress_its_metrics_is_read() -> None:
    view = await probe(MisbehavingEngine())
    assert (view.ready, view.kv_tokens, view.longest) == (True, 1_000, 900)


@pytest.mark.parametrize(
    "metrics",
    [
        b"",
        b"\x1f\x8b",
        METRICS.replace('waiting{engine="0"} 0.0', 'waiting{engine="0"} many').encode(),
        METRICS.replace('waiting{engine="0"} 0.0', 'waiting{engine="0"} NaN').encode(),
        METRICS.replace('waiting{engine="0"} 0.0', 'waiting{engine="0"} +Inf').encode(),
        METRICS.replace('num_gpu_blocks="100"', 'num_gpu_blocks="None"').encode(),
    ],
    ids=["nothing", "not text", "no number", "NaN", "infinite", "no blocks"],
)
async def test_metrics_that_are_not_understood_are_an_error_of_the_engine(metrics: bytes) -> None:
    engine = MisbehavingEngine()
    engine.metrics = metrics
    with pytest.raises(EngineError):
        await probe(engine)
