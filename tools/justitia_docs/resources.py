"""Reference of the custom resources, from their definitions: each object of a spec or a status is a table of fields."""

from collections.abc import Iterator, Mapping
from typing import Any

from justitia_api.crd import build_definitions
from justitia_api.resource import API_VERSION
from justitia_docs.markdown import cell, code, prose, table

Schema = Mapping[str, Any]

LIMITS = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "minProperties": "at least {} entries",
    "maxProperties": "at most {} entries",
}
POOL_PAGE = "servingpool"
"""The page whose fields an application's own pool has."""


def build_pages() -> dict[str, str]:
    """The page of each kind, by its name in lower case."""
    definitions = {each["spec"]["names"]["singular"]: each for each in build_definitions()}
    pool = _schema(definitions[POOL_PAGE])["properties"]["spec"]
    return {name: _page(name, definition, pool) for name, definition in definitions.items()}


def _page(name: str, definition: Schema, pool: Schema) -> str:
    names, schema = definition["spec"]["names"], _schema(definition)
    scope = "Namespaced" if definition["spec"]["scope"] == "Namespaced" else "Cluster-wide"
    short = ", ".join(code(each) for each in (names["plural"], *names["shortNames"]))
    columns = definition["spec"]["versions"][0]["additionalPrinterColumns"]
    elsewhere = pool if name != POOL_PAGE else {}
    return "\n".join(
        [
            f"# {names['kind']}\n",
            f"{cell(schema['description'])}\n",
            f"{scope}; API version {code(API_VERSION)}; for `kubectl`: {short}.\n",
            *_rules(schema),
            *_objects("spec", schema["properties"]["spec"], elsewhere),
            *_objects("status", schema["properties"]["status"], elsewhere),
            "## Columns of `kubectl get`\n",
            table(
                ("column", "shows"),
                (
                    (each["name"] + (" (with `-o wide`)" if each.get("priority") else ""), cell(each["description"]))
                    for each in columns
                ),
            ),
        ]
    )


def _schema(definition: Schema) -> Schema:
    schema: Schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def _objects(path: str, schema: Schema, elsewhere: Schema, depth: int = 2) -> Iterator[str]:
    """A section for the object at the path, and one for each object below it."""
    fields: Mapping[str, Schema] = schema["properties"]
    required = schema.get("required", ())
    yield f"{'#' * min(depth, 3)} {code(path)}\n"
    if depth > 2:
        yield f"{prose(schema['description'])}\n" if "description" in schema else ""
    yield from _rules(schema)
    yield table(
        ("field", "type and limits", "description"),
        (
            (code(name), "<br>".join(_facts(field, name in required, elsewhere)), prose(field["description"]))
            for name, field in fields.items()
        ),
    )
    for name, field in fields.items():
        if (inner := _inner(field)) is not None and not _is(field, elsewhere):
            yield from _objects(f"{path}.{name}{_mark(field)}", inner, elsewhere, depth + 1)


def _inner(field: Schema) -> Schema | None:
    """The object that the field holds, or has several of."""
    for candidate in (field, field.get("items"), field.get("additionalProperties")):
        if isinstance(candidate, Mapping) and "properties" in candidate:
            return candidate
    return None


def _mark(field: Schema) -> str:
    return "[]" if "items" in field else ""


def _is(field: Schema, other: Schema) -> bool:
    return "properties" in field and field["properties"] == other.get("properties")


def _facts(field: Schema, required: bool, elsewhere: Schema) -> Iterator[str]:
    """Type, default and limits of a field."""
    if _is(field, elsewhere):
        yield f"as [`spec` of ServingPool]({POOL_PAGE}.md#spec)"
    else:
        yield _type(field)
    if required:
        yield "required"
    default = field.get("default")
    if default is not None and default != {}:
        yield f"default {code(_value(default))}"
    yield from _limits(field)
    if "items" in field and _inner(field) is None:
        yield from (f"each {limit}" for limit in _limits(field["items"]))
    if _inner(field) is None:
        yield from (cell(rule["message"]) for rule in field.get("x-kubernetes-validations", ()))


def _type(field: Schema) -> str:
    if "anyOf" in field:
        return "quantity"
    match field["type"]:
        case "array":
            return f"list of {_plural(_type(field['items']))}"
        case "object" if "additionalProperties" in field:
            return f"map of {_plural(_type(field['additionalProperties']))}"
        case "string" if field.get("format") == "date-time":
            return "time"
        case kind:
            return str(kind)


def _plural(kind: str) -> str:
    return f"{kind.removesuffix('y')}ies" if kind.endswith("y") else f"{kind}s"


def _limits(field: Schema) -> Iterator[str]:
    if "enum" in field:
        yield "one of " + ", ".join(code(str(value)) for value in field["enum"])
    yield from (_limit(text, field[limit]) for limit, text in LIMITS.items() if limit in field)
    if "pattern" in field:
        yield f"pattern {code(field['pattern'])}"
    if field.get("x-kubernetes-list-type") == "map":
        yield "told apart by " + ", ".join(code(key) for key in field["x-kubernetes-list-map-keys"])


def _limit(text: str, bound: int) -> str:
    """In words: at most 1 item, at most 16 items."""
    spelled = text.format(f"{bound:,}")
    return spelled if bound != 1 else spelled.replace("entries", "entry").removesuffix("s")


def _rules(schema: Schema) -> Iterator[str]:
    rules = [rule["message"] for rule in schema.get("x-kubernetes-validations", ())]
    if rules:
        yield "Checked by the API server:\n"
        yield "\n".join(f"- {cell(message)}" for message in rules) + "\n"


def _value(default: object) -> str:
    return str(default).lower() if isinstance(default, bool) else str(default)
