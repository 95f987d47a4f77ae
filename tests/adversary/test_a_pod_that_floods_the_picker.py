"""Somebody in the cluster who reaches the endpoint picker: what it makes the picker hold, and whom it keeps out. The
sidecar beside it never hears of it.
"""

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path

import grpc
import grpc.aio
import pytest

from justitia_sidecar.picker.__main__ import LONGEST_MESSAGE, MOST_STREAMS
from support.picker_process import Gateway, RunningPicker, head, picking
from support.sidecar_client import KEY
from support.sidecar_process import Running, serving

MIB = 2**20
AUTHORIZED = {"authorization": f"Bearer {KEY.decode()}"}
CALLERS = 4
"""Connections of the adversary."""
ELSEWHERE = "::1"
"""A gateway comes from another address."""


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, RunningPicker]]:
    folder: Path = tmp_path_factory.mktemp("picked")
    settings = {"JUSTITIA_PICKER_SOCKET": str(folder / "picker.sock"), "JUSTITIA_PUBLIC_ADDRESS": "10.0.0.1"}
    with serving(folder, environment=settings) as sidecar, picking(folder) as picker:
        yield sidecar, picker


async def is_asked(gateway: Gateway) -> bool:
    """Whether a gateway's request is answered: here with 503, since the sidecar has no engine."""
    async with asyncio.timeout(60):
        answer = await gateway.pick(**AUTHORIZED)
    return answer is not grpc.aio.EOF and answer.immediate_response.status.code == 503


async def until_ready(gateway: Gateway) -> None:
    async with asyncio.timeout(60):
        while True:
            if await gateway.healthy() == 1:
                return
            await asyncio.sleep(0.05)


async def test_streams_that_say_nothing_give_way_and_keep_nobody_out(both: tuple[Running, RunningPicker]) -> None:
    sidecar, picker = both
    async with picker.connected(ELSEWHERE) as gateway, contextlib.AsyncExitStack() as stack:
        await until_ready(gateway)
        before, of_sidecar = picker.process.memory_info().rss, sidecar.process.memory_info().rss
        callers = [await stack.enter_async_context(picker.connected()) for _ in range(CALLERS)]
        streams = [caller.stream() for caller in callers for _ in range(MOST_STREAMS)]
        await asyncio.gather(*(stream.wait_for_connection() for stream in streams[:: MOST_STREAMS // 2]))
        assert await is_asked(gateway)
        gave_way = 0
        for stream in streams:
            gave_way += await stream.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert gave_way >= MOST_STREAMS, "the others had too little time, if that"
        assert await is_asked(gateway)
        assert picker.process.memory_info().rss - before < 128 * MIB
        assert sidecar.process.memory_info().rss - of_sidecar < 8 * MIB
        assert sidecar.status(sidecar.admin, "/healthz") == 200


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({"x_junk": "x" * MIB}, id="one huge header"),
        pytest.param({f"x{number}": "x" * 100 for number in range(10_000)}, id="very many headers"),
        pytest.param({"authorization": "Bearer " + "k" * MIB}, id="a huge key"),
    ],
)
async def test_huge_heads_are_read_once_and_go_no_further(
    both: tuple[Running, RunningPicker], headers: dict[str, str]
) -> None:
    sidecar, picker = both
    async with picker.connected() as gateway:
        await until_ready(gateway)
        before = sidecar.process.memory_info().rss
        for _ in range(20):
            await gateway.pick(**headers)
        assert await is_asked(gateway)
        assert sidecar.process.memory_info().rss - before < 4 * MIB


async def test_a_message_larger_than_any_gateways_ends_its_stream(both: tuple[Running, RunningPicker]) -> None:
    _, picker = both
    async with picker.connected() as gateway:
        await until_ready(gateway)
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await gateway.pick(x_junk="x" * (LONGEST_MESSAGE + 1))
        assert error.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert await is_asked(gateway)


async def test_what_is_no_head_of_a_request_is_refused(both: tuple[Running, RunningPicker]) -> None:
    _, picker = both
    async with picker.connected() as gateway:
        await until_ready(gateway)
        stream, message = gateway.stream(), head()
        message.request_body.body = b"x"
        await stream.write(message)
        assert await stream.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert "head of a request" in await stream.details()


async def test_a_picker_without_its_sidecar_refuses_with_503_and_says_that_it_is_not_ready(tmp_path: Path) -> None:
    with picking(tmp_path) as picker:
        async with picker.connected() as gateway:
            assert [await gateway.healthy(), await gateway.healthy("liveness"), await gateway.healthy("else")] == [
                2,
                1,
                3,
            ]
            assert await is_asked(gateway)
