"""What the documentation tells readers to type exists: commands, options, files, values of the chart, fields."""

import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer import Typer
from typer.core import TyperGroup
from typer.main import get_command

from justitia_api.application import LLMApplication
from justitia_api.pool import ServingPool
from justitia_api.resource import API_VERSION, Resource
from justitia_api.tenant import Tenant
from justitia_cli.main import Deferred, app
from justitia_e2e.main import app as cluster
from support.pages import GETTING_STARTED, ROOT, Block, Treatment, blocks_of, written_pages

KINDS: dict[str, type[Resource]] = {kind.__name__: kind for kind in (Tenant, ServingPool, LLMApplication)}
BLOCKS = [block for page in written_pages() for block in blocks_of(page)]
SHELL = [block for block in BLOCKS if block.language == "bash"]
RESOURCES = [block for block in BLOCKS if block.language == "yaml"]


def named(block: Block) -> str:
    return block.name


@pytest.mark.parametrize("block", blocks_of(GETTING_STARTED), ids=named)
def test_each_block_of_getting_started_is_run_or_says_why_not(block: Block) -> None:
    assert block.treatment is not None, f"{block.name} has no marker"
    if block.treatment in (Treatment.CHECKED, Treatment.NOT_RUN):
        assert block.reason


def test_getting_started_has_blocks_of_both_kinds() -> None:
    assert {Treatment.RUN, Treatment.CHECKED} <= {block.treatment for block in blocks_of(GETTING_STARTED)}


@pytest.mark.parametrize("block", SHELL, ids=named)
def test_the_commands_of_a_page_exist(block: Block) -> None:
    problems = [problem for command in block.commands for problem in problems_of(command)]
    assert problems == []


@pytest.mark.parametrize("block", RESOURCES, ids=named)
def test_the_resources_of_a_page_are_valid(block: Block) -> None:
    assert validated(block.text) > 0


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("make no-such-target", "make has no target no-such-target"),
        ("justitia top --colour", "justitia top has no option --colour"),
        ("justitia explore", "justitia has no command explore"),
        ("justitia predictor undo chat", "justitia predictor has no command undo"),
        ("helm install justitia charts/other", "charts/other does not exist"),
        ("helm install justitia charts/justitia --set image.name=x", "the chart has no value image.name"),
        ("kubectl apply -f examples/other.yaml", "examples/other.yaml does not exist"),
        ("kubectl get lakes", "kubectl does not know lakes"),
        ("wget x", "nobody knows how to check wget"),
    ],
)
def test_a_command_that_does_not_exist_is_found_out(command: str, problem: str) -> None:
    assert problems_of(command) == [problem]


def test_a_resource_with_an_unknown_field_is_found_out() -> None:
    with pytest.raises(ValueError, match="colour"):
        validated(f"{{apiVersion: {API_VERSION}, kind: Tenant, metadata: {{name: a}}, spec: {{colour: red}}}}")


def validated(text: str) -> int:
    """How many resources the text has. Raises ValueError for one that the API server would refuse."""
    documents = [document for document in yaml.safe_load_all(text) if document is not None]
    for document in documents:
        if document["apiVersion"] == API_VERSION:
            KINDS[document["kind"]].model_validate(document)
    return len(documents)


def problems_of(command: str) -> list[str]:
    """What of a command line does not exist."""
    words = shlex.split(command, comments=True)
    program, arguments = words[0].removeprefix(".venv/bin/"), words[1:]
    check = CHECKS.get(program)
    return [f"nobody knows how to check {program}"] if check is None else check(arguments)


def _justitia(arguments: Sequence[str]) -> list[str]:
    return _options(app, "justitia", arguments)


def _cluster(arguments: Sequence[str]) -> list[str]:
    return _options(cluster, "e2e/cluster", arguments)


def _options(typed: Typer, path: str, arguments: Sequence[str]) -> list[str]:
    """What the program's own help does not have."""
    command: Any = get_command(typed)
    words = list(arguments)
    while isinstance(command, TyperGroup):
        word = words.pop(0)
        if word not in command.commands:
            return [f"{path} has no command {word}"]
        path, command = f"{path} {word}", command.commands[word]
        command = command.load() if isinstance(command, Deferred) else command
    known = {option for parameter in command.params for option in parameter.opts}
    given = [word.partition("=")[0] for word in words if word.startswith("-")]
    return [f"{path} has no option {option}" for option in given if option not in known]


def _make(arguments: Sequence[str]) -> list[str]:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    asked = [word for word in arguments if "=" not in word]
    return [f"make has no target {target}" for target in asked if target not in targets]


def _helm(arguments: Sequence[str]) -> list[str]:
    values = yaml.safe_load((ROOT / "charts/justitia/values.yaml").read_text())
    charts = [word for word in arguments if word.startswith("charts/")]
    set_ = [word.partition("=")[0] for flag, word in pairwise(arguments) if flag == "--set"]
    return _missing(charts) + [f"the chart has no value {key}" for key in set_ if not _has(values, key.split("."))]


def _has(values: Any, path: Sequence[str]) -> bool:
    return not path or (isinstance(values, dict) and path[0] in values and _has(values[path[0]], path[1:]))


def _kubectl(arguments: Sequence[str]) -> list[str]:
    files = [word for flag, word in pairwise(arguments) if flag == "-f"]
    problems = _missing(file for file in files if file not in _files_of_pages())
    if "get" in arguments:
        kinds = arguments[arguments.index("get") + 1].split(",")
        problems += [f"kubectl does not know {kind}" for kind in kinds if kind not in _plurals()]
    return problems


def _plurals() -> set[str]:
    return {kind.definition.plural for kind in KINDS.values()}


def _files_of_pages() -> set[str]:
    """Files that a page shows, named in their first lines."""
    return {found[1] for block in RESOURCES if (found := re.match(r"# (\S+\.yaml)\n", block.text))}


def _docker(arguments: Sequence[str]) -> list[str]:
    return _missing(word for flag, word in pairwise(arguments) if flag == "-f")


def _copied(arguments: Sequence[str]) -> list[str]:
    return _missing(arguments[:1])


def _missing(paths: Iterable[str]) -> list[str]:
    return [f"{path} does not exist" for path in paths if not (ROOT / Path(path)).exists()]


CHECKS: dict[str, Callable[[Sequence[str]], list[str]]] = {
    "cp": _copied,
    "docker": _docker,
    "e2e/cluster": _cluster,
    "helm": _helm,
    "justitia": _justitia,
    "kubectl": _kubectl,
    "make": _make,
    "sed": lambda arguments: [],
}
