"""A run whose requests reach two sidecars is one run: one cost, one end, learned from and counted once."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from justitia_api.config import ApplicationConfig, PoolConfig, RunConfig, TenantConfig, ValkeyConfig
from justitia_benchmarks.valkey_server import ValkeyServer, running_valkey
from justitia_channel import messages as channel
from justitia_channel.messages import PlugInSnapshot, RunEnded
from justitia_sidecar.admission.inside import Inside
from justitia_sidecar.admission.request import TrackedRequest
from justitia_sidecar.admission.runs import TrackedRun
from justitia_sidecar.engine.view import EngineView
from justitia_sidecar.pool.peers import Peers
from justitia_sidecar.pool.sharing import Sharing, exchange
from justitia_valkey.log import UpdateLog
from justitia_vocabulary.units import RunId, Seconds, TenantId, Tokens
from support.listening_channel import Listening
from support.tracked import tracked_request

GOLD = TenantId("gold")
IDLE: Seconds = 10.0
APPLICATION = ApplicationConfig(namespace="ns", name="a", tenant="gold", run=RunConfig(idle_timeout_seconds=IDLE))
CONFIG = PoolConfig(
    generation=1,
    namespace="ns",
    name="p",
    model="m",
    tenants=(TenantConfig(name="gold", weight=1),),
    applications=(APPLICATION,),
)
RUN = "agent-7"


@dataclass
class Entry:
    """A sidecar's part that admits, and its exchange with the others."""

    updates: UpdateLog
    channel: Listening = field(default_factory=Listening)
    over: list[TrackedRun] = field(default_factory=list)
    now: Seconds = 0.0

    def __post_init__(self) -> None:
        self.channel.state = PlugInSnapshot(unit="engine seconds")
        self.peers = Peers("", lambda: self.now)
        self.sharing = Sharing(self.channel, self.peers)
        self.admission = Inside(CONFIG, self.channel, self.sharing, lambda: self.now)
        self.admission.engine_told(EngineView(ready=True, kv_tokens=1000, block_size=10, prefix_cache=True), 0.0)
        self.admission.books.runs.on_ended = self.over.append

    def asks(self, name: str, run: str | None = RUN) -> TrackedRequest:
        request = tracked_request(name, self.admission.books.runs.enter(GOLD, APPLICATION, run, self.now))
        self.admission.enter(request, self.now)
        self.admission.pump(self.now)
        return request

    def serves(self, name: str, produced: int, *, ends_run: bool = False, completed: bool = True) -> None:
        """A request of the run comes and is served, with a prompt of 50 tokens."""
        request = self.asks(name)
        self.channel.hear(channel.Admitted(request.id, 0))
        self.channel.hear(channel.Closed(request.id, 0, completed, 50, 0, produced, 0, 1.0, read=50))
        self.admission.leave(request, self.now, completed=completed, ends_run=ends_run)

    def prefix(self) -> tuple[str, Tokens] | None:
        """Where the run's prefix is, as far as is known here, and how long it is."""
        prefix = self.peers.prefix(RunId(f"{GOLD}/{APPLICATION.id}/{RUN}"))
        return None if prefix is None else ("here" if prefix.home == self.peers.own else "there", prefix.tokens)

    def ended(self) -> list[str]:
        """The runs of whose end the plug-in has heard."""
        return [message.run for message in self.channel.told if isinstance(message, RunEnded)]


@pytest.fixture
def valkey(tmp_path: Path) -> Iterator[ValkeyServer]:
    with running_valkey(tmp_path) as server:
        yield server


@pytest.fixture
async def entries(valkey: ValkeyServer) -> AsyncIterator[tuple[Entry, Entry]]:
    config = ValkeyConfig(pool="ns/p", addresses=(valkey.address,))
    both = Entry(UpdateLog(config, None)), Entry(UpdateLog(config, None))
    await meet(both)
    yield both
    for entry in both:
        await entry.updates.close()


async def meet(entries: tuple[Entry, Entry], times: int = 2, after: Seconds = 0.5) -> None:
    for _ in range(times):
        for entry in entries:
            entry.now += after
            await exchange(entry.sharing, entry.updates, lambda entry=entry: entry.now)
            entry.admission.tick(entry.now)


