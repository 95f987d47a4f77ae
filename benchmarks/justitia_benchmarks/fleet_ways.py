"""The ways to serve that `fleet_simulation.py` compares, and the engine that all have.

Unless a way says otherwise, each request's entry is drawn, and a hop takes `HOP`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import partial

from justitia_scheduling.core.cost import EngineTime
from justitia_scheduling.core.policy import Policy
from justitia_scheduling.policies.tiered import TieredJustitia
from justitia_simulator.fleet import AtRandom, Fleet, OnArrival, OneQueue
from justitia_simulator.fleet_counters import BoundOnArrival, EntryOf, entries
from justitia_simulator.fleet_order import Absence, OneOrder
from justitia_simulator.fleet_pulled import Pulled
from justitia_simulator.profiles import find_profile, in_chunks
from justitia_vocabulary.units import Seconds

PROFILE = in_chunks(find_profile("a10g-llama2-7b-vllm"), 512)
STALENESS: tuple[Seconds, ...] = (0.05, 0.2, 1.0, 5.0)
HOP: Seconds = 0.5e-3
HOPS: tuple[Seconds, ...] = (0.3e-3, 1e-3)
AWAY = Absence(40.5, 2.0)


class Entries(Enum):
    """Where requests come in."""

    DRAWN = ""
    APART = ", apart"
    """All of the tenant of weight 1 at one, all of that of weight 2 at another."""
    BY_RUN = ", a run at one entry"


@dataclass(frozen=True)
class Way:
    """A way to serve. `make` makes the fleet of so many engines, with a seed and what says where requests come in."""

    name: str
    make: Callable[[int, int, EntryOf], Fleet]
    entries: Entries = Entries.DRAWN

    def fleet(self, engines: int, seed: int) -> Fleet:
        apart = {"one": 0, "two": 1} if self.entries is Entries.APART else None
        return self.make(engines, seed, entries(engines, seed, apart, by_run=self.entries is Entries.BY_RUN))


def _policy(engines: int = 1) -> TieredJustitia:
    return TieredJustitia(EngineTime(PROFILE.charge, engines))


def _policies(engines: int) -> list[Policy]:
    return [_policy() for _ in range(engines)]


def _one_queue(engines: int, seed: int, entry: EntryOf) -> Fleet:
    return OneQueue(_policy(engines), PROFILE, PROFILE.kv_tokens)


def _at_random(engines: int, seed: int, entry: EntryOf) -> Fleet:
    return AtRandom(_policies(engines), PROFILE, PROFILE.kv_tokens, seed)


def _nothing_shared(engines: int, seed: int, entry: EntryOf) -> Fleet:
    return OnArrival(_policies(engines), PROFILE, PROFILE.kv_tokens)


def _bound(staleness: Seconds, engines: int, seed: int, entry: EntryOf) -> Fleet:
    return BoundOnArrival(_policies(engines), PROFILE, PROFILE.kv_tokens, entry, staleness)


def _pulled(staleness: Seconds, engines: int, seed: int, entry: EntryOf) -> Fleet:
    return Pulled(engines, PROFILE, PROFILE.kv_tokens, entry, staleness=staleness, hop=HOP)


def _order(
    hop: Seconds, engines: int, seed: int, entry: EntryOf, *, late: bool = True, absence: Absence | None = None
) -> Fleet:
    return OneOrder(partial(_policy, engines), PROFILE, PROFILE.kv_tokens, hop, late=late, absence=absence)


def _shared(name: str, make: Callable[[Seconds, int, int, EntryOf], Fleet], *others: Entries) -> list[Way]:
    usual = 0.2
    return [
        *(Way(f"{name}, δ = {staleness:g} s", partial(make, staleness)) for staleness in STALENESS),
        *(Way(f"{name}, δ = {usual:g} s{where.value}", partial(make, usual), where) for where in others),
    ]


ONE_QUEUE = Way("one queue", _one_queue)
WAYS = (
    ONE_QUEUE,
    Way("random", _at_random),
    Way("bound on arrival, nothing shared", _nothing_shared),
    *_shared("S, bound on arrival", _bound, Entries.APART),
    *_shared("S, pulled", _pulled, Entries.APART, Entries.BY_RUN),
    *(Way(f"L, hop {1e3 * hop:g} ms", partial(_order, hop)) for hop in HOPS),
    Way("L, hop 1 ms, window", partial(_order, HOPS[-1], late=False)),
    Way("L, hop 1 ms, away for 2 s", partial(_order, HOPS[-1], absence=AWAY)),
)
