"""What a pod answers when the operator sends it documents, or asks for its status."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from justitia_api.conditions import Condition
from justitia_api.status import ApplicationReport, BoostStatus, LearningStatus, ObjectiveCounts, SharingStatus


@dataclass(frozen=True)
class Report:
    """The last answer of a pod. `instance` is the sidecar's container. `told` is the generation that was sent to it,
    `generation` the one in effect; None if there was no answer, and `problem` says why. `wanted` and `documents` are
    the digests of what was sent and of what the pod runs; an older sidecar sends none. `not_understood` names what the
    sidecar cannot put in effect. `due` asks for the documents to be sent again. `policy` is its condition
    PolicyInEffect. `applications`, `learning` and `objectives` are by namespace and name of the application; `unit` is
    that of services; `boost` is its gamma; `sharing` is what it knows of the pool's other engines.
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
    unit: str = ""
    applications: Mapping[tuple[str, str], ApplicationReport] = field(default_factory=dict)
    learning: Mapping[tuple[str, str], LearningStatus] = field(default_factory=dict)
    objectives: Mapping[tuple[str, str], tuple[ObjectiveCounts, ...]] = field(default_factory=dict)
    boost: BoostStatus | None = None
    sharing: SharingStatus | None = None

    @property
    def in_effect(self) -> bool:
        """Whether the pod runs exactly what was sent to it."""
        return self.generation == self.told and self.documents in (None, self.wanted)

    @property
    def foreign(self) -> bool:
        """Whether the pod runs documents that the operator never wrote."""
        return self.generation is not None and self.generation >= self.told and not self.in_effect
