"""Sidecars of a pool that share over a real Valkey: what each tells its plug-in of the others."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from justitia_api.config import ValkeyConfig
from justitia_benchmarks.valkey_server import ValkeyServer, running_valkey
from justitia_channel.messages import Elsewhere, PlugInSnapshot, RunEnded, RunOfPool
from justitia_sidecar.metrics import SidecarMetrics
from justitia_sidecar.pool import own, sharing
from justitia_sidecar.pool.own import WHOLE_EVERY
from justitia_sidecar.pool.sharing import Sharing, exchange, share_forever
from justitia_sidecar.pool.state import LEASE
from justitia_valkey.connection import ValkeyError
from justitia_valkey.log import UpdateLog
from justitia_vocabulary.units import ApplicationId, RunId, Seconds, TenantId
from support.listening_channel import Listening

GOLD, SILVER = TenantId("gold"), TenantId("silver")
RUN = RunOfPool(RunId("gold/ns/a/agent-7"), GOLD, ApplicationId("ns/a"), 50.0)
STREAM = "justitia:{ns/p}:updates"
UNIT = "engine seconds"


class Pool:
    """Sidecars that exchange when a test says so."""

    def __init__(self, valkey: ValkeyServer) -> None:
        self.valkey = valkey
        self.now: Seconds = 0.0
        self.sidecars: list[SharingSidecar] = []

    def joins(self) -> "SharingSidecar":
        sidecar = SharingSidecar(self, UpdateLog(ValkeyConfig(pool="ns/p", addresses=(self.valkey.address,)), None))
        self.sidecars.append(sidecar)
        return sidecar

    async def exchange(self, times: int = 1, every: Seconds = 0.5) -> None:
        for _ in range(times):
            self.now += every
            for sidecar in self.sidecars:
                with contextlib.suppress(ValkeyError):
                    await exchange(sidecar.sharing, sidecar.updates, lambda: self.now)


@dataclass
class SharingSidecar:
    pool: Pool
    updates: UpdateLog
    channel: Listening = field(default_factory=Listening)

    def __post_init__(self) -> None:
        self.sharing = Sharing(self.channel)
        self.serves({})

    def serves(self, totals: Mapping[TenantId, float], failures: int = 0) -> None:
        self.channel.state = PlugInSnapshot(service=dict(totals), unit=UNIT, failures=failures)

    def told(self) -> tuple[dict[TenantId, float], list[RunId], dict[RunId, float], list[RunId]]:
        """What its plug-in has heard since the last call: totals, runs that opened, what was delivered, runs that
        ended.
        """
        totals: dict[TenantId, float] = {}
        opened: list[RunId] = []
        delivered: dict[RunId, float] = {}
        ended: list[RunId] = []
        for message in self.channel.told:
            match message:
                case Elsewhere():
                    assert message.unit == UNIT
                    totals |= message.service
                    opened += [each.run for each in message.opened]
                    for run, more in message.delivered.items():
                        delivered[run] = delivered.get(run, 0.0) + more
                case RunEnded(run=run):
                    ended.append(run)
        self.channel.told.clear()
        return totals, opened, delivered, ended


@pytest.fixture
def valkey(tmp_path: Path) -> Iterator[ValkeyServer]:
    with running_valkey(tmp_path) as server:
        yield server


@pytest.fixture
async def pool(valkey: ValkeyServer) -> AsyncIterator[Pool]:
    pool = Pool(valkey)
    yield pool
    for sidecar in pool.sidecars:
        await sidecar.updates.close()


async def test_what_one_engine_serves_and_delivers_the_others_hear(pool: Pool) -> None:
    a, b = pool.joins(), pool.joins()
    await pool.exchange()
    a.serves({GOLD: 4.0, SILVER: 1.0})
    a.sharing.opened(RUN)
    a.channel.on_delivered({RUN.run: 30.0})
    await pool.exchange(2)
    assert b.told() == ({GOLD: 4.0, SILVER: 1.0}, [RUN.run], {RUN.run: 30.0}, [])
    assert a.told() == ({}, [], {}, [])
    a.serves({GOLD: 6.0, SILVER: 1.0})
    await pool.exchange(2)
    assert b.told() == ({GOLD: 6.0}, [], {}, [])


async def test_a_run_ends_for_all_when_its_last_sidecar_has_ended_it(pool: Pool) -> None:
    a, b, c = pool.joins(), pool.joins(), pool.joins()
    a.sharing.opened(RUN)
    b.sharing.opened(RUN)
    await pool.exchange(3)
    a.sharing.closed(RUN.run)
    await pool.exchange(2)
    assert [each.told()[3] for each in (a, b, c)] == [[], [], []]
    b.sharing.closed(RUN.run)
    await pool.exchange(2)
    assert [each.told()[3] for each in (a, b, c)] == [[RUN.run]] * 3


async def test_without_others_a_run_ends_at_once(pool: Pool) -> None:
    a = pool.joins()
    a.sharing.opened(RUN)
    a.sharing.closed(RUN.run)
    assert a.told()[3] == [RUN.run]


async def test_who_joins_knows_open_runs_and_does_not_count_what_was_served_before(pool: Pool) -> None:
    a = pool.joins()
    await pool.exchange()
    a.serves({GOLD: 100.0})
    a.sharing.opened(RUN)
    await pool.exchange(2, every=WHOLE_EVERY)
    pool.valkey.ask("XTRIM", STREAM, "MAXLEN", 1)
    b = pool.joins()
    await pool.exchange()
    assert b.told() == ({}, [RUN.run], {}, [])
    a.serves({GOLD: 103.0})
    b.serves({GOLD: 2.0})
    await pool.exchange(2)
    assert b.told()[0] == {GOLD: 3.0}
    assert a.told()[0] == {GOLD: 2.0}


async def test_another_engine_process_counts_on_and_another_plug_in_is_told_all(pool: Pool) -> None:
    a, b = pool.joins(), pool.joins()
    a.sharing.opened(RUN)
    await pool.exchange(2)
    a.serves({GOLD: 4.0})
    await pool.exchange(2)
    assert b.told() == ({GOLD: 4.0}, [RUN.run], {}, [])
    a.channel.peer, b.channel.peer = "restarted", "restarted, too"
    a.serves({GOLD: 1.0})
    await pool.exchange(2)
    assert b.told() == ({GOLD: 5.0}, [RUN.run], {}, [])


async def test_a_plug_in_that_is_away_misses_nothing(pool: Pool) -> None:
    a, b = pool.joins(), pool.joins()
    await pool.exchange()
    b.channel.there = False
    a.serves({GOLD: 4.0})
    a.sharing.opened(RUN)
    await pool.exchange(2)
    assert b.told() == ({}, [], {}, [])
    b.channel.there = True
    await pool.exchange()
    assert b.told()[:2] == ({GOLD: 4.0}, [RUN.run])


async def test_while_valkey_is_away_each_serves_and_afterwards_nothing_is_missing(pool: Pool) -> None:
    """Nor counted twice: it comes back empty."""
    a, b = pool.joins(), pool.joins()
    await pool.exchange(2)
    assert a.sharing.status(pool.now).others == 1
    pool.valkey.stop()
    await pool.exchange()
    a.serves({GOLD: 4.0})
    a.sharing.opened(RUN)
    a.channel.on_delivered({RUN.run: 10.0})
    await pool.exchange(4, every=LEASE)
    status = a.sharing.status(pool.now)
    assert not status.connected
    assert "Connect" in status.failure
    a.channel.on_delivered({RUN.run: 20.0})
    pool.valkey.start()
    await pool.exchange(6)
    assert b.told() == ({GOLD: 4.0}, [RUN.run], {RUN.run: 30.0}, [])
    assert a.sharing.status(pool.now).connected


async def test_a_sidecar_that_is_cut_off_is_forgotten_and_known_again(pool: Pool) -> None:
    """A partition: it does not see Valkey, and the others do."""
    a, b = pool.joins(), pool.joins()
    a.sharing.opened(RUN)
    await pool.exchange(2)
    assert b.told()[1] == [RUN.run]
    pool.sidecars.remove(a)
    await pool.exchange(4, every=LEASE / 2)
    assert b.told()[3] == [RUN.run]
    assert b.sharing.status(pool.now).others == 0
    a.serves({GOLD: 7.0})
    pool.sidecars.append(a)
    await pool.exchange(3)
    assert b.told() == ({GOLD: 7.0}, [RUN.run], {}, [])


async def test_runs_of_which_the_opening_was_missed_are_known_by_the_next_whole_update(pool: Pool) -> None:
    a, b = pool.joins(), pool.joins()
    await pool.exchange(2)
    b.told()
    a.sharing.opened(RUN)
    await exchange(a.sharing, a.updates, lambda: pool.now)
    pool.valkey.ask("FLUSHALL")
    await pool.exchange(1)
    assert b.told()[1] == []
    await pool.exchange(4, every=WHOLE_EVERY / 3)
    assert b.told()[1] == [RUN.run]


async def test_more_open_runs_than_one_update_says_are_said_in_several(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of which none may be lost, nor taken for all."""
    monkeypatch.setattr(own, "MOST_SAID", 2)
    runs = [RunOfPool(RunId(f"r{number}"), GOLD, ApplicationId("ns/a")) for number in range(7)]
    a = pool.joins()
    for run in runs:
        a.sharing.opened(run)
    await pool.exchange(5)
    pool.valkey.ask("XTRIM", STREAM, "MAXLEN", 1)
    b = pool.joins()
    await pool.exchange(6)
    opened, ended = b.told()[1], b.told()[3]
    assert sorted(opened) == [run.run for run in runs]
    a.sharing.closed(runs[0].run)
    a.sharing.opened(RUN)
    await pool.exchange(12, every=WHOLE_EVERY / 4)
    _, opened, _, ended = b.told()
    assert (opened, ended) == ([RUN.run], [runs[0].run])


