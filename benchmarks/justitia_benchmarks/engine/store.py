"""What is kept of measurements on a real engine.

Each result is a file, whole or not at all, with a digest of the sources that decide figures; the same command goes on
from what is there.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from justitia_benchmarks.runner import source_files
from justitia_cli.console import errors
from justitia_simulator.files import write_bytes

_PACKAGES = ("justitia_engine", "justitia_sidecar")


class StoredCell(Protocol):
    """What is measured at a time. `digest` names its result."""

    @property
    def text(self) -> str: ...

    @property
    def digest(self) -> str: ...


C = TypeVar("C", bound=StoredCell)


def prompt_seed(cell: StoredCell) -> int:
    """Seeds the prompts, so that those of each cell are its own."""
    return int(cell.digest[:8], 16)


def tracked(cells: Sequence[C]) -> Iterator[C]:
    """One cell after the other, with a bar that says how far that is."""
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=errors) as bar:
        task = bar.add_task("", total=len(cells))
        for cell in cells:
            bar.update(task, description=cell.text)
            yield cell
            bar.advance(task)


class FigureStore:
    """Results in a folder. `module` is the one that decides figures."""

    def __init__(self, folder: Path, module: str) -> None:
        self.folder = folder
        self._source = _source(module)

    def read(self, cell: StoredCell) -> dict[str, object] | None:
        """The cell's figures, None if there are none of these sources."""
        path = self._path(cell)
        if not path.exists():
            return None
        kept = json.loads(path.read_bytes())
        figures: dict[str, object] = kept["figures"]
        return figures if kept["source"] == self._source else None

    def write(self, cell: StoredCell, figures: dict[str, object]) -> None:
        kept = {"cell": cell.text, "source": self._source, "figures": figures}
        write_bytes(self._path(cell), json.dumps(kept).encode())

    def read_once(self, what: str) -> Any:
        """What is measured once for the folder; None if it has not been."""
        path = self.folder / f"{what}.json"
        return json.loads(path.read_bytes()) if path.exists() else None

    def write_once(self, what: str, measured: object) -> None:
        write_bytes(self.folder / f"{what}.json", json.dumps(measured).encode())

    def _path(self, cell: StoredCell) -> Path:
        return self.folder / f"{cell.digest[:20]}.json"


def _source(module: str) -> str:
    content = hashlib.sha256()
    for path in source_files(module, _PACKAGES):
        content.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return content.hexdigest()[:20]
