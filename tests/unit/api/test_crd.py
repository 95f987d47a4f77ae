"""The committed definitions are the types', and Kubernetes can take them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from justitia_api.crd import build_definitions, file_name, main, render

CRDS = Path(__file__).parents[3] / "crds"
DEFINITIONS = build_definitions()


def schema_of(definition: dict[str, Any]) -> dict[str, Any]:
    schema: dict[str, Any] = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def nodes(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every sub-schema with its path."""
    yield path, schema
    for name, field in schema.get("properties", {}).items():
        yield from nodes(field, f"{path}.{name}")
    for key, suffix in (("items", "[]"), ("additionalProperties", ".*")):
        if key in schema:
            yield from nodes(schema[key], path + suffix)


ALL_NODES = [
    pytest.param(node, id=definition["spec"]["names"]["kind"] + path)
    for definition in DEFINITIONS
    for path, node in nodes(schema_of(definition))
]


def test_the_committed_files_are_what_the_types_generate() -> None:
    committed = {path.name: path.read_text() for path in CRDS.glob("*.yaml")}
    assert committed == {file_name(d): render(d) for d in DEFINITIONS}, "run `python -m justitia_api.crd crds`"


def test_the_command_writes_one_file_for_each_type(tmp_path: Path) -> None:
    assert main([str(tmp_path / "crds")]) == 0
    assert {p.name for p in (tmp_path / "crds").iterdir()} == {file_name(d) for d in DEFINITIONS}


def test_the_command_without_a_directory_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "DIRECTORY" in capsys.readouterr().err


@pytest.mark.parametrize("node", ALL_NODES)
def test_a_schema_has_one_type_and_a_bound(node: dict[str, Any]) -> None:
    if node.get("x-kubernetes-int-or-string"):
        assert "type" not in node
        return
    assert node["type"] in {"object", "string", "integer", "array", "boolean"}, "no numbers: floats do not compare"
    if node["type"] == "array":
        assert "maxItems" in node
        assert "x-kubernetes-list-type" in node
    if "additionalProperties" in node:
        assert "maxProperties" in node


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda d: d["spec"]["names"]["kind"])
def test_every_field_has_a_description(definition: dict[str, Any]) -> None:
    bare = [path for path, node in nodes(schema_of(definition)) if "description" not in node]
    assert [path for path in bare if path != ".metadata" and not path.endswith(("[]", "*"))] == []


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda d: d["spec"]["names"]["kind"])
def test_every_string_that_a_user_writes_has_a_longest_length(definition: dict[str, Any]) -> None:
    spec = schema_of(definition)["properties"]["spec"]
    endless = [p for p, n in nodes(spec) if n.get("type") == "string" and not ({"maxLength", "enum"} & n.keys())]
    assert endless == []
