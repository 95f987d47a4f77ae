"""The cluster as last seen, or as the documents of a file have it: what reconcile decides from."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from justitia_api.conditions import Reason
from justitia_operator.world.catalog import Catalog
from justitia_operator.world.installation import Installation
from justitia_operator.world.objects import APPLIED_HASH_ANNOTATION, OPTIONAL_KINDS, Json, Kind, Ref, ref_of
from justitia_operator.world.reports import Report


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
