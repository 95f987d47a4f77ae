"""Curves over time as small multiples: one panel per question, one line per policy or client.

A line is the mean over seeds; the band around it reaches from the least to the most that any seed gave.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from statistics import fmean
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter
from matplotlib.typing import RcKeyType

STYLE: dict[RcKeyType, Any] = {
    "font.family": "sans-serif",
    "font.size": 9,
    "svg.hashsalt": "justitia",
    "axes.titlesize": 9.5,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e3e6ea",
    "legend.frameon": False,
    "figure.facecolor": "white",
}
COLOURS = ("#3b82d6", "#e08a1e", "#2f9e77", "#c4549c", "#7a67d6", "#8a8f98", "#9a8a1e", "#d1543f")
OF_POLICY = dict(
    zip(("justitia", "srjf", "uniboost", "sjf", "srpt", "fcfs", "vtc", "tiered-justitia"), COLOURS, strict=True)
)
PANEL = (3.5, 2.3)
COLUMNS = 3

Curve = Sequence[float | None]


@dataclass(frozen=True)
class Panel:
    """`lines` by label: the curve of each seed, all at the same `moments`. `limit` is a line to stay under."""

    title: str
    moments: Sequence[float]
    lines: Mapping[str, Sequence[Curve]]
    limit: float | None = None
    logarithmic: bool = False


def colours_of(labels: Iterable[str]) -> dict[str, str]:
    """A colour for each label: a policy that is in many pictures has the same in all, the others what is left."""
    distinct = list(dict.fromkeys(labels))
    taken = {OF_POLICY[label] for label in distinct if label in OF_POLICY}
    left = (colour for colour in COLOURS if colour not in taken)
    return {label: OF_POLICY.get(label) or next(left, "0.5") for label in distinct}


def draw(path: Path, panels: Sequence[Panel], ylabel: str, xlabel: str = "seconds since the start") -> None:
    """Write the panels as one picture, SVG or PNG by the path's ending. A label has one colour in all of them."""
    colours = colours_of(label for panel in panels for label in panel.lines)
    columns = min(COLUMNS, len(panels))
    rows = -(-len(panels) // columns)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(PANEL[0] * columns, PANEL[1] * rows + 0.4), layout="constrained")
        grid = figure.subplots(rows, columns, squeeze=False)
        for axes, panel in zip_longest(grid.flat, panels):
            if panel is None:
                axes.set_visible(False)
                continue
            _panel(axes, panel, colours)
        for axes in grid[:, 0]:
            axes.set_ylabel(ylabel)
        for column in range(columns):
            lowest = max(row for row in range(rows) if row * columns + column < len(panels))
            grid[lowest, column].set_xlabel(xlabel)
        handles = [mpl.lines.Line2D([], [], color=colour, lw=2, label=label) for label, colour in colours.items()]
        figure.legend(handles=handles, loc="outside upper center", ncols=min(len(colours), max(2, 2 * columns)))
        figure.savefig(path, dpi=110, metadata={"Date": None} if path.suffix == ".svg" else None)


def _panel(axes: Axes, panel: Panel, colours: Mapping[str, str]) -> None:
    for label, seeds in panel.lines.items():
        points = [(x, known) for x, *values in zip(panel.moments, *seeds, strict=True) if (known := _known(values))]
        x = [moment for moment, _ in points]
        axes.fill_between(
            x, [min(k) for _, k in points], [max(k) for _, k in points], color=colours[label], alpha=0.18, lw=0
        )
        axes.plot(x, [fmean(k) for _, k in points], color=colours[label], lw=1.6)
    if panel.limit is not None:
        axes.axhline(panel.limit, color="#333333", lw=1, ls="--")
        axes.annotate("bound", (panel.moments[0], panel.limit), xytext=(0, 2), textcoords="offset points", fontsize=8)
    axes.set_title(panel.title)
    if panel.logarithmic:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter(NullFormatter())
    else:
        axes.set_ylim(bottom=0)


def _known(values: Sequence[float | None]) -> list[float]:
    return [v for v in values if v is not None]
