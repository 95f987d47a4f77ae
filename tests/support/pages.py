"""Code blocks of the documentation's pages, and what the marker above each says about it.

A marker is an HTML comment right above the block. `run`: the test suite runs it. `checked: WHY NOT`: it is not run, and
its commands or resources are looked at instead. `not run: WHY NOT`: the same. `output`: it shows what a command prints.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
GETTING_STARTED = DOCS / "getting-started.md"

_BLOCK = re.compile(
    r"^(?:<!-- (?P<marker>[^>]*?) -->\n)?```(?P<language>\w*)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE
)


class Treatment(StrEnum):
    """What the test suite does with a block."""

    RUN = "run"
    CHECKED = "checked"
    NOT_RUN = "not run"
    OUTPUT = "output"


@dataclass(frozen=True)
class Block:
    """A fenced block. `marker` is what the comment above it says, `line` where it begins."""

    page: Path
    line: int
    language: str
    text: str
    marker: str | None

    @property
    def treatment(self) -> Treatment | None:
        """None where the marker is missing or says nothing known."""
        word = (self.marker or "").partition(":")[0].strip()
        return Treatment(word) if word in set(Treatment) else None

    @property
    def reason(self) -> str:
        """Why it is not run."""
        return (self.marker or "").partition(":")[2].strip()

    @property
    def name(self) -> str:
        return f"{self.page.name}:{self.line}"

    @property
    def commands(self) -> list[str]:
        """The lines of a shell block, continued ones joined, without comments."""
        lines = self.text.replace("\\\n", " ").splitlines()
        return [line.strip() for line in lines if line.strip() and not line.strip().startswith("#")]


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text()
    return [
        Block(page, text.count("\n", 0, found.start()) + 1, found["language"], found["text"], found["marker"])
        for found in _BLOCK.finditer(text)
    ]


def written_pages() -> list[Path]:
    """Pages that people wrote. Results are written by benchmarks."""
    results = DOCS / "results"
    return [ROOT / "README.md", *sorted(page for page in DOCS.rglob("*.md") if results not in page.parents)]
