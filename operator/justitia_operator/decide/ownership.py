"""What others added to an object of ours, by its managedFields, and how to remove it. Pure.

The API server records for each writer which fields it set (`fieldsV1`, a tree of names, keys of list items and leaves).
Defaults have no owner. So a field that somebody owns, and that we do not ask for, was added by somebody: an environment
variable in a pod template, a volume, a rule, a key of a Secret.

Others may add annotations, labels and finalizers, also in a pod template (`kubectl rollout restart`), and what a
cluster adds to ServiceAccounts. All other fields of an object are ours.

Server-side apply removes fields that we own and no longer ask for, and keeps fields that others own. So added fields
are made ours first (:func:`disowned`), and the next apply removes them, with all that the API server knows of lists,
keys and defaults. Our own entry is checked too: anybody may write under our name.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from justitia_operator.world.objects import (
    CHILD_KINDS,
    MANAGED_BY_LABEL,
    MANAGER,
    OPTIONAL_KINDS,
    Json,
    Kind,
    labels_of,
    ref_of,
)

MOST_NAMED = 3
"""Fields that a message names."""
GUARDED_KINDS = frozenset({*CHILD_KINDS, *OPTIONAL_KINDS})

_OTHERS_METADATA = ("f:annotations", "f:labels", "f:finalizers")
_OTHERS_FIELDS = {Kind.SERVICE_ACCOUNT: frozenset({"f:imagePullSecrets", "f:secrets"})}
_KEY_DEFAULTS = {"protocol": "TCP"}
"""Defaults of fields that identify items of lists, and may be left out."""
_MISSING = object()
_SELF = "."


@dataclass(frozen=True)
class Addition:
    """A field that somebody added, as a path for people."""

    path: str
    manager: str


def is_guarded(obj: Json) -> bool:
    """Whether to keep the object's managedFields: it is one of those that pools consist of."""
    return ref_of(obj).kind in GUARDED_KINDS and labels_of(obj).get(MANAGED_BY_LABEL) == MANAGER


def additions(desired: Json, observed: Json) -> tuple[Addition, ...]:
    """Fields that somebody added to the object that should be as `desired`, also under our name."""
    found = (
        Addition(path, str(entry.get("manager", "")))
        for entry, surplus in _surpluses(desired, observed)
        for path in _paths(surplus)
    )
    return tuple(dict.fromkeys(found))


def is_overridden(desired: Json, observed: Json) -> bool:
    """Whether an apply would repair something that the object's values do not show: others added fields, or somebody
    removed our entry.
    """
    if ref_of(desired).kind not in GUARDED_KINDS:
        return False
    return _ours(observed) is None or bool(additions(desired, observed))


def disowned(desired: Json, observed: Json) -> list[Json] | None:
    """Returns managedFields in which all added fields are ours. None if nothing has to change before the apply."""
    ours = _ours(observed)
    if ours is None:
        return None
    taken = {id(entry): surplus for entry, surplus in _surpluses(desired, observed) if entry is not ours}
    if not taken:
        return None
    fields: Json = ours["fieldsV1"]
    for surplus in taken.values():
        fields = _union(fields, surplus)
    changed = []
    for entry in _entries(observed):
        left = fields if entry is ours else _without(entry["fieldsV1"], taken.get(id(entry), {}))
        if left:
            changed.append(entry | {"fieldsV1": left})
    return changed


def removed_message(obj: Json, found: tuple[Addition, ...]) -> str:
    """Explains what was removed from the object, and what to do instead."""
    return f"{_named(obj, found)} was added, and the operator removed it: set what you need in the ServingPool"


def contested_message(obj: Json, found: tuple[Addition, ...]) -> str:
    """Explains what stays in the object because somebody adds it again each time, and what to do."""
    return (
        f"{_named(obj, found)} is added again each time the operator removes it, which leaves it for now: stop "
        "whoever adds it, and set what you need in the ServingPool"
    )


