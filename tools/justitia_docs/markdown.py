"""Tables and cells in Markdown."""

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def cell(text: str) -> str:
    """Plain text for a cell, with nothing in it that Markdown or HTML would take for its own."""
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace("\n", " ")
    return "".join(f"\\{letter}" if letter in r"\*_[]|`" else letter for letter in escaped)


def code(text: str) -> str:
    """A word in the type of code, where the parser of the site takes every letter as it is."""
    return f"`{text}`"


def prose(text: str) -> str:
    """A documentation string for a cell. Its code spans stay."""
    spans = text.split("`")
    return "".join(code(span) if number % 2 else cell(span) for number, span in enumerate(spans))
