"""The ways to serve that `fleet_simulation.py` compares, and the engine that all have.

Unless a way says otherwise, each request's entry is drawn.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from justitia_scheduling.core.cost import EngineTime
from justitia_scheduling.core.policy import Policy
from justitia_scheduling.policies.tiered import TieredJustitia
from justitia_simulator.fleet import AtRandom, Fleet, OnArrival, OneQueue
from justitia_simulator.fleet_counters import BoundOnArrival, EntryOf, ServedWhereItComes, entries
from justitia_simulator.fleet_order import Absence, OneOrder
from justitia_simulator.profiles import find_profile, in_chunks
from justitia_vocabulary.units import Seconds

PROFILE = in_chunks(find_profile("a10g-llama2-7b-vllm"), 512)
STALENESS: tuple[Seconds, ...] = (0.05, 0.2, 1.0, 5.0)
USUAL: Seconds = 0.2
TODAY: Seconds = 1.0
"""What the product has: the plug-in says each second what it has served."""
HOPS: tuple[Seconds, ...] = (0.3e-3, 1e-3)
AWAY = Absence(40.5, 2.0)


APART = {"one": 0, "two": 1}
"""All requests of the tenant of weight 1 come in at one entry, all of that of weight 2 at another."""


@dataclass(frozen=True)
class Way:
    """A way to serve. `make` makes the fleet of so many engines, with a seed and what says where requests come in."""

    name: str
    make: Callable[[int, int, EntryOf], Fleet]
    apart: bool = False

    def fleet(self, engines: int, seed: int) -> Fleet:
        return self.make(engines, seed, entries(engines, seed, APART if self.apart else None))


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


def _shared(staleness: Seconds, engines: int, seed: int, entry: EntryOf, *, runs: bool = True) -> Fleet:
    return BoundOnArrival(_policies(engines), PROFILE, PROFILE.kv_tokens, entry, staleness, runs=runs)


def _where_it_comes(staleness: Seconds, engines: int, seed: int, entry: EntryOf) -> Fleet:
    return ServedWhereItComes(_policies(engines), PROFILE, PROFILE.kv_tokens, entry, staleness, runs=True)


def _order(
    hop: Seconds, engines: int, seed: int, entry: EntryOf, *, late: bool = True, absence: Absence | None = None
) -> Fleet:
    return OneOrder(partial(_policy, engines), PROFILE, PROFILE.kv_tokens, hop, late=late, absence=absence)


ONE_QUEUE = Way("one queue", _one_queue)
SHARED = partial(_shared, USUAL)
WAYS = (
    ONE_QUEUE,
    Way("random", _at_random),
    Way("nothing shared", _nothing_shared),
    Way(f"S, counters alone, δ = {USUAL:g} s", partial(SHARED, runs=False)),
    *(Way(f"S, δ = {staleness:g} s", partial(_shared, staleness)) for staleness in STALENESS),
    Way(f"S, δ = {USUAL:g} s, apart", SHARED, apart=True),
    Way(f"S, δ = {TODAY:g} s, served where it comes in", partial(_where_it_comes, TODAY)),
    Way(f"S, δ = {TODAY:g} s, served where it comes in, apart", partial(_where_it_comes, TODAY), apart=True),
    *(Way(f"L, hop {1e3 * hop:g} ms", partial(_order, hop)) for hop in HOPS),
    Way("L, hop 1 ms, window", partial(_order, HOPS[-1], late=False)),
    Way("L, hop 1 ms, away for 2 s", partial(_order, HOPS[-1], absence=AWAY)),
)
