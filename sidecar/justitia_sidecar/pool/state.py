"""What the sidecars of a pool know of each other: what engines have served, which runs are open, how engines are doing.

Each sidecar writes updates, numbered from 0, to a log that all read. What an engine has served a tenant is a total that
only grows, taken by maximum: nothing counts twice, whatever is lost, repeated or late. What it delivered to runs comes
as it grows. A run is open while it is open in some sidecar. From time to time an update is `whole`: it says all, so
that a reader who has missed some knows again which runs are open.

A sidecar that has not been heard of for `LEASE` is gone, and its runs are over. Whoever begins later than a writer does
not count what that had served before: all tenants begin there as equals.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NewType

from msgspec import Struct

from justitia_channel.messages import Elsewhere, RunOfPool
from justitia_scheduling.core.pool_service import raise_to
from justitia_vocabulary.units import KVTokenTime, RunId, Seconds, TenantId, Tokens

LEASE: Seconds = 5.0

WriterId = NewType("WriterId", str)
"""A sidecar's process."""


class EngineSays(Struct, frozen=True, rename="camel", omit_defaults=True):
    """How a sidecar's engine is doing, and where both are reached. `waiting` and `running` count requests, `free` KV
    tokens.
    """

    url: str = ""
    channel: str = ""
    ready: bool = False
    draining: bool = False
    waiting: int = 0
    running: int = 0
    free: Tokens = 0


class Update(Struct, frozen=True, rename="camel", omit_defaults=True):
    """What a sidecar tells the others. `served` are totals in `unit`, of tenants whose total has grown; `delivered` is
    growth; `opened` and `closed` are runs of which requests come in there. With `whole`, `served` and `opened` are all.
    """

    writer: WriterId
    number: int
    unit: str = ""
    whole: bool = False
    engine: EngineSays = EngineSays()
    served: dict[TenantId, float] = {}
    delivered: dict[RunId, KVTokenTime] = {}
    opened: list[RunOfPool] = []
    closed: list[RunId] = []


@dataclass(slots=True)
class _Writer:
    """Another sidecar, as it was heard of last."""

    heard: Seconds
    number: int
    engine: EngineSays
    unit: str
    served: dict[TenantId, float] = field(default_factory=dict)
    open: set[RunId] = field(default_factory=set)


class PoolState:
    """What all writers but `own` have said."""

    def __init__(self, own: WriterId) -> None:
        self._own = own
        self._writers: dict[WriterId, _Writer] = {}
        self._open_in: defaultdict[RunId, set[WriterId]] = defaultdict(set)
        self._served: defaultdict[str, dict[TenantId, float]] = defaultdict(dict)
        self._grown: defaultdict[str, set[TenantId]] = defaultdict(set)
        self._opened: list[RunOfPool] = []
        self._delivered: dict[RunId, KVTokenTime] = {}
        self._over: list[RunId] = []

    @property
    def engines(self) -> Mapping[WriterId, EngineSays]:
        """How the others' engines are doing."""
        return {name: writer.engine for name, writer in self._writers.items()}

    # What is heard.

    def heard(self, update: Update, now: Seconds) -> None:
        if update.writer == self._own:
            return
        writer = self._writers.get(update.writer)
        if writer is None:
            baseline = {} if update.number == 0 else dict(update.served)
            writer = self._writers[update.writer] = _Writer(now, update.number, update.engine, update.unit, baseline)
        elif update.number <= writer.number:
            writer.heard = now
            return
        if update.unit != writer.unit:
            writer.unit, writer.served = update.unit, {}
        writer.heard, writer.number, writer.engine = now, update.number, update.engine
        self._count(writer, update.served)
        for run, more in update.delivered.items():
            self._delivered[run] = self._delivered.get(run, 0.0) + more
        if update.whole:
            said = {each.run for each in update.opened}
            self._close(update.writer, [run for run in writer.open if run not in said])
        for each in update.opened:
            self._open(update.writer, each)
        self._close(update.writer, update.closed)

    def opened_here(self, run: RunId) -> None:
        """A request of the run came in at this sidecar."""
        self._open_in[run].add(self._own)

    def closed_here(self, run: RunId) -> None:
        """The run is over as far as this sidecar knows."""
        self._leave(run, self._own)

    def expire(self, now: Seconds) -> None:
        """Forget who has not been heard of for long."""
        for name, writer in list(self._writers.items()):
            if now - writer.heard > LEASE:
                self._close(name, list(writer.open))
                del self._writers[name]

    # What is told.

    def news(self, unit: str) -> Elsewhere | None:
        """What the plug-in has not been told, None if there is nothing. `unit` is that in which its policy charges."""
        totals = self._served[unit]
        served = {tenant: totals[tenant] for tenant in self._grown.pop(unit, ())}
        if not (served or self._opened or self._delivered):
            return None
        told = Elsewhere(unit, served, self._opened, self._delivered)
        self._opened, self._delivered = [], {}
        return told

    def tell_all(self) -> None:
        """The plug-in is another one, or has another policy: it has to be told of all totals again."""
        for unit, totals in self._served.items():
            self._grown[unit] = set(totals)

    def over(self) -> Sequence[RunId]:
        """The runs that are over in all sidecars, each once."""
        ended, self._over = self._over, []
        return ended

    # How.

    def _count(self, writer: _Writer, served: Mapping[TenantId, float]) -> None:
        totals = self._served[writer.unit]
        for tenant, more in raise_to(writer.served, served).items():
            totals[tenant] = totals.get(tenant, 0.0) + more
            self._grown[writer.unit].add(tenant)

    def _open(self, name: WriterId, opened: RunOfPool) -> None:
        self._writers[name].open.add(opened.run)
        if not self._open_in[opened.run]:
            self._opened.append(opened)
        self._open_in[opened.run].add(name)

    def _close(self, name: WriterId, runs: Sequence[RunId]) -> None:
        for run in runs:
            self._writers[name].open.discard(run)
            self._leave(run, name)

    def _leave(self, run: RunId, name: WriterId) -> None:
        if (holders := self._open_in.get(run)) is None:
            return
        holders.discard(name)
        if not holders:
            del self._open_in[run]
            self._over.append(run)
