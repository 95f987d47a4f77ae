"""Whether an object must be applied: nothing is written when nothing changes.

What is applied carries a hash of itself in an annotation. An object is left alone when it has the wanted hash (so
nothing was wanted differently, and nothing is to be taken away), still holds every wanted value (so nobody changed
it), and nobody added what is ours to decide (`ownership.py`).
"""

from typing import Any

from justitia_operator.decide.ownership import is_overridden
from justitia_operator.world.objects import Json


def needs_apply(desired: Json, observed: Json | None) -> bool:
    """Whether a sealed object differs from what the cluster has, or others added to it."""
    return observed is None or differs(desired, observed) or is_overridden(desired, observed)


def differs(desired: Json, observed: Json | None) -> bool:
    """Whether the cluster lacks something of a sealed object."""
    return not covers(observed, desired)


def covers(observed: Any, desired: Any) -> bool:
    """Whether every wanted value is there; lists whose items have each a name are matched by it, others by position."""
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
