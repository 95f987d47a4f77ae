"""What an experiment is: cells that are run on their own, and a report that reads all of them.

A cell is one task of a worker process: parameters and a seed. :meth:`Experiment.run` is pure, the same cell gives the
same figures (measured CPU times apart), so that results are kept and an interrupted reproduction goes on where it was.
:meth:`Experiment.report` draws plots (`.svg`, `.png`) and tables (`.md`) into its folder and returns the claims it
decides, each by :func:`at_most` or :func:`at_least`.

An experiment is sent to worker processes, so it must be picklable: an instance of a module's class.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Protocol

from justitia_benchmarks.statistics import Estimate

Parameter = str | int | float | bool
Figures = Mapping[str, object]


@dataclass(frozen=True)
class Cell:
    """One task: what is varied, and the seed of what is drawn."""

    parameters: Mapping[str, Parameter]
    seed: int

    @property
    def text(self) -> str:
        return " ".join([*(f"{name}={value}" for name, value in self.parameters.items()), f"seed={self.seed}"])


Row = tuple[Cell, Figures]


class PaperVerdict(Enum):
    """How our figure stands to the paper's."""

    BEATEN = "beaten"
    REACHED = "reached"
    NOT_REACHED = "not reached"
    NOT_COMPARABLE = "not comparable"


@dataclass(frozen=True)
class Claim:
    """One claim of a paper (or ours), its figure there, our figure, and why the verdict is what it is."""

    claim: str
    paper: str
    ours: Estimate | str
    verdict: PaperVerdict
    why: str


def at_most(ours: Estimate, paper: float, *, within: float = 0.0) -> PaperVerdict:
    """The verdict where less is better.

    BEATEN: the whole interval is below the paper's figure. REACHED: the mean is at most that figure times 1 + `within`,
    which is for claims that the paper makes in words. One seed has no interval, so it beats nothing.
    """
    if ours.n > 1 and ours.high < paper:
        return PaperVerdict.BEATEN
    return PaperVerdict.REACHED if ours.mean <= paper * (1 + within) else PaperVerdict.NOT_REACHED


def at_least(ours: Estimate, paper: float) -> PaperVerdict:
    """The same where more is better."""
    if ours.n > 1 and ours.low > paper:
        return PaperVerdict.BEATEN
    return PaperVerdict.REACHED if ours.mean >= paper else PaperVerdict.NOT_REACHED


class Experiment(Protocol):
    """`paper` is `justitia`, `vtc`, `tail-aware` or `ours`; `name` is unique and names files."""

    @property
    def name(self) -> str: ...

    @property
    def title(self) -> str: ...

    @property
    def paper(self) -> str: ...

    def cells(self, quick: bool) -> Sequence[Cell]:
        """All tasks; with `quick` few and small ones."""
        ...

    def run(self, cell: Cell) -> Figures:
        """The figures of one cell: an object that JSON can hold, without NaN or infinity."""
        ...

    def report(self, rows: Sequence[Row], folder: Path) -> Sequence[Claim]:
        """Draw plots and write tables of these rows into the folder."""
        ...
