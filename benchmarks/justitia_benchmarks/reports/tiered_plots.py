"""Curves over one knob, a panel for each figure, and what two figures trade."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from justitia_benchmarks.reports.curves import STYLE, colours_of
from justitia_benchmarks.statistics import Estimate

Point = tuple[str, Estimate]
"""What stands at the x axis, and the figure there."""


def draw_knob(
    path: Path, panels: Mapping[str, Mapping[str, Sequence[Point]]], xlabel: str, chosen: str, *, joined: bool = True
) -> None:
    """Panels by title, lines by label, with bars from the lower to the upper end; `chosen` on the x axis is marked.

    Not `joined` where the x axis has things and no amounts.
    """
    colours = colours_of(label for lines in panels.values() for label in lines)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(3.4 * len(panels), 3.2), layout="constrained")
        for axes, (title, lines) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True):
            ticks: list[str] = []
            for number, (label, points) in enumerate(lines.items()):
                ticks = [at for at, _ in points]
                estimates = [e for _, e in points]
                axes.errorbar(
                    [i + 0.05 * (number - (len(lines) - 1) / 2) for i in range(len(points))],
                    [e.mean for e in estimates],
                    yerr=[[e.mean - e.low for e in estimates], [e.high - e.mean for e in estimates]],
                    color=colours[label],
                    marker="o",
                    ms=3.5,
                    linestyle="-" if joined else "none",
                    lw=1.4,
                    elinewidth=0.7,
                )
            axes.set_xticks(range(len(ticks)), ticks)
            if chosen in ticks:
                axes.axvline(ticks.index(chosen), color="0.75", lw=6, zorder=0)
            axes.set_title(title)
            axes.set_xlabel(xlabel)
            largest = max(e.mean for points in lines.values() for _, e in points)
            axes.set_ylim(0, 1.25 * largest)
        handles = [mpl.lines.Line2D([], [], color=colour, lw=2, label=label) for label, colour in colours.items()]
        figure.legend(handles=handles, loc="outside upper center", ncols=len(colours))
        figure.savefig(path, dpi=110)
