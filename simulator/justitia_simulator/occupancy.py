"""How much KV a batch needs until it is done, if nothing else is admitted. The two rules of admission.

A running request holds `held` tokens and will produce `remaining` more, one a step, then frees all of them.
"""

from collections.abc import Callable, Iterable
from enum import Enum

from justitia_scheduling.model import Tokens

Demand = Iterable[tuple[Tokens, Tokens]]
"""(held, remaining) of each request."""


class Admission(Enum):
    """When a request may join the batch. Both know its true length, so neither ever preempts."""

    RESERVE = "reserve"
    """If every request's prompt and whole output fit side by side: what a gateway in front of an engine does."""
    PEAK = "peak"
    """If what is held at once never exceeds the space, because shorter requests free theirs first: LightLLM, S-LoRA."""

    @property
    def need(self) -> Callable[[Demand], Tokens]:
        return reserved_tokens if self is Admission.RESERVE else peak_tokens


def reserved_tokens(batch: Demand) -> Tokens:
    """All that the requests will ever hold, as if at once."""
    return sum(held + remaining for held, remaining in batch)


def peak_tokens(batch: Demand) -> Tokens:
    """The most that is held at one time: just before some request ends, those that last longer have grown with it."""
    held_by_longer = 0
    peak = 0
    for count, (held, remaining) in enumerate(sorted(batch, key=lambda r: -r[1]), 1):
        held_by_longer += held
        peak = max(peak, held_by_longer + remaining * count)
    return peak