async def test_the_more_sidecars_the_fewer_runs_each_may_keep_open(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    """All know of all: whoever opens runs without end must not fill the memory of every pod."""
    monkeypatch.setattr(sharing, "MOST_RUNS", 90)
    a = pool.joins()
    await pool.exchange()
    assert a.sharing.most_runs is None
    pool.joins()
    pool.joins()
    await pool.exchange(2)
    assert a.sharing.most_runs == 30


async def test_who_writes_nonsense_is_passed_over(pool: Pool) -> None:
    a, b = pool.joins(), pool.joins()
    await pool.exchange()
    for nonsense in (b"nonsense", b"\x82\xa6writer\xa1x\xa6number\xa1y", b"\xc1"):
        pool.valkey.ask("XADD", STREAM, "*", "u", nonsense)
    a.serves({GOLD: 4.0})
    await pool.exchange(2)
    assert b.told()[0] == {GOLD: 4.0}
    assert b.sharing.malformed == 3


async def test_after_a_failure_what_is_written_twice_counts_once(pool: Pool) -> None:
    """The server may have added an update whose answer did not come."""
    a, b = pool.joins(), pool.joins()
    await pool.exchange(2)
    a.sharing.opened(RUN)
    a.channel.on_delivered({RUN.run: 10.0})
    lost = a.sharing.update(pool.now)
    await a.updates.exchange(lost)
    a.sharing.failed("its answer was lost", pool.now)
    await pool.exchange(2)
    assert b.told()[2] == {RUN.run: 10.0}


async def test_a_client_that_reuses_a_name_ends_it_with_the_last_run_of_it(pool: Pool) -> None:
    """A run that is too old or too costly ends while its last requests are open, and the next begins under its name."""
    a = pool.joins()
    a.sharing.opened(RUN)
    a.sharing.opened(RUN)
    a.sharing.closed(RUN.run)
    assert a.told()[3] == []
    a.sharing.closed(RUN.run)
    assert a.told()[3] == [RUN.run]


async def test_an_exchange_that_fails_by_a_bug_leaves_the_sidecar_serving(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = pool.joins(), pool.joins()
    await pool.exchange(2)
    metrics, told = SidecarMetrics(), asyncio.Event()

    def shared() -> tuple[Sharing, ValkeyConfig]:
        if metrics.pool_exchange_failures._value.get():
            told.set()
        return a.sharing, ValkeyConfig(pool="ns/p", addresses=(pool.valkey.address,))

    with monkeypatch.context() as patched:
        patched.setattr(a.sharing, "update", lambda now: 1 / 0)
        sharing_on = asyncio.create_task(share_forever(shared, None, lambda: pool.now, metrics))
        await told.wait()
    assert "ZeroDivisionError" in a.sharing.status(pool.now).failure
    a.serves({GOLD: 4.0})
    while not b.told()[0]:
        await pool.exchange()
    assert not sharing_on.done()
    sharing_on.cancel()
    await asyncio.gather(sharing_on, return_exceptions=True)
