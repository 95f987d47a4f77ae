"""What sequences ask of an engine, in sums that requests enter and leave."""

from typing import NamedTuple

from justitia_vocabulary.units import Tokens


class Asked(NamedTuple):
    """What sequences ask of an engine together: tokens of prompts and of outputs, and KV tokens read for them."""

    prompts: Tokens = 0
    outputs: float = 0
    kv_read: float = 0

    @classmethod
    def of(cls, sequences: int, prompts: Tokens, output: float) -> "Asked":
        """So many sequences with so many prompt tokens together, each with so much output."""
        return cls(prompts, sequences * output, prompts * output + sequences * output * (output + 1) / 2)

    def plus(self, other: "Asked", sign: int = 1) -> "Asked":
        """The sum of both, or with sign -1 the difference."""
        a, b, c = other
        return Asked(self.prompts + sign * a, self.outputs + sign * b, self.kv_read + sign * c)
