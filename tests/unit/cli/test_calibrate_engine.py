"""What calibration says of endpoints that cannot be measured: always one line that names the way out."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from justitia_cli import calibrate_engine
from justitia_cli.calibrate_engine import KVSpace, LiveEngine, Timeline, read_kv_space, read_timeline
from justitia_cli.calibrate_measure import Limits, measure, plan_measurements
from justitia_cli.replay import TargetError
from justitia_simulator.calibration import CalibrationError
from support.misbehaving_engine import METRICS, MisbehavingEngine, Misbehaviour, event

PROMPT, OUTPUT = 3, 2
"""What the misbehaving engine says it was sent and produced."""


@pytest.mark.parametrize(
    ("behaviour", "what"),
    [
        (Misbehaviour.DIES_MID_STREAM, "is the engine up and reachable"),
        (Misbehaviour.DIES_BEFORE_ANSWER, "is the engine up and reachable"),
        (Misbehaviour.ENDS_WITHOUT_DONE, r"ended before \[DONE\]"),
        (Misbehaviour.REFUSES, "HTTP 400"),
        (Misbehaviour.HANGS, "no answer in"),
    ],
    ids=lambda value: value.value if isinstance(value, Misbehaviour) else "",
)
async def test_an_engine_that_fails_ends_the_measurement(
    behaviour: Misbehaviour, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if behaviour is Misbehaviour.HANGS:
        monkeypatch.setattr(calibrate_engine, "ANSWER_TIMEOUT", 0.3)
    async with MisbehavingEngine().serving() as misbehaving:
        misbehaving.behaviour = behaviour
        async with LiveEngine.connect(f"{misbehaving.url}/v1", "key", None) as engine:
            with pytest.raises(CalibrationError, match=what) as raised:
                await engine.together([PROMPT, PROMPT], OUTPUT)
            assert "\n" not in str(raised.value)


async def test_garbage_between_events_does_not_matter() -> None:
    async with MisbehavingEngine().serving() as misbehaving:
        misbehaving.behaviour = Misbehaviour.GARBAGE
        async with LiveEngine.connect(f"{misbehaving.url}/v1", "key", None) as engine:
            timeline = await engine.request(PROMPT, OUTPUT)
    assert [produced for _, produced in timeline.produced] == [1, 2]


async def test_what_the_engine_tells_of_itself_is_read() -> None:
    async with (
        MisbehavingEngine().serving() as misbehaving,
        LiveEngine.connect(f"{misbehaving.url}/v1", "key", None) as engine,
    ):
        assert engine.model == "m"
        assert await engine.longest_request() == 900
        assert await engine.kv_space() == KVSpace(tokens=1000, block_size=10)
        await engine.request(PROMPT, OUTPUT)
        await engine.request(PROMPT, OUTPUT)
    bodies = [json.loads(body) for _, body in misbehaving.received]
    assert all(b["ignore_eos"] and b["max_tokens"] == OUTPUT and len(b["prompt"]) == PROMPT for b in bodies)
    assert all(b["stream_options"] == {"include_usage": True, "continuous_usage_stats": True} for b in bodies)


async def test_another_number_of_tokens_than_was_asked_is_an_error() -> None:
    async with (
        MisbehavingEngine().serving() as misbehaving,
        LiveEngine.connect(f"{misbehaving.url}/v1", "key", None) as engine,
    ):
        with pytest.raises(CalibrationError, match="produced 2 of 5 tokens"):
            await engine.request(PROMPT, 5)
        with pytest.raises(CalibrationError, match="counts 3 tokens in a prompt of 4"):
            await engine.request(4, OUTPUT)


def test_a_stream_without_usage_is_an_error() -> None:
    stream = b'data: {"choices":[{"text":"a"}]}\n\ndata: [DONE]\n\n'
    with pytest.raises(CalibrationError, match="continuous_usage_stats"):
        read_timeline(PROMPT, 1, 0.0, [(0.1, stream)])


class CountsAtTheEnd(LiveEngine):
    """An engine on purpose without `continuous_usage_stats`."""

    def __init__(self) -> None:
        pass

    async def request(self, prompt_tokens: int, output_tokens: int) -> Timeline:
        return Timeline(prompt_tokens, 0.0, ((1.0, output_tokens),))


async def test_usage_at_the_end_alone_is_an_error() -> None:
    """Forty tokens with one count say nothing of a step."""
    with pytest.raises(CalibrationError, match="continuous_usage_stats"):
        await measure(CountsAtTheEnd(), plan_measurements(Limits(2048, 8192, 8, 2048), 1), lambda done, what: None)


def test_an_event_in_two_pieces_counts_when_it_is_whole() -> None:
    first = event(1)
    timeline = read_timeline(
        PROMPT, 2, 0.0, [(0.1, first[:9]), (0.2, first[9:]), (0.3, event(2) + b"data: [DONE]\n\n")]
    )
    assert timeline.produced == ((0.2, 1), (0.3, 2))


@pytest.mark.parametrize(
    ("metrics", "found"),
    [
        (METRICS, KVSpace(1000, 10)),
        ("", None),
        ('vllm:cache_config_info{block_size="16",num_gpu_blocks="None"} 1.0\n', None),
        ('vllm:cache_config_info{block_size="16",num_gpu_blocks="0"} 1.0\n', None),
    ],
    ids=["vLLM's", "none", "not known yet", "no blocks"],
)
def test_kv_space_is_read_from_the_metrics_or_not_known(metrics: str, found: KVSpace | None) -> None:
    assert read_kv_space(metrics) == found


@asynccontextmanager
async def answering(path: str, handler: Callable[[web.Request], Awaitable[web.Response]]) -> AsyncIterator[str]:
    application = web.Application()
    application.router.add_route("*", path, handler)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    finally:
        await runner.cleanup()


@pytest.mark.parametrize(
    ("status", "what"), [(401, "--api-key"), (403, "--api-key"), (404, "check --model"), (500, "HTTP 500")]
)
async def test_an_http_error_says_what_to_do(status: int, what: str) -> None:
    async def refuse(_: web.Request) -> web.Response:
        return web.json_response({"error": {"message": "no"}}, status=status)

    async with answering("/v1/completions", refuse) as url, LiveEngine.connect(url, "key", "m") as engine:
        with pytest.raises(CalibrationError, match=what):
            await engine.request(PROMPT, OUTPUT)


async def test_metrics_that_are_not_there_are_no_error() -> None:
    async def nothing(_: web.Request) -> web.Response:
        return web.Response(status=404)

    async with answering("/metrics", nothing) as url, LiveEngine.connect(url, "key", "m") as engine:
        assert await engine.kv_space() is None
        assert await engine.longest_request() is None


async def test_a_choice_of_models_is_an_error_that_names_them() -> None:
    async def two(_: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": "a"}, {"id": "b"}]})

    async with answering("/v1/models", two) as url:
        with pytest.raises(TargetError, match=r"\['a', 'b'\].*--model"):
            async with LiveEngine.connect(url, "key", None):
                pass


@pytest.mark.parametrize("url", ["127.0.0.1:8000/v1", "ftp://there/v1", "http://", ""])
async def test_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(CalibrationError, match="--base-url"):
        async with LiveEngine.connect(url, "key", "m"):
            pass
