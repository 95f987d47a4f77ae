"""What a sidecar knows of the pool's others: what their engines have served, and which runs are open there.

What an engine has served a tenant is a total that only grows, taken by maximum: nothing counts twice, whatever is lost,
repeated or late. What it delivered to runs comes as it grows. A run is open while it is open in some sidecar. From time
to time an update is `whole`: it says all, so that a reader who has missed some knows again which runs are open.

A sidecar that has not been heard of for `LEASE` is gone, and its runs are over. Of a writer that began earlier, what it
has served counts from the first whole update on that was heard: all tenants begin there as equals.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from justitia_channel.messages import Elsewhere, RunOfPool
from justitia_sidecar.pool.totals import Totals
from justitia_sidecar.pool.updates import RunGrowth, RunNumber, Update, WriterId
from justitia_vocabulary.units import KVTokenTime, RunId, Seconds, TenantId, Tokens

LEASE: Seconds = 5.0
REMEMBERED: Seconds = 3600.0
"""How long the totals of a sidecar are kept that is gone. It may be cut off, and come back."""


@dataclass(slots=True)
class _Writer:
    """Another sidecar, as it was heard of last. `served` is None until a whole update of one that began earlier. `said`
    are the runs of a whole update under way, None while there is none, or a part of it was missed.
    """

    heard: Seconds
    number: int
    unit: str
    served: dict[TenantId, float] | None
    gone: bool = False
    open: dict[RunNumber, RunId] = field(default_factory=dict)
    numbers: dict[RunId, RunNumber] = field(default_factory=dict)
    said: set[RunNumber] | None = None


class Prefix(NamedTuple):
    """Whose engine has what a run's next prompt begins with in its cache, and how many tokens of it."""

    home: WriterId
    tokens: Tokens


@dataclass(slots=True)
class _Shared:
    """A run that is open in some sidecar. `of_pool` is None while it is open in none of the others. `leader` opened it
    first, by the order of updates. `prefix` is where a context of it lies, as far as that has been said.
    """

    of_pool: RunOfPool | None = None
    leader: WriterId | None = None
    prefix: Prefix | None = None
    holders: set[WriterId] = field(default_factory=set)


