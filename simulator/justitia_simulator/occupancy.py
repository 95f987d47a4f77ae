"""When a request may join the batch, and how much KV a batch needs until it is done, if nothing else is admitted.

A running request holds `held` tokens and will produce `remaining` more, one a step, then frees all of them.
"""

from collections.abc import Iterable
from enum import Enum

from justitia_vocabulary.units import Tokens

Demand = Iterable[tuple[Tokens, Tokens]]
"""(held, remaining) of each request."""


class AdmissionRule(Enum):
    """The rule by which a request may join the batch. The first two know its true length, so they never preempt."""

    RESERVE = "reserve"
    """It may if every request's prompt and whole output fit side by side: so does a gateway in front of an engine."""
    PEAK = "peak"
    """It may if the KV held never exceeds the space, because shorter requests free theirs first: LightLLM, S-LoRA."""
    OPTIMISTIC = "optimistic"
    """It may if what it has to prefill fits into what is free now; running requests are preempted when their
    growth does not fit: vLLM (which takes blocks chunk by chunk, yet checks the whole prompt before the first)."""


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
