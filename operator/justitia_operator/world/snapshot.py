"""The cluster as last seen, or as the documents of a file have it: what reconcile decides from."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from justitia_api.conditions import Condition, Reason
from justitia_api.status import BoostStatus, LearningStatus, ObjectiveStatus
from justitia_operator.decide.inline_pools import InlinePools
from justitia_operator.world.catalog import Catalog
from justitia_operator.world.objects import APPLIED_HASH_ANNOTATION, OPTIONAL_KINDS, Json, Kind, Ref, ref_of


@dataclass(frozen=True)
class Installation:
    """What holds for the whole installation. `root` is a secret, hex, that pools' secrets are derived from;
    `node_cache_path` a folder that every node has for models, if any; `metrics_namespace` where Prometheus runs.
    `sidecar_rollout` tells when a new sidecar image comes to engines that run: with their next change, or at once.
    `inline_pools` is what the pools of applications may ask for; None: anything, as who writes them owns the machine.
    """

    namespace: str
    sidecar_image: str
    root: str = field(repr=False)
    node_cache_path: str | None = None
    metrics_namespace: str | None = None
    sidecar_rollout: Literal["WithEngines", "AtOnce"] = "WithEngines"
    inline_pools: InlinePools | None = field(default_factory=InlinePools)


@dataclass(frozen=True)
class Rejection:
    """Of an object, by the API server or because it is not ours: the hash of what was asked for, and what was said. It
    holds until the object is taken; `retry` asks for another try meanwhile.
    """

    hash: str
    message: str
    retry: bool = False
    reason: Reason = Reason.OBJECT_REFUSED


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


@dataclass(frozen=True)
class Snapshot:
    """`rejections` are the API server's, by object; `reports` the pods' own, by pod; `installed` those of the optional
    kinds that the cluster has.
    """

    objects: Catalog
    installation: Installation
    rejections: Mapping[Ref, Rejection] = field(default_factory=dict)
    reports: Mapping[Ref, Report] = field(default_factory=dict)
    installed: frozenset[Kind] = frozenset(OPTIONAL_KINDS)

    def get(self, ref: Ref) -> Json | None:
        return self.objects.get(ref)

    def rejection(self, desired: Json) -> Rejection | None:
        """Of this very object, with what it is asked to be."""
        found = self.rejections.get(ref_of(desired))
        return found if found and found.hash == desired["metadata"]["annotations"][APPLIED_HASH_ANNOTATION] else None

    def of(self, kind: Kind) -> Iterator[Json]:
        """All objects of a kind, by namespace and name."""
        return (self.objects[ref] for ref in self.objects.of(kind))


def build_snapshot(documents: Iterable[Json], installation: Installation) -> Snapshot:
    """A snapshot of objects as in YAML documents. Raises ValueError for two documents of one object."""
    objects = Catalog()
    for document in documents:
        ref = ref_of(document)
        if ref in objects:
            raise ValueError(f"{ref} is given twice: remove one of the two documents")
        objects.put(document)
    return Snapshot(objects, installation)
