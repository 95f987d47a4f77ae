"""Decides which applications are learned from, whose turn it is at the store, and which data is orphaned.

An application keeps its evidence as long as the configuration says to learn from it. One that the store did not answer
for comes last in the next round, so that an application whose calls never get through keeps no others waiting.

Data is orphaned when the configuration does not name its application; it names refused ones too. In the store, data
has to be orphaned at two looks in succession before it is erased: a pod may be a configuration behind. Before the first
configuration nothing is orphaned.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from justitia_api.config import PoolConfig
from justitia_sidecar.learning.evidence import Evidence
from justitia_vocabulary.units import Seconds

RECOUNT_SECONDS: Seconds = 3600.0
"""The time between two counts of an application's samples in the store, if this pod brought none: other pods do."""


@dataclass(slots=True, eq=False)
class LearnedApplication:
    """An application that is learned from. `stored` is the last count of its samples in the store; None before one."""

    evidence: Evidence = field(default_factory=Evidence)
    stored: int | None = None
    _counted_at: Seconds = field(default=-math.inf, init=False)

    def is_due(self, now: Seconds) -> bool:
        """Whether its samples in the store are to be counted. `now` is on the clock of requests."""
        return now - self._counted_at >= RECOUNT_SECONDS

    def brought(self) -> None:
        """Note that this pod brought samples to the store: the count is out of date."""
        self._counted_at = -math.inf

    def counted(self, stored: int, now: Seconds) -> None:
        self.stored, self._counted_at = stored, now


class ApplicationTable:
    """The applications of the configuration in effect, by their names in the store."""

    def __init__(self) -> None:
        self._learned: dict[str, LearnedApplication] = {}
        self._seen_orphaned: frozenset[str] = frozenset()
        self.known: frozenset[str] | None = None
        """The names of the configuration, whose data is not orphaned. None before the first configuration."""

    def configure(self, config: PoolConfig) -> None:
        learning = [a.learning for a in config.applications if a.learning is not None]
        self._learned = {each.name: self._learned.get(each.name) or LearnedApplication() for each in learning}
        for each in learning:
            self._learned[each.name].evidence.configure(each)
        self.known = frozenset(config.learned_from) | frozenset(self._learned)

    def learned(self, name: str) -> LearnedApplication | None:
        """None where the configuration does not say to learn from it any more."""
        return self._learned.get(name)

    def in_turn(self) -> Sequence[tuple[str, LearnedApplication]]:
        """The applications in the order in which to ask the store about them."""
        return list(self._learned.items())

    def put_last(self, name: str) -> None:
        """Note that the store did not answer for an application."""
        if name in self._learned:
            self._learned[name] = self._learned.pop(name)

    def orphaned_twice(self, stored: frozenset[str]) -> list[str]:
        """The applications to erase, of those that the store has data of: they were orphaned at the last look too."""
        if self.known is None:
            return []
        orphaned, before = stored - self.known, self._seen_orphaned
        self._seen_orphaned = orphaned
        return sorted(orphaned & before)
