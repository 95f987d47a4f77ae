"""Ratios as bars with their intervals: a panel for each figure."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from justitia_benchmarks.reports.curves import STYLE
from justitia_benchmarks.statistics import Estimate, digits

Bars = Sequence[tuple[str, Estimate]]


def draw_bars(path: Path, panels: Mapping[str, Bars], ylabel: str, colours: Mapping[str, str]) -> None:
    """By title. A line stands at 1, where nothing is gained or lost. Intervals that are much longer than the bars are
    cut off.
    """
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(4.0 * len(panels), 3.2), layout="constrained")
        for axes, (title, bars) in zip(
            figure.subplots(1, len(panels), squeeze=False).flat, panels.items(), strict=True
        ):
            for place, (label, ratio) in enumerate(bars):
                spread = [[ratio.mean - ratio.low], [ratio.high - ratio.mean]]
                axes.bar(place, ratio.mean, 0.66, color=colours[label], yerr=spread, ecolor="#333333", capsize=3)
                axes.annotate(digits(ratio.mean), (place, 0), xytext=(0, 4), textcoords="offset points", ha="center")
            axes.set_xticks(range(len(bars)), [label for label, _ in bars], fontsize=8.5)
            axes.set_ylim(0, min(axes.get_ylim()[1], 2 * max(ratio.mean for _, ratio in bars)))
            axes.axhline(1.0, color="#333333", lw=1, ls="--")
            axes.grid(visible=False, axis="x")
            axes.set_title(title)
            axes.set_ylabel(ylabel)
        figure.savefig(path, metadata={"Date": None})
