"""The custom resource definitions, generated from the types: `python -m justitia_api.crd DIRECTORY`.

Kubernetes takes only structural schemas: no `$ref`, no null, no `anyOf` except for int-or-string. Pydantic's schemas
are rewritten to that. Each field must have a description, for `kubectl explain`.
"""

import sys
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel

from justitia_api import application, pool, tenant
from justitia_api.resource import GROUP, VERSION, Column, Resource

Schema = dict[str, Any]

TYPES: tuple[tuple[type[Resource], type[BaseModel], type[BaseModel], Schema], ...] = (
    (tenant.Tenant, tenant.TenantSpec, tenant.TenantStatus, tenant.SPEC_RULES),
    (pool.ServingPool, pool.ServingPoolSpec, pool.ServingPoolStatus, {}),
    (
        application.LLMApplication,
        application.LLMApplicationSpec,
        application.LLMApplicationStatus,
        application.SPEC_RULES,
    ),
)

_UNSUPPORTED = ("title", "additionalProperties", "exclusiveMinimum", "exclusiveMaximum", "uniqueItems")


def build_definitions() -> list[dict[str, Any]]:
    """The CustomResourceDefinition objects of all types. Raises ValueError for a field without description."""
    return [_definition(*entry) for entry in TYPES]


def structural(model: type[BaseModel]) -> Schema:
    """A model's schema in the form that Kubernetes takes."""
    schema = model.model_json_schema(by_alias=True)
    return _rewrite(schema, schema.get("$defs", {}), model.__name__)


def _rewrite(schema: Schema, definitions: dict[str, Schema], where: str) -> Schema:
    given = {k: v for k, v in schema.items() if k not in ("$ref", "$defs", "anyOf", "allOf", "default", *_UNSUPPORTED)}
    out: Schema = {}
    if "$ref" in schema:
        target = definitions[schema["$ref"].removeprefix("#/$defs/")]
        out = _rewrite(target, definitions, where)
    elif schema.get("x-kubernetes-int-or-string"):
        out["anyOf"] = schema["anyOf"]
    elif "anyOf" in schema:
        (value,) = (option for option in schema["anyOf"] if option.get("type") != "null")
        out = _rewrite(value, definitions, where)
    out |= given
    if "const" in out:
        out["enum"] = [out.pop("const")]
    if schema.get("default") is not None:
        # An object's own fields have their defaults: if they stood here too, the two could differ.
        out["default"] = {} if out.get("type") == "object" else schema["default"]
    if isinstance(schema.get("additionalProperties"), dict):
        out["additionalProperties"] = _rewrite(schema["additionalProperties"], definitions, f"{where}.*")
    if out.get("type") == "integer":
        out["format"] = "int64"
    _rename_limits(out)
    for name, field in out.get("properties", {}).items():
        rewritten = _rewrite(field, definitions, f"{where}.{name}")
        if "description" not in rewritten:
            raise ValueError(f"{where}.{name} has no description: give it one, it is what `kubectl explain` shows")
        out["properties"][name] = rewritten
    if "items" in out:
        out["items"] = _rewrite(out["items"], definitions, f"{where}[]")
    return out


def _without_defaults(status: Schema) -> Schema:
    """Remove defaults: a status holds only what was reported."""
    for field in status["properties"].values():
        field.pop("default", None)
    return status


def _rename_limits(schema: Schema) -> None:
    """Rename an object's size limits. Pydantic names them as for arrays if the object is optional."""
    if schema.get("type") == "object":
        for ours, theirs in (("minLength", "minProperties"), ("maxLength", "maxProperties")):
            if ours in schema:
                schema[theirs] = schema.pop(ours)


def _definition(
    resource: type[Resource], spec: type[BaseModel], status: type[BaseModel], spec_rules: Schema
) -> dict[str, Any]:
    about = resource.definition
    kind = resource.__name__
    schema: Schema = {
        "type": "object",
        "description": about.description,
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string", "description": "Version of the schema that the object is written in."},
            "kind": {"type": "string", "description": "Type of the object."},
            "metadata": {"type": "object"},
            "spec": structural(spec) | spec_rules,
            "status": _without_defaults(structural(status)),
        },
    }
    if about.object_rules:
        schema["x-kubernetes-validations"] = [{"rule": r, "message": m} for r, m in about.object_rules]
    subresources: dict[str, Any] = {"status": {}}
    if about.scale:
        subresources["scale"] = {
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{about.plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": about.plural,
                "singular": about.singular,
                "shortNames": list(about.short_names),
                "categories": ["justitia"],
            },
            "scope": "Namespaced" if about.namespaced else "Cluster",
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": subresources,
                    "additionalPrinterColumns": [_column(column) for column in about.columns],
                }
            ],
        },
    }


def _column(column: Column) -> dict[str, Any]:
    priority = {"priority": 1} if column.wide else {}
    return {
        "name": column.name,
        "type": column.type,
        "jsonPath": column.path,
        "description": column.description,
        **priority,
    }


def render(definition: dict[str, Any]) -> str:
    """The definition as YAML text."""

    class Plain(yaml.SafeDumper):
        def ignore_aliases(self, data: object) -> bool:
            return True

    header = "# Generated by `python -m justitia_api.crd crds`: change the types, not this file.\n"
    return header + yaml.dump(definition, Dumper=Plain, sort_keys=False, width=120, allow_unicode=True)


def file_name(definition: dict[str, Any]) -> str:
    return f"{GROUP}_{definition['spec']['names']['plural']}.yaml"


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print("usage: python -m justitia_api.crd DIRECTORY", file=sys.stderr)  # noqa: T201
        return 2
    directory = Path(arguments[0])
    directory.mkdir(parents=True, exist_ok=True)
    for definition in build_definitions():
        (directory / file_name(definition)).write_text(render(definition))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
