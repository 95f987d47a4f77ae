"""What a pool's log costs its Valkey and its sidecars: 64 engines, 1,000 tenants, 2,000 requests a second.

`python -m justitia_benchmarks.fleet_log` (or `make bench-fleet`). The updates are those that sidecars would write
(`pool/own.py`), over a real Valkey on this machine; engines and clients are not there. Each request is of a named run
of `REQUESTS_OF_A_RUN`, whose next request comes to any sidecar when the one before is over. The run is open in all that
had one until its last is over. One reader hears all that the others write, as a sidecar does.
"""

import asyncio
import random
import tempfile
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from justitia_api.config import ValkeyConfig
from justitia_benchmarks.document import table
from justitia_benchmarks.speed import publish
from justitia_benchmarks.statistics import quantile
from justitia_benchmarks.valkey_server import ValkeyServer, running_valkey
from justitia_channel.messages import RunOfPool
from justitia_cli.console import mistakes
from justitia_sidecar.pool.own import OwnNews
from justitia_sidecar.pool.sharing import EVERY
from justitia_sidecar.pool.state import PoolState
from justitia_sidecar.pool.updates import Load, RunGrowth, WriterId, decode, encode
from justitia_valkey.log import UpdateLog
from justitia_vocabulary.units import ApplicationId, RunId, Seconds, TenantId

ENGINES = (8, 64)
TENANTS = 1000
REQUESTS_PER_SECOND = 2000.0
REQUESTS_OF_A_RUN = 5
TAKES: Seconds = 5.0
"""How long an engine works on a request."""
UNIT = "engine seconds"


@dataclass
class Run:
    of_pool: RunOfPool
    left: int = REQUESTS_OF_A_RUN
    holders: "list[Writer]" = field(default_factory=list)


@dataclass(eq=False)
class Writer:
    """A sidecar: what it has to say, and the requests that its engine works on, each with its end."""

    name: WriterId
    log: UpdateLog
    news: OwnNews = field(init=False)
    totals: dict[TenantId, float] = field(default_factory=dict)
    working: deque[tuple[Seconds, Run]] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self.news = OwnNews(self.name)

    def begins(self, run: Run, now: Seconds) -> None:
        if self not in run.holders:
            run.holders.append(self)
            self.news.opened(run.of_pool)
        self.working.append((now + TAKES, run))

    def ended(self, now: Seconds) -> list[Run]:
        """Say what the engine has done. Returns the runs whose requests are over."""
        over = []
        while self.working and self.working[0][0] <= now:
            _, run = self.working.popleft()
            name, tenant = run.of_pool.run, run.of_pool.tenant
            self.totals[tenant] = self.totals.get(tenant, 0.0) + 0.123
            self.news.grew(name, RunGrowth(cost=123456.0, context=4321))
            over.append(run)
        self.news.delivered({run.of_pool.run: 1234.5 for _, run in self.working})
        self.news.served(UNIT, self.name, self.totals)
        return over


@dataclass(frozen=True)
class Measured:
    """`server` is the part of a processor that Valkey used, `sent` what it sent in bytes a second; `size` are bytes of
    updates, `hears` what it took one reader to take all updates of an exchange, `piece` one of them.
    """

    server: float
    sent: float
    size: list[int]
    hears: list[Seconds]
    piece: list[Seconds]


class Traffic:
    """Requests as they come and end, at whichever sidecar."""

    def __init__(self, writers: list[Writer]) -> None:
        self._writers = writers
        self._random = random.Random(f"{len(writers)}")
        self._waiting: deque[Run] = deque()

    def passes(self, now: Seconds) -> None:
        """What happens from one exchange to the next."""
        for writer in self._writers:
            for run in writer.ended(now):
                run.left -= 1
                if run.left:
                    self._waiting.append(run)
                    continue
                for holder in run.holders:
                    holder.news.closed(run.of_pool.run)
        for _ in range(round(REQUESTS_PER_SECOND * EVERY)):
            goes_on = self._waiting and self._random.random() > 1 / REQUESTS_OF_A_RUN
            run = self._waiting.popleft() if goes_on else self._new()
            self._random.choice(self._writers).begins(run, now)

    def _new(self) -> Run:
        tenant = TenantId(f"tenant-{self._random.randrange(TENANTS)}")
        name = RunId(f"{tenant}/team/agents/{self._random.getrandbits(128):032x}")
        return Run(RunOfPool(name, tenant, ApplicationId("team/agents"), 1e6))


