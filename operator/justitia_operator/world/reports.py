"""What a pod says of itself when the operator tells it something, or asks."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from justitia_api.conditions import Condition
from justitia_api.status import BoostStatus, LearningStatus, ObjectiveStatus


@dataclass(frozen=True)
class Report:
    """What a pod said when it was last told its documents, or asked. `instance` is the scheduler's container, `told`
    the generation that was to be in force, `generation` the one that is; None: there was no answer, and `problem` says
    why. `wanted` and `documents` are the digests of what it was told and of what it runs, None from a scheduler that
    tells none; `not_understood` is what it cannot put in force of them; `due`: it was asked, and is to be told again.
    `policy` is its condition PolicyInForce; `learning` is what it learned of applications, `objectives` what it counted
    of theirs, by namespace and name; `boost` is its gamma.
    """

    instance: str
    told: int
    generation: int | None
    problem: str = ""
    wanted: str = ""
    documents: str | None = None
    not_understood: str = ""
    due: bool = False
    policy: Condition | None = None
    learning: Mapping[tuple[str, str], LearningStatus] = field(default_factory=dict)
    objectives: Mapping[tuple[str, str], tuple[ObjectiveStatus, ...]] = field(default_factory=dict)
    boost: BoostStatus | None = None

    @property
    def in_force(self) -> bool:
        """Whether the pod runs what it was told, this very content."""
        return self.generation == self.told and self.documents in (None, self.wanted)

    @property
    def foreign(self) -> bool:
        """Whether it runs what the operator never wrote."""
        return self.generation is not None and self.generation >= self.told and not self.in_force
