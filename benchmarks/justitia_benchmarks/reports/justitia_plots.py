"""Figures 7 and 8 of the Justitia paper: mean completion times as bars, ratios to VTC as distributions."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from justitia_benchmarks.reports.curves import STYLE, colours_of
from justitia_benchmarks.statistics import mean_interval

Seeds = Sequence[Mapping[str, Any]]


def draw_means(groups: Mapping[tuple[str, str], Mapping[str, Seeds]], path: Path) -> None:
    """A panel for each model, a group of bars for each load, with their intervals; seconds, logarithmic."""
    models = {model: [load for m, load in groups if m == model] for model, _ in groups}
    policies = list(next(iter(groups.values())))
    colours = colours_of(policies)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(11, 3.4), layout="constrained")
        widths = [len(loads) for loads in models.values()]
        panels = figure.subplots(1, len(models), sharey=True, squeeze=False, width_ratios=widths)[0]
        for axes, (model, loads) in zip(panels, models.items(), strict=True):
            served = [policy for policy in policies if policy in groups[model, loads[0]]]
            for i, policy in enumerate(served):
                at = [x + (i - (len(served) - 1) / 2) * 0.105 for x in range(len(loads))]
                means = [mean_interval([o["mean"] for o in groups[model, load][policy]]) for load in loads]
                errors = [[max(0.0, e.mean - max(e.low, 1.0)) for e in means], [e.high - e.mean for e in means]]
                axes.bar(at, [e.mean for e in means], 0.1, color=colours[policy], yerr=errors, error_kw={"lw": 0.7})
            axes.set_xticks(range(len(loads)), [load.replace(", ", "\n") for load in loads])
            axes.grid(visible=False, axis="x")
            axes.set_yscale("log")
            axes.set_title(model)
        panels[0].set_ylabel("mean JCT, seconds")
        handles = [mpl.patches.Patch(color=colour, label=policy) for policy, colour in colours.items()]
        figure.legend(handles=handles, loc="outside upper center", ncols=len(policies))
        figure.savefig(path, dpi=110)


def draw_ratios(groups: Mapping[str, Mapping[str, Seeds]], path: Path) -> None:
    """A panel for each load: which part of the runs has at most that JCT ÷ the run's JCT under VTC."""
    policies = list(next(iter(groups.values())))
    colours = colours_of(policies)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(11, 3.2), layout="constrained")
        panels = figure.subplots(1, len(groups), sharey=True, squeeze=False)[0]
        for axes, (load, group) in zip(panels, groups.items(), strict=True):
            for policy, own in group.items():
                if policy != "vtc":
                    ratios = np.exp(np.mean(np.log([o["ratios"] for o in own]), axis=0))
                    axes.plot(ratios, np.arange(101) / 100, color=colours[policy], lw=1.5)
            axes.axvline(1, color="0.3", lw=0.9)
            axes.axhline(0.92, color="0.3", lw=0.7, ls=":")
            axes.set(xscale="log", xlim=(0.02, 50), title=load, xlabel="JCT ÷ JCT under VTC")
        panels[0].set_ylabel("part of runs")
        handles = [
            mpl.lines.Line2D([], [], color=colours[policy], lw=2, label=policy)
            for policy in policies
            if policy != "vtc"
        ]
        figure.legend(handles=handles, loc="outside upper center", ncols=len(policies))
        figure.savefig(path, dpi=110)
