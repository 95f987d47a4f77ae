"""Tables and JSON as all commands print them."""

import sys

import msgspec
from rich import box
from rich.table import Table


def plain_table(title: str | None = None) -> Table:
    """A table without columns."""
    return Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))


def print_json(content: object) -> None:
    """Print JSON on standard output."""
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(content), indent=2).decode() + "\n")
