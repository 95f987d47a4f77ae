"""The ways to serve that `fleet_simulation.py` compares, and the engine that all have."""

from collections.abc import Callable
from dataclasses import dataclass

from justitia_scheduling.core.cost import EngineTime
from justitia_scheduling.core.policy import Policy
from justitia_scheduling.policies.tiered import TieredJustitia
from justitia_simulator.fleet import AtRandom, Fleet, OnArrival, OneQueue
from justitia_simulator.fleet_counters import BoundOnArrival, EntryOf, entries
from justitia_simulator.profiles import find_profile, in_chunks
from justitia_vocabulary.units import Seconds

PROFILE = in_chunks(find_profile("a10g-llama2-7b-vllm"), 512)
APART = {"one": 0, "two": 1}
"""The entries of tenants that have one for themselves."""
STALENESS: tuple[Seconds, ...] = (0.05, 0.2, 1.0, 5.0)

MakeFleet = Callable[[int, int, EntryOf], Fleet]
"""Makes so many engines, with this seed and these entries."""


@dataclass(frozen=True)
class Way:
    """A way to serve; `apart`: two tenants have an entry each."""

    title: str
    staleness: Seconds | None = None
    apart: bool = False

    @property
    def name(self) -> str:
        staleness = "" if self.staleness is None else f", δ = {self.staleness:g} s"
        return f"{self.title}{staleness}{', apart' if self.apart else ''}"

    def fleet(self, engines: int, seed: int) -> Fleet:
        entry = entries(engines, seed, APART if self.apart else None)
        profile, space = PROFILE, PROFILE.kv_tokens
        match self.title:
            case "one queue":
                return OneQueue(_policy(engines), profile, space)
            case "random":
                return AtRandom(_policies(engines), profile, space, seed)
            case "bound, nothing shared":
                return OnArrival(_policies(engines), profile, space)
            case "S, bound on arrival":
                assert self.staleness is not None
                return BoundOnArrival(_policies(engines), profile, space, entry, self.staleness)
        raise ValueError(f"no way to serve has the name {self.title!r}")


def _policy(engines: int = 1) -> TieredJustitia:
    return TieredJustitia(EngineTime(profile_charge, engines))


def _policies(engines: int) -> list[Policy]:
    return [_policy() for _ in range(engines)]


profile_charge = PROFILE.charge

WAYS = (
    Way("one queue"),
    Way("random"),
    Way("bound, nothing shared"),
    *(Way("S, bound on arrival", staleness) for staleness in STALENESS),
    Way("S, bound on arrival", 0.2, apart=True),
)
