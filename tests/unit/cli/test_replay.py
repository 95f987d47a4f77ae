"""The replay's client against endpoints that fail. That it works against a real engine, the demo shows."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from justitia_cli.prompts import Prompts
from justitia_cli.replay import CANCELLED, Replay, Target, TargetError, replay
from justitia_cli.replay_command import until_done_or_interrupted
from justitia_simulator.workload import WorkloadRequest, WorkloadRun, WorkloadStage, write_workload

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def run(name: str = "r", *, stages: int = 1, width: int = 1, tenant: str = "t") -> WorkloadRun:
    request = WorkloadRequest(6, 2)
    return WorkloadRun(name, tenant, "team/app", 0.0, tuple(WorkloadStage((request,) * width) for _ in range(stages)))


class MisbehavingEndpoint:
    """Answers with two tokens, or fails as given for the n-th request. Remembers what it was sent."""

    def __init__(self, failures: dict[int, Handler] | None = None) -> None:
        self.failures = failures or {}
        self.seen: list[tuple[str, dict[str, str], dict[str, object]]] = []
        self.arrived = asyncio.Event()

    async def completions(self, http: web.Request) -> web.StreamResponse:
        number = len(self.seen)
        self.seen.append((http.path, dict(http.headers), await http.json()))
        self.arrived.set()
        if number in self.failures:
            return await self.failures[number](http)
        response = await streamed(http, b'{"choices":[{"text":"a","finish_reason":null}]}')
        for event in (
            b'{"choices":[{"text":"b","finish_reason":"length"}]}',
            b'{"choices":[],"usage":{"completion_tokens":2}}',
        ):
            await response.write(b"data: " + event + b"\n\n")
        await response.write(b"data: [DONE]\n\n")
        return response

    async def models(self, http: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": "tiny", "object": "model"}]})

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[str]:
        application = web.Application()
        application.router.add_post("/{prefix:.*}/completions", self.completions)
        application.router.add_get("/v1/models", self.models)
        runner = web.AppRunner(application, handler_cancellation=True)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        try:
            host, port = runner.addresses[0][:2]
            yield f"http://{host}:{port}/v1"
        finally:
            await runner.cleanup()


async def streamed(http: web.Request, event: bytes) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(http)
    await response.write(b"data: " + event + b"\n\n")
    return response


async def refuse(http: web.Request) -> web.StreamResponse:
    return web.json_response({"error": {"message": "full", "code": "queue_full"}}, status=429)


async def hang_up(http: web.Request) -> web.StreamResponse:
    response = await streamed(http, b'{"choices":[{"text":"a","finish_reason":null}]}')
    assert http.transport is not None
    http.transport.close()
    return response


async def error_in_stream(http: web.Request) -> web.StreamResponse:
    response = await streamed(http, b'{"choices":[{"text":"a","finish_reason":null}]}')
    await response.write(b'data: {"error":{"message":"gone","code":"engine_unavailable"}}\n\n')
    return response


async def end_early(http: web.Request) -> web.StreamResponse:
    return await streamed(http, b'{"choices":[{"text":"a","finish_reason":null}]}')


async def never_answer(http: web.Request) -> web.StreamResponse:
    await asyncio.Event().wait()
    raise AssertionError


def closed_endpoint() -> str:
    """A loopback address where nothing listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}/v1"


def target(url: str, **fields: object) -> Target:
    return Target(**({"base_url": url, "model": "tiny", "api_keys": {"t": "secret"}} | fields))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("failure", "status", "tokens"),
    [
        (refuse, "HTTP 429 queue_full", 0),
        (hang_up, "connection: ", 1),
        (error_in_stream, "stream error engine_unavailable", 1),
        (end_early, r"the stream ended before [DONE]", 1),
    ],
)
async def test_a_failed_request_is_recorded_with_its_reason_and_what_it_produced(
    failure: Handler, status: str, tokens: int
) -> None:
    endpoint = MisbehavingEndpoint({0: failure})
    async with endpoint.serve() as url:
        results = await replay([run()], target(url))
    [request] = results.requests
    assert request.status.startswith(status)
    assert (request.output_tokens, request.finished) == (tokens, None)
    assert [r.jct for r in results.runs] == [None]


async def test_a_failure_is_not_tried_again_and_ends_its_run_but_no_other() -> None:
    endpoint = MisbehavingEndpoint({0: refuse})
    async with endpoint.serve() as url:
        results = await replay([run("r", stages=2), run("s", stages=2)], target(url))
    assert sorted(len([r for r in results.requests if r.run == name]) for name in "rs") == [1, 2]
    assert len(endpoint.seen) == 3
    assert sorted((r.jct is None) for r in results.runs) == [False, True]


