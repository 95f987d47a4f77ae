"""What is measured, in which order, and what is kept of it.

The ways of one seed and load follow each other, in an order that the seed draws: the machine's speed drifts, and ratios
are taken inside a seed. Each result is a file, whole or not at all, with a digest of the sources that decide figures;
the same command goes on from what is there. Loads are stated for the engine's step time, which is measured once for a
folder and kept with the results.
"""

import hashlib
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from justitia_benchmarks.engine.measure import MEAN, NOISY, NONE, PRODUCT, RUN_VTC, SIDECAR, STOCK, TRUE, WAYS, Way
from justitia_benchmarks.runner import source_files
from justitia_simulator.files import write_bytes

PACKAGES = ("justitia_engine", "justitia_sidecar")


@dataclass(frozen=True)
class Scenario:
    """So many runs at this load, served in these ways. What is `beside` them is no target: fewer seeds will do."""

    load: float
    runs: int
    ways: Sequence[Way]
    beside: Sequence[Way] = ()


@dataclass(frozen=True)
class Plan:
    seeds: int
    scenarios: Sequence[Scenario]


SEEDS_BESIDE = 2
AIMED_AT = (STOCK, RUN_VTC, TRUE, NOISY, MEAN, NONE, PRODUCT, SIDECAR)
WHOLE = Plan(
    seeds=5,
    scenarios=(
        Scenario(2.5, 250, AIMED_AT, beside=[way for way in WAYS if way not in AIMED_AT]),
        Scenario(1.0, 60, (STOCK, RUN_VTC, TRUE, MEAN)),
        Scenario(0.5, 60, (STOCK, RUN_VTC, TRUE, MEAN)),
    ),
)
QUICK = Plan(seeds=2, scenarios=(Scenario(2.5, 24, (STOCK, RUN_VTC, TRUE, MEAN, PRODUCT, SIDECAR)),))


@dataclass(frozen=True)
class Cell:
    scenario: Scenario
    seed: int
    way: Way

    @property
    def text(self) -> str:
        return f"u = {self.scenario.load:g}, seed {self.seed}: {self.way.name}"

    @property
    def digest(self) -> str:
        """Names the cell's result, and seeds its prompts."""
        return hashlib.sha256(f"{self.scenario.load} {self.scenario.runs} {self.seed} {self.way}".encode()).hexdigest()


def cells(plan: Plan) -> Iterator[Cell]:
    """In the order of measuring."""
    for seed in range(1, plan.seeds + 1):
        for scenario in plan.scenarios:
            ways = [*scenario.ways, *(scenario.beside if seed <= SEEDS_BESIDE else ())]
            random.Random(f"{seed}/{scenario.load}").shuffle(ways)
            yield from (Cell(scenario, seed, way) for way in ways)


class Store:
    """Results in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._source = _source()

    def read(self, cell: Cell) -> dict[str, object] | None:
        """The cell's figures, None if there are none of these sources."""
        path = self._path(cell)
        if not path.exists():
            return None
        kept = json.loads(path.read_bytes())
        figures: dict[str, object] = kept["figures"]
        return figures if kept["source"] == self._source else None

    def write(self, cell: Cell, figures: dict[str, object]) -> None:
        kept = {"cell": cell.text, "source": self._source, "figures": figures}
        write_bytes(self._path(cell), json.dumps(kept).encode())

    def read_once(self, what: str) -> Any:
        """What is measured once for the folder; None if it has not been."""
        path = self.folder / f"{what}.json"
        return json.loads(path.read_bytes()) if path.exists() else None

    def write_once(self, what: str, measured: object) -> None:
        write_bytes(self.folder / f"{what}.json", json.dumps(measured).encode())

    def _path(self, cell: Cell) -> Path:
        return self.folder / f"{cell.digest[:20]}.json"


def _source() -> str:
    content = hashlib.sha256()
    for path in source_files("justitia_benchmarks.engine.measure", PACKAGES):
        content.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return content.hexdigest()[:20]
