"""What came out of charging tenants this or that: tables and a plot, no claims."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from justitia_benchmarks.document import write_table
from justitia_benchmarks.experiment import Claim, Row
from justitia_benchmarks.reports.tiered_plots import draw_knob
from justitia_benchmarks.statistics import mean_interval

TITLES = {"share": "part of the engine's time", "slowdown": "mean JCT ÷ with half the engine alone"}


def charges(rows: Sequence[Row], folder: Path) -> list[Claim]:
    by_charge: dict[str, list[Mapping[str, Any]]] = {}
    for cell, figures in rows:
        by_charge.setdefault(str(cell.parameters["charge"]), []).append(figures)
    tenants = list(next(iter(by_charge.values()))[0])
    found = {
        (figure, tenant, charge): mean_interval([f[tenant][figure] for f in of])
        for figure in TITLES
        for tenant in tenants
        for charge, of in by_charge.items()
    }
    write_table(
        folder / "1-charges.md",
        ["tenants are charged", *(f"{tenant}: {title}" for title in TITLES.values() for tenant in tenants)],
        [[c, *(found[figure, t, c].text for figure in TITLES for t in tenants)] for c in by_charge],
    )
    panels = {
        title: {t: [(c, found[figure, t, c]) for c in by_charge] for t in tenants} for figure, title in TITLES.items()
    }
    draw_knob(folder / "2-charges.png", panels, "tenants are charged", chosen="engine time", joined=False)
    return []