async def test_its_cost_is_that_of_both_and_one_of_them_learns_from_it(entries: tuple[Entry, Entry]) -> None:
    a, b = entries
    a.serves("1", 10)
    await meet(entries)
    b.serves("2", 20)
    await meet(entries)
    own = [50 * produced + produced * (produced + 1) / 2 for produced in (10, 20)]
    a.serves("3", 0, ends_run=True)
    await meet(entries, 3)
    assert [run.cost for run in a.over] == [sum(own)]
    assert [run.led_elsewhere for run in (*a.over, *b.over)] == [False, True]
    assert a.ended() == b.ended() == ["gold/ns/a/agent-7"]


async def test_of_two_that_open_it_at_once_one_learns_from_it(entries: tuple[Entry, Entry]) -> None:
    a, b = entries
    requests = b.asks("2"), a.asks("1")
    await meet(entries)
    for entry, request in zip((b, a), requests, strict=True):
        entry.admission.leave(request, entry.now, completed=True)
    a.serves("3", 1, ends_run=True)
    await meet(entries)
    assert sorted(run.led_elsewhere for run in (*a.over, *b.over)) == [False, True]


async def test_all_know_which_engine_has_its_prefix(entries: tuple[Entry, Entry]) -> None:
    a, b = entries
    for entry, other, produced in ((a, b, 10), (b, a, 20)):
        entry.serves(f"{produced}", produced)
        await meet(entries)
        assert entry.prefix() == ("here", 50 + produced)
        assert other.prefix() == ("there", 50 + produced)


async def test_it_goes_on_while_its_requests_are_served_elsewhere(entries: tuple[Entry, Entry]) -> None:
    a, b = entries
    a.serves("1", 10)
    await meet(entries)
    for number in range(4):
        b.serves(f"b{number}", 1)
        await meet(entries, 1, IDLE / 2)
    assert not a.over
    await meet(entries, 4, IDLE / 2)
    assert len(a.over) == len(b.over) == 1
    assert len(a.ended()) == len(b.ended()) == 1


async def test_who_ends_it_ends_it_everywhere_once_what_is_open_is_over(entries: tuple[Entry, Entry]) -> None:
    a, b = entries
    a.serves("1", 10)
    await meet(entries)
    still = a.asks("3")
    b.serves("2", 1, ends_run=True)
    await meet(entries)
    assert b.over
    assert not a.over
    assert not a.ended()
    a.admission.leave(still, a.now, completed=True)
    await meet(entries)
    assert a.over
    assert a.ended() == b.ended() == ["gold/ns/a/agent-7"]


async def test_it_may_be_ended_at_a_sidecar_that_had_no_request_of_it(entries: tuple[Entry, Entry]) -> None:
    a, b = entries
    a.serves("1", 10)
    await meet(entries)
    ends, is_open = b.admission.books.runs.end, b.admission.books.runs.is_open
    assert is_open(GOLD, APPLICATION.id, RUN, b.now)
    assert not is_open(GOLD, APPLICATION.id, "another", b.now)
    assert not ends(GOLD, APPLICATION.id, "another", b.now)
    assert ends(GOLD, APPLICATION.id, RUN, b.now)
    await meet(entries, 3)
    assert [run.name for run in a.over] == [RUN]
    assert a.ended() == b.ended() == ["gold/ns/a/agent-7"]
    assert not ends(GOLD, APPLICATION.id, RUN, b.now)


async def test_a_request_that_is_aborted_elsewhere_makes_it_an_aborted_run(entries: tuple[Entry, Entry]) -> None:
    a, b = entries
    a.serves("1", 10)
    await meet(entries)
    b.serves("2", 1, completed=False, ends_run=True)
    await meet(entries)
    assert [run.aborted for run in a.over] == [True]


async def test_runs_without_a_name_are_each_sidecars_own(entries: tuple[Entry, Entry]) -> None:
    a, b = entries
    for entry in entries:
        request = entry.asks("1", None)
        entry.admission.leave(request, entry.now, completed=True)
    await meet(entries)
    assert [run.led_elsewhere for run in (*a.over, *b.over)] == [False, False]
    assert a.ended() != b.ended()
