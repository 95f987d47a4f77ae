"""How many requests of one tenant each sidecar of a pool may have running, so that all together keep its limit.

Each sidecar claims slots. Claims are in the pool's log, which all read in one order. A sidecar that reads its own claim
back may use what the claims before it leave of the limit, and keeps what it could use already. It uses at most the last
claim that it wrote. So the slots in use never exceed the limit while all read the whole log: the sidecar that could use
more last had read all claims that count then, and each of the others uses at most its claim.

What is claimed follows what is wanted. Slots that nobody asks for are claimed ahead, in equal parts. When a sidecar
wants more than it claims, the others give up what they do not use, then what is beyond their due: equal parts of the
limit, as far as they are wanted. Where that is less than a sidecar's next request needs at once, such sidecars take
turns, the one with the smallest ticket first, and whoever has had its turn takes a new ticket.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from justitia_sidecar.pool.updates import LimitUse, WriterId
from justitia_vocabulary.units import Seconds

TURN: Seconds = 3.0
"""How long a sidecar that takes turns with others keeps its slots."""
MOST_TICKET = 2**60
GIVES_BACK = 8
"""A sidecar gives back an eighth of what it has beyond its wants and its equal part, at each exchange."""


class Demand(NamedTuple):
    """What a tenant has at one sidecar: `used` slots, and `wants` in all; its next request needs so many `at_once`."""

    used: int = 0
    wants: int = 0
    at_once: int = 1


NOTHING = Demand()


class Slots:
    """The slots of one tenant, as the sidecar `own` knows them. `claim` is what it says of itself. The others claim the
    slots that are `taken`, and are `short` of so many more.
    """

    def __init__(self, own: WriterId) -> None:
        self.claim = LimitUse()
        self.granted = 0
        """What may be used by the claims that were read."""
        self.taken = 0
        self.short = 0
        self._own = own
        self._others: dict[WriterId, LimitUse] = {}
        self._keeps = 0
        """What remains when what is given up is no longer used."""
        self._turn: Seconds | None = None

    @property
    def most(self) -> int:
        """The most slots that may be in use when a request begins."""
        return min(self.granted, self._keeps)

    def heard(self, writer: WriterId, use: LimitUse | None) -> None:
        """Take what another sidecar says of itself; None: it says nothing any more."""
        before = self._others.pop(writer, None)
        if before is not None:
            self.taken -= before.slots
            self.short -= max(0, before.wants - before.slots)
        if use is not None:
            self.taken += use.slots
            self.short += max(0, use.wants - use.slots)
            self._others[writer] = use

    def lose(self) -> None:
        """Nothing that was granted counts any more."""
        self.granted = 0

    def give_up(self) -> None:
        """Nothing is limited here any more."""
        self.claim, self.granted, self._turn = LimitUse(), 0, None

    def said(self, limit: int) -> bool:
        """The own claim was read back, after all claims that were written before it. Returns whether more may be used
        than before.
        """
        before = self.most
        self.granted = min(self.claim.slots, max(self.granted, limit - self.taken))
        return self.most > before

    def presses(self, limit: int, wants: int) -> bool:
        """Whether the next claim should not wait: it takes slots that are free and wanted here, or gives up slots that
        are wanted elsewhere and not used here.
        """
        if wants > self.granted:
            return limit - self.taken > self.granted
        return self.short > limit - self.taken - self.granted and self.granted > wants

    def decide(self, limit: int, part: int, demand: Demand, now: Seconds) -> bool:
        """Make a new claim, which has to be written. `part` is claimed though nothing is wanted. Returns whether
        somebody wants more than it has, or more is claimed than the limit allows.
        """
        wants = min(demand.wants, limit)
        contended = self.short > 0 or wants > self.granted or self.taken + self.claim.slots > limit
        if contended:
            at_once = min(demand.at_once, limit)
            asks = LimitUse(self.claim.slots, wants, at_once, self.claim.ticket)
            due = dues(limit, {**self._others, self._own: asks})
            ticket = self._ticket(asks, due[self._own], now)
            keeps = self._under_contention(limit, wants, due)
        else:
            keeps, ticket, wants, at_once, self._turn = self._ahead(limit, part, wants), 0, 0, 0, None
        self._keeps = keeps
        self.claim = LimitUse(max(demand.used, keeps), wants, at_once, ticket)
        self.granted = min(self.granted, self.claim.slots)
        return contended

    def _ahead(self, limit: int, part: int, wants: int) -> int:
        """What to claim while nobody lacks anything."""
        has, enough = self.granted, max(wants, part, min(self.granted, 1))
        if has > enough:
            return max(enough, has - max(1, has // GIVES_BACK))
        return max(has, min(enough, limit - self.taken))

    def _under_contention(self, limit: int, wants: int, due: Mapping[WriterId, int]) -> int:
        has, own = self.granted, due[self._own]
        theirs = lacking = beyond = 0
        for name, each in self._others.items():
            less = due[name] - each.slots
            if less > 0:
                lacking += less
                theirs += due[name]
            else:
                beyond -= less
                theirs += each.slots
        if wants > has:
            more = max(min(own, limit - self.taken), limit - theirs)
            if more > has:
                return min(wants, more)
        lacking -= limit - self.taken - has
        mine = has - own
        if mine <= 0 or lacking <= 0:
            return has
        return has - min(mine, -(-lacking * mine // (mine + beyond)))

    def _ticket(self, asks: LimitUse, due: int, now: Seconds) -> int:
        """The ticket to ask with. It counts where the equal part is less than is needed at once."""
        if not asks.wants:
            self._turn = None
            return 0
        last = min(MOST_TICKET, max((each.ticket for each in self._others.values()), default=0) + 1)
        if self.granted < asks.at_once:
            self._turn = None
            return asks.ticket or last
        self._turn = now if self._turn is None else self._turn
        if due > asks.at_once or not self.short or now - self._turn < TURN:
            return asks.ticket
        self._turn = now
        return last


def dues(limit: int, asked: Mapping[WriterId, LimitUse]) -> dict[WriterId, int]:
    """What each sidecar should have of the limit. They add up to at most the limit."""
    level = _level(limit, [each.wants for each in asked.values()])
    if all(each.at_once <= level or each.wants <= level for each in asked.values()):
        return {name: min(each.wants, level) for name, each in asked.items()}
    return _dues_in_turn(limit, level, asked)


def _dues_in_turn(limit: int, level: int, asked: Mapping[WriterId, LimitUse]) -> dict[WriterId, int]:
    """What each should have where some need more at once than all may have: they go first, by their tickets."""
    needs = {name: min(limit, each.at_once, each.wants) for name, each in asked.items()}
    small, turns = list(asked), list[WriterId]()
    while more := [name for name in small if needs[name] > level]:
        turns = sorted([*turns, *more], key=lambda name: (asked[name].ticket, name))
        small = [name for name in small if needs[name] <= level]
        level = _level(limit - needs[turns[0]], [asked[name].wants for name in small])
    due = {name: min(asked[name].wants, level) for name in small}
    left = limit - sum(due.values())
    for name in turns:
        due[name] = needs[name] if needs[name] <= left else 0
        left = left - due[name] if due[name] else 0
    return due


def _level(limit: int, wanted: Iterable[int]) -> int:
    """The largest part that all may have, if each takes at most what it wants."""
    amounts = sorted(wanted)
    for number, amount in enumerate(amounts):
        part = limit // (len(amounts) - number)
        if amount > part:
            return part
        limit -= amount
    return amounts[-1] if amounts else 0
