"""Objects by reference, an index of who refers to whom, and what was derived from them.

Reconciling one resource looks up what concerns it, and never scans all the others.
"""

from base64 import b64decode
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import sha256
from typing import TypeVar, cast

from justitia_operator.world.objects import APPLICATION_ANNOTATION, POOL_LABEL, Json, Kind, Ref, labels_of, ref_of

T = TypeVar("T")


def key_secret(name: str) -> Ref:
    """The reference of a Secret in the one namespace where keys are read, whichever that is."""
    return Ref(Kind.SECRET, "", name)


def refers_to(obj: Json) -> frozenset[Ref]:
    """Returns what the object names or belongs to, and so depends on. Empty if the object does not have the shape of
    its kind: it may have been stored under another definition.
    """
    try:
        return _refers_to(obj)
    except (AttributeError, TypeError):
        return frozenset()


def _refers_to(obj: Json) -> frozenset[Ref]:
    ref, spec = ref_of(obj), obj.get("spec") or {}
    if ref.kind is Kind.LLM_APPLICATION:
        pool = ref.name if spec.get("pool") is not None else _name_in(spec, "poolRef")
        where = (spec.get("poolRef") or {}).get("namespace") or ref.namespace
        found = {Ref(Kind.SERVING_POOL, where, pool), Ref(Kind.TENANT, "", _name_in(spec, "tenantRef"))}
        return frozenset(found | {Ref(Kind.NAMESPACE, "", ref.namespace)})
    if ref.kind is Kind.TENANT:
        return frozenset(key_secret(_name_in(key, "secretRef")) for key in spec.get("apiKeys") or ())
    if ref.kind is Kind.SECRET and ref.namespace and POOL_LABEL not in labels_of(obj):
        return frozenset(map(_of_value, (obj.get("data") or {}).values()))
    if ref.kind in {Kind.JOB, Kind.POD}:
        namespace, _, name = (obj["metadata"].get("annotations") or {}).get(APPLICATION_ANNOTATION, "").partition("/")
        if name:
            return frozenset({Ref(Kind.LLM_APPLICATION, namespace, name)})
    label = labels_of(obj).get(POOL_LABEL)
    return frozenset() if label is None else frozenset({Ref(Kind.SERVING_POOL, ref.namespace, label)})


def _of_value(encoded: str) -> Ref:
    """The reference that all Secrets with the same value share. It names no object, and does not reveal the value."""
    try:
        value = b64decode(encoded).strip()
    except ValueError:
        value = encoded.encode()
    return Ref(Kind.SECRET, "", sha256(value).hexdigest())


def _name_in(spec: Json, field: str) -> str:
    return str((spec.get(field) or {}).get("name", ""))


class Catalog(Mapping[Ref, Json]):
    """A mapping from references to objects, with lookups by kind and referrer. Objects are never changed in place."""

    def __init__(self, objects: Iterable[Json] = ()) -> None:
        self._objects: dict[Ref, Json] = {}
        self._of_kind: defaultdict[Kind, set[Ref]] = defaultdict(set)
        self._referrers: defaultdict[Ref, set[Ref]] = defaultdict(set)
        self._read: dict[Ref, object] = {}
        self._derived: dict[tuple[Kind, ...], tuple[list[int], object]] = {}
        self._changes: Counter[Kind] = Counter()
        for obj in objects:
            self.put(obj)

    def __getitem__(self, ref: Ref) -> Json:
        return self._objects[ref]

    def __iter__(self) -> Iterator[Ref]:
        return iter(self._objects)

    def __len__(self) -> int:
        return len(self._objects)

    def put(self, obj: Json) -> None:
        """Adds the object. It replaces an earlier one of the same name."""
        ref = ref_of(obj)
        self.discard(ref)
        self._objects[ref] = obj
        self._of_kind[ref.kind].add(ref)
        for other in refers_to(obj):
            self._referrers[other].add(ref)
        self._changes[ref.kind] += 1

    def discard(self, ref: Ref) -> None:
        """Removes the object, if it is there."""
        obj = self._objects.pop(ref, None)
        if obj is None:
            return
        self._of_kind[ref.kind].discard(ref)
        for other in refers_to(obj):
            self._referrers[other].discard(ref)
            if not self._referrers[other]:
                del self._referrers[other]
        self._read.pop(ref, None)
        self._changes[ref.kind] += 1

    def of(self, kind: Kind) -> list[Ref]:
        """Lists all objects of a kind, by namespace and name."""
        return sorted(self._of_kind[kind])

    def referrers(self, ref: Ref, kind: Kind) -> list[Ref]:
        """Lists the objects of a kind that refer to this one, by namespace and name."""
        return sorted(other for other in self._referrers.get(ref, ()) if other.kind is kind)

    def read(self, ref: Ref, reader: Callable[[Json], T]) -> T | None:
        """Reads the object, once for each version of it. None if it does not exist."""
        obj = self._objects.get(ref)
        if obj is None:
            return None
        if ref not in self._read:
            self._read[ref] = reader(obj)
        return cast(T, self._read[ref])

    def derived(self, kinds: tuple[Kind, ...], derive: Callable[[], T]) -> T:
        """Derives a value from all objects of these kinds, again only when one of them has changed."""
        changes = [self._changes[kind] for kind in kinds]
        known = self._derived.get(kinds)
        if known is None or known[0] != changes:
            known = self._derived[kinds] = changes, derive()
        return cast(T, known[1])
