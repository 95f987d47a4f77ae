"""Which way gamma must move for an objective: measured by moving it to and fro.

Gamma alternates between centre * e^A and centre * e^-A. Of each phase count the requests that arrived in it, and those
of them that miss the bound. With m of n high and l of k low, and q = (m + l) / (n + k) the share of both,

    z = (m / n - l / k) / sqrt(q (1 - q) (1 / n + 1 / k))

is standard normal if gamma does not matter. |z| > 2 tells the sign (more misses high: down). After `PHASES` phases
without it, gamma does not matter enough to be seen.
"""

import math
from dataclasses import dataclass, field

AMPLITUDE = math.log(1.5)
SURE = 2.0
PHASES = 12


@dataclass(slots=True)
class Dither:
    """Around `centre`, in 1/s, for the objective of that key. Begins high."""

    key: str
    centre: float
    phases: int = 0
    missed: list[int] = field(default_factory=lambda: [0, 0])
    total: list[int] = field(default_factory=lambda: [0, 0])

    @property
    def gamma(self) -> float:
        """In force, in 1/s."""
        return self.centre * math.exp(-AMPLITUDE if self.phases % 2 else AMPLITUDE)

    def record(self, missed: int, total: int) -> None:
        """What the phase in effect has shown; the next one begins."""
        self.missed[self.phases % 2] += missed
        self.total[self.phases % 2] += total
        self.phases += 1

    @property
    def sign(self) -> int:
        """The sign of the move of log gamma that helps, -1 or 1; 0 as long as it is not known."""
        if self.phases < 2 or self.phases % 2:
            return 0
        (high, low), (n, k) = self.missed, self.total
        q = (high + low) / (n + k)
        spread = math.sqrt(q * (1 - q) * (1 / n + 1 / k))
        z = (high / n - low / k) / spread if spread else 0.0
        return 0 if abs(z) < SURE else (-1 if z > 0 else 1)

    @property
    def flat(self) -> bool:
        return self.phases >= PHASES and not self.sign