async def test_an_endpoint_that_is_not_there_is_recorded() -> None:
    results = await replay([run()], target(closed_endpoint()))
    assert results.requests[0].status.startswith("connection")


async def test_a_cancelled_replay_keeps_what_finished_and_marks_the_rest() -> None:
    endpoint = MisbehavingEndpoint({1: never_answer})
    async with endpoint.serve() as url:
        going = Replay([run(stages=2)], target(url))
        task = asyncio.create_task(going.run())
        while len(endpoint.seen) < 2:
            endpoint.arrived.clear()
            await asyncio.wait_for(endpoint.arrived.wait(), timeout=10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert [r.status for r in going.results().requests] == ["finished", CANCELLED]
        assert [r.jct for r in going.results().runs] == [None]


async def test_an_interrupt_ends_the_replay_and_keeps_what_finished() -> None:
    endpoint = MisbehavingEndpoint({1: never_answer})
    async with endpoint.serve() as url:
        going = Replay([run(stages=2)], target(url))
        task = asyncio.create_task(until_done_or_interrupted(going))
        while len(endpoint.seen) < 2:
            endpoint.arrived.clear()
            await asyncio.wait_for(endpoint.arrived.wait(), timeout=10)
        os.kill(os.getpid(), signal.SIGINT)
        assert await asyncio.wait_for(task, timeout=10) is True
    assert [r.status for r in going.results().requests] == ["finished", CANCELLED]


async def test_a_stage_is_due_its_delay_after_the_stage_before_and_time_can_be_stretched() -> None:
    stages = (WorkloadStage((WorkloadRequest(6, 2),)), WorkloadStage((WorkloadRequest(6, 2),), delay=0.1))
    endpoint = MisbehavingEndpoint()
    async with endpoint.serve() as url:
        results = await replay([WorkloadRun("r", "t", "a", 0.05, stages)], target(url, time_scale=2.0))
    first, second = results.requests
    assert (first.arrival, first.ready) == (pytest.approx(0.1), pytest.approx(0.1))
    assert second.ready == pytest.approx((first.finished or 0.0) + 0.2, abs=0.05)
    assert second.first_token is not None
    assert second.first_token >= second.ready


async def test_requests_carry_key_application_run_exact_prompt_and_the_runs_end() -> None:
    endpoint = MisbehavingEndpoint()
    async with endpoint.serve() as url:
        results = await replay([run(stages=2, width=2)], target(url))
    assert [r.status for r in results.requests] == ["finished"] * 4
    assert [r.output_tokens for r in results.requests] == [2] * 4
    ends = [headers.get("x-justitia-run-end") for _, headers, _ in endpoint.seen]
    assert ends.count("true") == 1
    assert ends[:2] == [None, None]
    path, headers, body = endpoint.seen[0]
    assert (path, headers["x-justitia-application"], headers["x-justitia-run"]) == ("/v1/completions", "team/app", "r")
    assert headers["Authorization"] == "Bearer secret"
    assert (body["max_tokens"], body["ignore_eos"], body["stream"]) == (2, True, True)
    assert body["prompt"] == Prompts(run(stages=2, width=2), 1, (3, 400)).write(0, WorkloadRequest(6, 2))


async def test_a_caller_that_has_other_prompts_writes_the_bodies() -> None:
    endpoint = MisbehavingEndpoint()

    def write(run: WorkloadRun, number: int) -> dict[str, object]:
        return {"prompt": f"{run.id}, {number}", "max_tokens": 9}

    async with endpoint.serve() as url:
        await replay([run(stages=2)], target(url, write=write))
    sent = [{name: body.get(name) for name in ("prompt", "max_tokens", "ignore_eos")} for _, _, body in endpoint.seen]
    assert sent == [{"prompt": f"r, {number}", "max_tokens": 9, "ignore_eos": None} for number in (0, 1)]


async def test_a_base_url_with_the_application_in_it_replaces_the_header() -> None:
    endpoint = MisbehavingEndpoint()
    async with endpoint.serve() as url:
        await replay([run()], target(url.replace("/v1", "/applications/{application}/v1")))
    path, headers, _ = endpoint.seen[0]
    assert path == "/applications/team/app/v1/completions"
    assert "x-justitia-application" not in headers


async def test_the_only_model_of_an_endpoint_needs_no_name() -> None:
    endpoint = MisbehavingEndpoint()
    async with endpoint.serve() as url:
        await replay([run()], target(url, model=None))
    assert endpoint.seen[0][2]["model"] == "tiny"


def test_a_tenant_without_a_key_is_refused_before_anything_is_sent() -> None:
    with pytest.raises(TargetError, match="no API key for tenant u: give --api-key u=KEY"):
        Replay([run(tenant="u")], target("http://127.0.0.1:1/v1"))


def test_prompts_have_the_asked_length_are_seeded_and_share_their_prefix() -> None:
    shared = WorkloadRequest(500, 2, "p", 300)
    one, two = (Prompts(run(), 1, (3, 400)).write(n, shared) for n in (0, 1))
    assert (len(one), one[:300] == two[:300], one[300:] == two[300:]) == (500, True, False)
    assert one == Prompts(run(), 1, (3, 400)).write(0, shared)
    assert one != Prompts(run(), 2, (3, 400)).write(0, shared)
    assert 3 <= min(one) <= max(one) <= 400


def conversation() -> WorkloadRun:
    turns = WorkloadRequest(6, 2, "system", 4, context="main"), WorkloadRequest(11, 2, "main", 8, context="main")
    return WorkloadRun("r", "t", "team/app", 0.0, tuple(WorkloadStage((turn,)) for turn in turns))


async def answer_with_ids(http: web.Request) -> web.StreamResponse:
    """Two tokens, 7 and 9, in pieces that end where no event ends."""
    response = await streamed(http, b'{"choices":[{"text":"a","token_ids":[7],"finish_reason":null}]}')
    rest = b'data: {"choices":[{"text":"b","token_ids":[9],"finish_reason":"length"}]}\n\ndata: [DONE]\n\n'
    for piece in (rest[:20], rest[20:]):
        await response.write(piece)
    return response


@pytest.mark.parametrize("told", [True, False], ids=["the answer's ids are told", "they are not"])
async def test_a_turn_repeats_what_was_sent_and_answered(told: bool) -> None:
    endpoint = MisbehavingEndpoint({0: answer_with_ids} if told else {})
    async with endpoint.serve() as url:
        results = await replay([conversation()], target(url))
    assert [r.status for r in results.requests] == ["finished", "finished"]
    first, second = (body for _, _, body in endpoint.seen)
    assert first["return_token_ids"] is True
    before, after = first["prompt"], second["prompt"]
    assert isinstance(before, list)
    assert isinstance(after, list)
    assert (len(before), len(after), after[:6]) == (6, 11, before)
    assert (after[6:8] == [7, 9]) is told


def test_answers_of_a_stage_are_repeated_only_after_it() -> None:
    prompts = Prompts(conversation(), 1, (3, 400))
    turn = WorkloadRequest(6, 2, context="main")
    prompts.answered(0, turn, [1] * 6, [7, 9])
    again = WorkloadRequest(9, 1, "main", 8)
    assert prompts.write(1, again)[:8] != [1] * 6 + [7, 9]
    prompts.stage_begins()
    assert prompts.write(1, again)[:8] == [1] * 6 + [7, 9]


def command(*arguments: object) -> subprocess.CompletedProcess[str]:
    """`justitia replay` as a process of its own, with its own event loop and signal handlers."""
    code = "from justitia_cli.main import main; main()"
    line = [sys.executable, "-c", code, "replay", *map(str, arguments)]
    return subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)


def test_the_command_writes_results_and_ends_with_1_where_requests_failed(tmp_path: Path) -> None:
    write_workload([run()], tmp_path / "w.jsonl")
    target = ("--base-url", closed_endpoint(), "--api-key", "t=k", "--model", "m")
    result = command(tmp_path / "w.jsonl", *target, "--out", tmp_path / "out", "--json")
    assert result.returncode == 1
    assert "1 of 1 requests failed, the first of run r: connection" in result.stderr
    assert json.loads(result.stdout)["live"]["requests_finished"] == 0
    assert len((tmp_path / "out" / "requests.jsonl").read_text().splitlines()) == 1


def test_the_command_names_file_and_line_of_a_bad_workload(tmp_path: Path) -> None:
    (tmp_path / "w.jsonl").write_text("{}\n")
    result = command(tmp_path / "w.jsonl", "--base-url", closed_endpoint(), "--out", tmp_path / "o")
    assert result.returncode == 2
    assert result.stderr == f"justitia: {tmp_path}/w.jsonl:1: Object missing required field `run`\n"
