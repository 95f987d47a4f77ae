"""Who owns which fields, as the API server would have it after server-side apply."""

import json
from typing import Any

from justitia_operator.world.objects import MANAGER, Json

KEYS: dict[str, tuple[str, ...]] = {
    "containers": ("name",),
    "initContainers": ("name",),
    "volumes": ("name",),
    "env": ("name",),
    "volumeMounts": ("mountPath",),
    "ownerReferences": ("uid",),
    "ports": ("port", "protocol"),
}
"""Lists whose items are merged by these; others are taken as a whole."""
WHOLE = {"podSelector", "selector", "ingress", "resources"}
"""Maps that are taken as a whole, for all that is done with them here."""


def fields_of(value: Any, name: str = "") -> Json:
    """The tree of a value's fields."""
    if isinstance(value, dict) and value and name not in WHOLE:
        return {f"f:{key}": fields_of(inside, key) for key, inside in value.items()}
    keys = KEYS.get(name)
    if isinstance(value, list) and keys is not None and all(keys[0] in item for item in value):
        return {_key(item, keys): {".": {}} | fields_of(item) for item in value}
    return {}


def _key(item: Json, keys: tuple[str, ...]) -> str:
    return "k:" + json.dumps({key: item.get(key, "TCP") for key in keys}, separators=(",", ":"))


def entry(manager: str, fields: Json, operation: str = "Update", subresource: str = "") -> Json:
    found = {"manager": manager, "operation": operation, "apiVersion": "v1", "fieldsType": "FieldsV1"}
    return found | {"fieldsV1": fields} | ({"subresource": subresource} if subresource else {})


def owned_by_us(obj: Json, *others: Json) -> Json:
    """The object as it is after we applied it; `others` are further entries."""
    content = {key: value for key, value in obj.items() if key not in {"apiVersion", "kind", "status", "metadata"}}
    kept = {key: obj["metadata"][key] for key in ("labels", "annotations", "ownerReferences") if key in obj["metadata"]}
    ours = entry(MANAGER, fields_of(content | {"metadata": kept}), "Apply")
    return obj | {"metadata": obj["metadata"] | {"managedFields": [ours, *others]}}


def set_by(manager: str, *path: str) -> Json:
    """The entry of who set this one field."""
    fields: Json = {}
    for name in reversed(path):
        fields = {name: fields if fields or name.startswith("f:") else {".": {}}}
    return entry(manager, fields)