def _named(obj: Json, found: tuple[Addition, ...]) -> str:
    named = ", ".join(f"{each.path} (by {each.manager})" for each in found[:MOST_NAMED])
    more = f", and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
    return f"{ref_of(obj)}: {named}{more}"


def _entries(observed: Json) -> list[Json]:
    entries = observed["metadata"].get("managedFields") or ()
    return [entry for entry in entries if isinstance(entry.get("fieldsV1"), dict)]


def _ours(observed: Json) -> Json | None:
    """Our entry of an apply. Others may have written under our name by other means."""
    for entry in _entries(observed):
        if (entry.get("manager"), entry.get("operation"), entry.get("subresource", "")) == (MANAGER, "Apply", ""):
            return entry
    return None


def _surpluses(desired: Json, observed: Json) -> Iterator[tuple[Json, Json]]:
    """Pairs each entry with those of its fields that nobody asked for, if there are any."""
    ours = _ours(observed)
    fields = {} if ours is None else ours["fieldsV1"]
    kind = ref_of(desired).kind
    for entry in _entries(observed):
        left = {name: inside for name, inside in entry["fieldsV1"].items() if not _is_others(kind, name)}
        if surplus := _surplus(left, desired, fields):
            yield entry, surplus


def _is_others(kind: Kind, name: str) -> bool:
    return name == "f:status" or name in _OTHERS_FIELDS.get(kind, ())


def _surplus(fields: Json, desired: Any, ours: Json) -> Json:
    """The part of a tree of fields that the wanted value does not have. The API server treats a leaf with several parts
    as one value: it belongs to somebody else if it is not ours, whatever its parts are.
    """
    found: Json = {}
    for name, inside in fields.items():
        if name == _SELF:
            continue
        value = _at(desired, name)
        if value is _MISSING:
            found[name] = inside
        elif inside:
            left = {k: v for k, v in inside.items() if not (name == "f:metadata" and k in _OTHERS_METADATA)}
            if deeper := _surplus(left, value, ours.get(name) or {}):
                found[name] = deeper
        elif value and isinstance(value, dict | list) and name not in ours:
            found[name] = {}
    return found


def _at(value: Any, name: str) -> Any:
    """The part of a wanted value that a name in a tree of fields refers to."""
    kind, _, what = name.partition(":")
    if kind == "f":
        return value.get(what, _MISSING) if isinstance(value, dict) else _MISSING
    if not isinstance(value, list):
        return _MISSING
    try:
        match kind:
            case "k":
                keys = json.loads(what).items()
                return next((each for each in value if _has(each, keys)), _MISSING)
            case "v":
                return next((each for each in value if each == json.loads(what)), _MISSING)
            case _:
                return value[int(what)] if int(what) < len(value) else _MISSING
    except (ValueError, AttributeError):
        return _MISSING


def _has(item: Any, keys: Any) -> bool:
    return isinstance(item, dict) and all(item.get(k, _KEY_DEFAULTS.get(k)) == v for k, v in keys)


def _paths(surplus: Json, path: str = "") -> Iterator[str]:
    """The topmost fields of a tree that were added as a whole."""
    for name, inside in surplus.items():
        kind, _, what = name.partition(":")
        here = f"{path}.{what}".removeprefix(".") if kind == "f" else f"{path}[{_shown(kind, what)}]"
        if not inside or _SELF in inside:
            yield here
        else:
            yield from _paths(inside, here)


def _shown(kind: str, what: str) -> str:
    if kind != "k":
        return what
    try:
        return ",".join(f"{key}={value}" for key, value in json.loads(what).items())
    except (ValueError, AttributeError):
        return what


def _union(one: Json, other: Json) -> Json:
    return one | {name: _union(one.get(name, {}), inside) for name, inside in other.items()}


def _without(fields: Json, taken: Json) -> Json:
    """Removes `taken`, which is a part of the tree."""
    left: Json = {}
    for name, inside in fields.items():
        if name not in taken:
            left[name] = inside
        elif inside != taken[name] and (deeper := _without(inside, taken[name])):
            left[name] = deeper
    return left
