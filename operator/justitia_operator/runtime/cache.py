"""The cluster as last seen. Watches, lists and answers to writes all end here; the newest wins.

Resource versions are compared as numbers, as Kubernetes guarantees since 1.35, so that an old event never undoes the
answer to a later write.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace

from justitia_operator.decide.ownership import is_guarded
from justitia_operator.runtime.intake import readable
from justitia_operator.world.catalog import Catalog
from justitia_operator.world.installation import Installation
from justitia_operator.world.objects import Json, Kind, Ref, ref_of
from justitia_operator.world.reports import Report
from justitia_operator.world.snapshot import Rejection, Snapshot


def version_of(obj: Json) -> int:
    return int(obj["metadata"]["resourceVersion"])


class ObjectCache:
    """Objects by reference."""

    def __init__(self, installation: Installation) -> None:
        self._objects = Catalog()
        self._doubted: dict[Ref, Json] = {}
        self._rejections: dict[Ref, Rejection] = {}
        self._reports: dict[Ref, Report] = {}
        self._installed: frozenset[Kind] = frozenset()
        self._installation = installation

    def snapshot(self) -> Snapshot:
        """Returns the cluster as known at this moment. Valid until control returns to the event loop."""
        return Snapshot(self._objects, self._installation, self._rejections, self._reports, self._installed)

    def version(self, ref: Ref) -> int | None:
        """The last version seen of an object, also of one that is doubted."""
        found = self._objects.get(ref) or self._doubted.get(ref)
        return None if found is None else version_of(found)

    def knows(self, obj: Json) -> bool:
        """Whether this version of the object, or a newer one, is known."""
        known = self._objects.get(ref_of(obj))
        return known is not None and version_of(known) >= version_of(obj)

    def put(self, obj: Json) -> bool:
        """Stores the object unless a newer one is known. Returns whether anything changed."""
        ref = ref_of(obj)
        doubted = self._doubted.pop(ref, None)
        if doubted is not None and ref not in self._objects:
            self._objects.put(doubted)
        if self.knows(obj):
            return False
        if not is_guarded(obj):
            obj = obj | {"metadata": {key: value for key, value in obj["metadata"].items() if key != "managedFields"}}
        self._objects.put(readable(obj))
        return True

    def remove(self, obj: Json) -> bool:
        """Removes a deleted object, but not a successor of the same name. Returns whether it was known."""
        ref, known = ref_of(obj), self._objects.get(ref_of(obj))
        if known is None or known["metadata"]["uid"] != obj["metadata"]["uid"]:
            return False
        self._objects.discard(ref)
        self._reports.pop(ref, None)
        return True

    def missing(self, listed: Iterable[Json], version: int, covers: Callable[[Ref], bool]) -> list[Json]:
        """Stored objects that a list covers and does not contain, unless they are newer than the list."""
        there = {ref_of(obj) for obj in listed}
        found = [obj for ref, obj in self._objects.items() if covers(ref) and ref not in there]
        return [obj for obj in found if version_of(obj) <= version]

    def set_installed(self, kinds: frozenset[Kind]) -> None:
        """Sets the optional kinds that the cluster has. Objects of a kind that is gone are gone too."""
        for ref in [ref for kind in self._installed - kinds for ref in self._objects.of(kind)]:
            self._objects.discard(ref)
        self._installed = kinds

    def doubt(self, covers: Callable[[Ref], bool]) -> None:
        """Hides objects that are not watched until they are seen again, so that they are applied, and so checked,
        again.
        """
        found = {ref: obj for ref, obj in self._objects.items() if covers(ref)}
        for ref in found:
            self._objects.discard(ref)
        self._doubted = {ref: obj for ref, obj in self._doubted.items() if not covers(ref)} | found

    def reject(self, ref: Ref, rejection: Rejection) -> None:
        """Notes that an object was refused, so that it is not offered again and again."""
        self._rejections[ref] = rejection

    def accept(self, ref: Ref) -> None:
        """Notes that the API server accepted the object."""
        self._rejections.pop(ref, None)

    def report(self, pod: Ref, report: Report) -> bool:
        """Stores a pod's report. Returns whether it is new; a report of a pod that is gone is not."""
        if pod not in self._objects or self._reports.get(pod) == report:
            return False
        self._reports[pod] = report
        return True

    def retry_rejections(self) -> None:
        """Allows refused objects one more attempt. One that got none since the last time is not wanted any more."""
        wanted = {ref: rejection for ref, rejection in self._rejections.items() if not rejection.retry}
        self._rejections = {ref: replace(rejection, retry=True) for ref, rejection in wanted.items()}
