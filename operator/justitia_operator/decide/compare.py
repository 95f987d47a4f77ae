"""Whether to apply an object: nothing is written when nothing changes.

An applied object carries a hash of its content in an annotation. It is left alone if it has the wanted hash (so we want
nothing else than before), still has every wanted value (so nobody changed it), and nobody added fields that are ours to
decide (`ownership.py`).
"""

from typing import Any

from justitia_operator.decide.ownership import is_overridden
from justitia_operator.world.objects import Json


def needs_apply(desired: Json, observed: Json | None) -> bool:
    """Whether the cluster's object differs from the sealed one, or others added to it."""
    return observed is None or differs(desired, observed) or is_overridden(desired, observed)


def differs(desired: Json, observed: Json | None) -> bool:
    """Whether the cluster's object lacks something of the sealed one."""
    return not covers(observed, desired)


def covers(observed: Any, desired: Any) -> bool:
    """Whether every wanted value is there. Items of lists are matched by name if each has one, else by position."""
    match desired:
        case dict():
            return isinstance(observed, dict) and all(covers(observed.get(k), v) for k, v in desired.items())
        case list():
            return isinstance(observed, list) and _covers_list(observed, desired)
        case _:
            return bool(observed == desired)


def _covers_list(observed: list[Any], desired: list[Any]) -> bool:
    names = [item["name"] for item in desired if isinstance(item, dict) and "name" in item]
    if desired and len(set(names)) == len(desired):
        by_name = {item.get("name"): item for item in observed if isinstance(item, dict)}
        return all(covers(by_name.get(item["name"]), item) for item in desired)
    return len(observed) == len(desired) and all(map(covers, observed, desired))