async def measure(server: ValkeyServer, engines: int, seconds: Seconds) -> Measured:
    config = ValkeyConfig(pool="p", addresses=(server.address,))
    writers = [Writer(WriterId(f"{number:032x}"), UpdateLog(config, None)) for number in range(engines)]
    reader, state, traffic = writers[0], PoolState(writers[0].name), Traffic(writers)
    measured = Measured(0.0, 0.0, [], [], [])
    warm, began, used, sent = False, time.monotonic(), 0.0, 0
    while (now := time.monotonic()) < began + seconds or not warm:
        if not warm and now >= began + 2 * TAKES:
            warm, began, used, sent = True, now, server.processor_time, _sent(server)
            for each in (measured.size, measured.hears, measured.piece):
                each.clear()
        traffic.passes(now)
        for writer in writers:
            update = encode(writer.news.next(now, Load("10.0.0.1:8004", 12345, takes=True)))
            measured.size.append(len(update))
            heard = await writer.log.exchange(update)
            writer.news.written()
            if writer is reader:
                measured.piece.extend(pieces := [_take(state, each, now) for each in heard])
                measured.hears.append(sum(pieces))
        await asyncio.sleep(max(0.0, EVERY - (time.monotonic() - now)))
    took = time.monotonic() - began
    for writer in writers:
        await writer.log.close()
    server_used, server_sent = server.processor_time - used, _sent(server) - sent
    return Measured(server_used / took, server_sent / took, measured.size, measured.hears, measured.piece)


def _take(state: PoolState, update: bytes, now: Seconds) -> Seconds:
    began = time.perf_counter()
    state.heard(decode(update), now)
    took = time.perf_counter() - began
    state.news(UNIT)
    state.over()
    state.growth()
    return took


def _sent(server: ValkeyServer) -> int:
    return int(server.ask("INFO", "stats")["total_net_output_bytes"])


def document(measured: dict[int, Measured], seconds: Seconds) -> str:
    """The table, in Markdown."""
    rows = [
        [
            f"{engines}",
            f"{found.server:.1%}",
            f"{found.sent / 1e6:.1f} MB/s",
            f"{quantile(found.size, 0.5) / 1e3:.1f}, {max(found.size) / 1e3:.1f} kB",
            f"{quantile(found.hears, 0.5) * 1e3:.1f}, {max(found.hears) * 1e3:.1f} ms",
            f"{quantile(found.piece, 0.99) * 1e3:.2f} ms",
        ]
        for engines, found in measured.items()
    ]
    return (
        "\n\n".join(
            [
                "# Many engines, one fair share: what the log costs",
                "Written by `make bench-fleet`; `benchmarks/justitia_benchmarks/fleet_log.py` says what is written. "
                f"{TENANTS:,} tenants, {REQUESTS_PER_SECOND:,.0f} requests a second in all, each of a named run; "
                f"a real Valkey, {seconds:g} s. Where there are two figures, they are the median and the largest.",
                table(
                    [
                        "R",
                        "Valkey, of a processor",
                        "it sends",
                        "an update",
                        "to hear an exchange",
                        "P99 of one update, which the loop of requests waits for",
                    ],
                    rows,
                ),
            ]
        )
        + "\n"
    )


def benchmark(
    *,
    quick: Annotated[bool, typer.Option("--quick", help="Less time")] = False,
    out: Annotated[Path | None, typer.Option(help="Markdown file for the table")] = None,
) -> None:
    """Write and read the updates of pools, and see what that takes."""
    seconds = 10.0 if quick else 30.0
    measured: dict[int, Measured] = {}
    with mistakes():
        for engines in ENGINES:
            with tempfile.TemporaryDirectory() as folder, running_valkey(Path(folder)) as server:
                measured[engines] = asyncio.run(measure(server, engines, seconds))
        publish(document(measured, seconds), out)


if __name__ == "__main__":
    typer.run(benchmark)
