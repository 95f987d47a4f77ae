"""Tables and claims of which versions take effect, and which go."""

from collections.abc import Sequence
from pathlib import Path
from statistics import median

from justitia_benchmarks.document import write_table
from justitia_benchmarks.experiment import Claim, PaperVerdict, Row
from justitia_benchmarks.statistics import digits

STEADY, POISONED, DRIFT = "steady", "poisoned", "drift"
WINDOW = 200
"""Runs over which a pod looks for drift, at most."""


def report_rollouts(rows: Sequence[Row], folder: Path) -> list[Claim]:
    """By class: after how many runs a model took effect, went, or was dropped."""
    applications = list(dict.fromkeys(str(cell.parameters["application"]) for cell, _ in rows))
    table = []
    for application in applications:
        own = [(cell, f) for cell, f in rows if cell.parameters["application"] == application]
        promoted, poisoned, rolled_back, lost = _all(own)
        table.append([application, _told(promoted), _told(poisoned), _told(rolled_back), f"{_share(lost):.0%}"])
    write_table(
        folder / "rollouts.md",
        [
            "class",
            "a good model takes effect: share, median of runs",
            "a poisoned one",
            "one in effect that drifts is rolled back",
            "a good one in effect is rolled back",
        ],
        table,
    )
    promoted, poisoned, rolled_back, lost = _all(rows)
    soon = [runs is not None and runs <= WINDOW for runs in rolled_back]
    return [
        Claim(
            "poisoned candidates that take effect",
            "0 %",
            f"{_share(poisoned):.1%}",
            _verdict(_share(poisoned) == 0),
            _WHY,
        ),
        Claim(
            "versions that drift and are rolled back within the window of 200 runs",
            "all",
            f"{sum(soon) / len(soon):.1%}, the median after {_median(rolled_back)} runs",
            _verdict(all(soon)),
            "a prompt then means the opposite of what it meant; the running mean is of all runs since the pod began",
        ),
        Claim(
            "good candidates that take effect",
            "most",
            f"{_share(promoted):.1%}, the median after {_median(promoted)} runs",
            _verdict(_share(promoted) > 0.5),
            "the others were not shown to err less within 300 runs: " + _WHY,
        ),
        Claim(
            "good versions that are rolled back within 300 runs",
            "at most 5 %",
            f"{_share(lost):.1%}",
            _verdict(_share(lost) <= 0.05),
            "confidence 95 %, looked at after every fifth run",
        ),
    ]


_WHY = "default rollout (30 runs at least, 95 %), ridge regression on 100 past runs, ten classes"

_Runs = list[int | None]


def _all(rows: Sequence[Row]) -> tuple[_Runs, _Runs, _Runs, _Runs]:
    """After how many runs of each cell: a good model promoted, a poisoned one promoted, a drifting one rolled back, a
    good one rolled back after it was promoted; None where it was not.
    """
    return (
        _first(rows, STEADY, "Promoted"),
        _first(rows, POISONED, "Promoted"),
        _first(rows, DRIFT, "RolledBack"),
        _first(rows, STEADY, "RolledBack"),
    )


def _first(rows: Sequence[Row], scenario: str, reason: str) -> _Runs:
    found: _Runs = []
    for cell, figures in rows:
        if cell.parameters["scenario"] == scenario:
            decisions = figures["decisions"]
            assert isinstance(decisions, list)
            found.append(next((int(d["runs"]) for d in decisions if d["reason"] == reason), None))
    return found


def _verdict(reached: bool) -> PaperVerdict:
    return PaperVerdict.REACHED if reached else PaperVerdict.NOT_REACHED


def _share(runs: _Runs) -> float:
    return sum(r is not None for r in runs) / len(runs)


def _median(runs: _Runs) -> str:
    happened = [r for r in runs if r is not None]
    return digits(median(happened)) if happened else "-"


def _told(runs: _Runs) -> str:
    return f"{_share(runs):.0%}, {_median(runs)}"