class PoolState:
    """What all writers but `own` have said."""

    def __init__(self, own: WriterId) -> None:
        self._own = own
        self._writers: dict[WriterId, _Writer] = {}
        self._runs: defaultdict[RunId, _Shared] = defaultdict(_Shared)
        self._totals: defaultdict[str, Totals] = defaultdict(Totals)
        """By the unit that they are in."""
        self._opened: dict[RunId, RunOfPool] = {}
        self._delivered: dict[RunId, KVTokenTime] = {}
        self._over: list[RunId] = []
        self._grown_runs: list[tuple[RunId, RunGrowth]] = []

    @property
    def others(self) -> int:
        """The number of other sidecars that have been heard of of late."""
        return sum(not writer.gone for writer in self._writers.values())

    # What is heard.

    def heard(self, update: Update, now: Seconds) -> bool:
        """Take an update. Returns whether its writer was unknown or gone, and so may not know this sidecar either."""
        if update.writer == self._own:
            for each in update.opened.values():
                if (shared := self._runs.get(each.run)) is not None and shared.leader is None:
                    shared.leader = self._own
            return False
        writer = self._writers.get(update.writer)
        unknown = writer is None or writer.gone
        if writer is None:
            served: dict[TenantId, float] | None = {} if update.number == 0 else None
            writer = self._writers[update.writer] = _Writer(now, update.number, update.unit, served)
        elif update.number <= writer.number:
            writer.heard = now
            return False
        if update.unit != writer.unit:
            writer.unit, writer.served = update.unit, {}
        if update.whole:
            writer.said = set()
        elif update.number != writer.number + 1:
            writer.said = None
        writer.heard, writer.number, writer.gone = now, update.number, False
        self._count(writer, update)
        for number, each in update.opened.items():
            self._open(update.writer, writer, number, each)
        self._grow(writer, update)
        self._close(update.writer, update.closed)
        self._end_unsaid(update.writer, writer, update)
        return unknown

    def opened_here(self, run: RunId) -> None:
        """A request of the run is served here."""
        self._runs[run].holders.add(self._own)

    def context_here(self, run: RunId, tokens: Tokens) -> None:
        """The engine here has so many tokens of a context of the run in its cache."""
        self._lies(run, Prefix(self._own, tokens))

    def closed_here(self, run: RunId) -> None:
        """The run is over as far as this sidecar knows."""
        self._leave(run, self._own)

    def leads(self, run: RunId) -> bool:
        """Whether the run was opened here first, as far as is known."""
        shared = self._runs.get(run)
        return shared is None or shared.leader in (None, self._own)

    def open_elsewhere(self, run: RunId) -> bool:
        """Whether the run is open in another sidecar, as far as is known."""
        shared = self._runs.get(run)
        return shared is not None and shared.of_pool is not None

    def prefix(self, run: RunId) -> Prefix | None:
        """Where the run's next prompt is likely to find what it begins with. None if that is not known."""
        shared = self._runs.get(run)
        return None if shared is None else shared.prefix

    def expire(self, now: Seconds) -> None:
        """Who has not been heard of for some time is gone; after a long time it is forgotten."""
        for name, writer in list(self._writers.items()):
            silent = now - writer.heard
            if silent > LEASE and not writer.gone:
                writer.gone = True
                self._close(name, list(writer.open))
            elif silent > REMEMBERED:
                del self._writers[name]

    # What to tell.

    def news(self, unit: str) -> Elsewhere | None:
        """What the plug-in has not been told, None if there is nothing. `unit` is that in which its policy charges."""
        served = self._totals[unit].grown()
        if not (served or self._opened or self._delivered):
            return None
        told = Elsewhere(unit, served, list(self._opened.values()), self._delivered)
        self._opened, self._delivered = {}, {}
        return told

    def tell_all(self) -> None:
        """The plug-in is another one, or may have missed something: tell it all totals and all open runs again."""
        for totals in self._totals.values():
            totals.tell_all()
        for run, shared in self._runs.items():
            if shared.of_pool is not None:
                self._opened[run] = shared.of_pool

    def over(self) -> Sequence[RunId]:
        """The runs that are over in all sidecars, each once."""
        ended, self._over = self._over, []
        return ended

    def growth(self) -> Sequence[tuple[RunId, RunGrowth]]:
        """What others saw of runs since the last call."""
        grown, self._grown_runs = self._grown_runs, []
        return grown

    # How.

    def _count(self, writer: _Writer, update: Update) -> None:
        if writer.served is not None:
            self._totals[writer.unit].add_growth(writer.served, update.served)
        elif update.whole:
            writer.served = dict(update.served)

    def _grow(self, writer: _Writer, update: Update) -> None:
        """Take what the writer's engine did for runs."""
        for number, more in update.delivered.items():
            if (run := writer.open.get(number)) is not None:
                self._delivered[run] = self._delivered.get(run, 0.0) + more
        self._grown_runs += update.runs.items()
        for run, growth in update.runs.items():
            if growth.context:
                self._lies(run, Prefix(update.writer, growth.context))

    def _end_unsaid(self, name: WriterId, writer: _Writer, update: Update) -> None:
        """After the last part of a whole update, close the runs that it has not said."""
        if writer.said is None:
            return
        writer.said.update(update.opened)
        if not update.more:
            self._close(name, [number for number in writer.open if number not in writer.said])
            writer.said = None

    def _open(self, name: WriterId, writer: _Writer, number: RunNumber, opened: RunOfPool) -> None:
        shared = self._runs[opened.run]
        shared.leader = shared.leader or name
        if shared.of_pool is None:
            shared.of_pool = self._opened[opened.run] = opened
        shared.holders.add(name)
        if writer.open.get(number) != opened.run:
            self._close(name, [number])
            writer.open.pop(writer.numbers.get(opened.run, number), None)
        writer.open[number], writer.numbers[opened.run] = opened.run, number

    def _lies(self, run: RunId, prefix: Prefix) -> None:
        if (shared := self._runs.get(run)) is not None:
            shared.prefix = prefix

    def _close(self, name: WriterId, numbers: Sequence[RunNumber]) -> None:
        writer = self._writers[name]
        for number in numbers:
            if (run := writer.open.pop(number, None)) is not None:
                del writer.numbers[run]
                self._leave(run, name)

    def _leave(self, run: RunId, name: WriterId) -> None:
        if (shared := self._runs.get(run)) is None:
            return
        shared.holders.discard(name)
        if not shared.holders - {self._own}:
            shared.of_pool = None
            self._opened.pop(run, None)
        if not shared.holders:
            del self._runs[run]
            self._over.append(run)
