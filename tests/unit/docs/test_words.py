"""What people read keeps to the words of the field: pages, the generated reference, help of commands, docstrings."""

import ast
import re
from collections.abc import Iterator
from typing import Any

from typer.core import TyperGroup
from typer.main import get_command

from justitia_cli.main import Deferred, app
from justitia_docs.hooks import build_reference
from support.pages import ROOT, written_pages

INSTEAD = {
    "in force": "in effect",
    "in silence": "when idle",
    "is told(?! apart)": "gets, knows",
    "are told(?! apart)": "get, know",
    "told about": "reported",
    "anew": "again",
    "the notes": "a paper's title, or a page",
}
"""Phrases that readers stumble over, as patterns, and plainer ones."""

PACKAGES = ("api", "channel", "cli", "e2e", "operator", "predictor", "sidecar", "valkey", "vocabulary")
"""Folders whose docstrings keep to these words."""


def help_texts(command: Any, path: str) -> Iterator[tuple[str, str]]:
    """The help of a command, of its options, and of all commands below it."""
    command = command.load() if isinstance(command, Deferred) else command
    yield path, command.help or ""
    yield from ((f"{path} {option.name}", getattr(option, "help", None) or "") for option in command.params)
    if isinstance(command, TyperGroup):
        for name, inner in command.commands.items():
            yield from help_texts(inner, f"{path} {name}")


def docstrings() -> Iterator[tuple[str, str]]:
    """Docstrings of modules, classes and functions, and those below a constant or a field."""
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                match node:
                    case ast.Expr(value=ast.Constant(value=str(text))):
                        yield f"{path.relative_to(ROOT)}:{node.lineno}", text


def texts() -> Iterator[tuple[str, str]]:
    yield from ((str(page.relative_to(ROOT)), page.read_text()) for page in written_pages())
    yield from build_reference().items()
    yield from help_texts(get_command(app), "justitia")
    yield from docstrings()


def odd(text: str) -> set[str]:
    words = " ".join(text.split())
    return {phrase for phrase in INSTEAD if re.search(rf"\b{phrase}\b", words, re.IGNORECASE)}


def test_no_phrase_is_used_for_which_there_is_a_plainer_one() -> None:
    assert {where: found for where, text in texts() if (found := odd(text))} == {}


def test_no_docstring_opens_with_a_genitive() -> None:
    """It opens with a verb or a noun phrase, so that it can be understood without what stands above it."""
    assert [where for where, text in docstrings() if text.startswith("Of ")] == []


def test_a_phrase_is_found_across_a_line_break() -> None:
    assert odd("The weight is in\nforce.") == {"in force"}
    assert odd("PolicyInForce is True.") == set()
