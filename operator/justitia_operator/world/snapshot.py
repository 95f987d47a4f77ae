"""The cluster as last seen, or as the documents of a file describe it. Decisions are made from it."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from justitia_api.conditions import Reason
from justitia_operator.world.catalog import Catalog
from justitia_operator.world.installation import Installation
from justitia_operator.world.objects import APPLIED_HASH_ANNOTATION, OPTIONAL_KINDS, Json, Kind, Ref, ref_of
from justitia_operator.world.reports import Report


@dataclass(frozen=True)
class Rejection:
    """A write that was refused, by the API server or because the object is not ours: the hash of what was asked for,
    and why. It holds until the object is accepted; `retry` asks for another attempt meanwhile.
    """

    hash: str
    message: str
    retry: bool = False
    reason: Reason = Reason.OBJECT_REFUSED


@dataclass(frozen=True)
class Snapshot:
    """What decisions are made from. `rejections` are by object, `reports` by pod. `installed` names the optional kinds
    that the cluster has.
    """

    objects: Catalog
    installation: Installation
    rejections: Mapping[Ref, Rejection] = field(default_factory=dict)
    reports: Mapping[Ref, Report] = field(default_factory=dict)
    installed: frozenset[Kind] = frozenset(OPTIONAL_KINDS)

    def get(self, ref: Ref) -> Json | None:
        return self.objects.get(ref)

    def rejection(self, desired: Json) -> Rejection | None:
        """The rejection of exactly this object with this content."""
        found = self.rejections.get(ref_of(desired))
        return found if found and found.hash == desired["metadata"]["annotations"][APPLIED_HASH_ANNOTATION] else None

    def of(self, kind: Kind) -> Iterator[Json]:
        """Iterates over all objects of a kind, by namespace and name."""
        return (self.objects[ref] for ref in self.objects.of(kind))


def build_snapshot(documents: Iterable[Json], installation: Installation) -> Snapshot:
    """Builds a snapshot from YAML documents. Raises ValueError if two documents describe one object."""
    objects = Catalog()
    for document in documents:
        ref = ref_of(document)
        if ref in objects:
            raise ValueError(f"{ref} is given twice: remove one of the two documents")
        objects.put(document)
    return Snapshot(objects, installation)
