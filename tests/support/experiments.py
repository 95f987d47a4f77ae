"""Experiments for tests of the harness. They live here because worker processes must be able to import them."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from justitia_benchmarks.document import write_table
from justitia_benchmarks.experiment import Cell, Claim, Figures, PaperVerdict, Row
from justitia_benchmarks.statistics import mean_interval


@dataclass(frozen=True)
class Squares:
    """Squares its parameter and leaves a mark for each time it was computed; misbehaves as `how` says on `bad`."""

    marks: Path
    name: str = "squares"
    title: str = "Squares of small numbers"
    paper: str = "ours"
    bad: int = -1
    how: str = ""

    def cells(self, quick: bool) -> Sequence[Cell]:
        return [Cell({"x": x}, seed) for seed in range(1 if quick else 2) for x in range(3)]

    def run(self, cell: Cell) -> Figures:
        x = int(cell.parameters["x"])
        (self.marks / f"{x}-{cell.seed}-{os.urandom(4).hex()}").touch()
        if x == self.bad:
            match self.how:
                case "raises":
                    raise RuntimeError("the engine is stuck")
                case "nan":
                    return {"square": float("nan")}
        return {"square": x * x + cell.seed}

    def report(self, rows: Sequence[Row], folder: Path) -> Sequence[Claim]:
        write_table(folder / "all.md", ["x | seed", "square"], [[c.text, str(f["square"])] for c, f in rows])
        (folder / "plot.svg").write_text("<svg/>")
        squares = mean_interval([float(str(f["square"])) for _, f in rows])
        return [Claim("squares grow", "they do", squares, PaperVerdict.REACHED, "by hand")]
