"""Draws the report's plots, as SVG that takes its colours from the page, for light and dark pages.

Axes and text are drawn in placeholder colours that become `currentColor` and the page's grid colour. Policies
and tenants have colours of middle brightness, the same in all plots.
"""

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import cycle
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter
from matplotlib.typing import RcKeyType

from justitia_simulator.records import FINISHED, PolicyResults
from justitia_simulator.series import Series, lightest_tenant, sampled, service_series, waiting_series
from justitia_simulator.summary import service_unit, ttft

INK = "#010203"
GRID = "#040506"
POLICY_COLOURS = ("#8a8f98", "#e08a1e", "#2f9e77", "#3b82d6", "#b07a4a", "#5fb0e8", "#8bbf4f", "#c9a227")
TENANT_COLOURS = ("#c4549c", "#7a67d6", "#d1543f", "#9a8a1e", "#2aa5b8", "#7d9b3c")
WIDTH = 9.5

STYLE: dict[RcKeyType, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["Helvetica", "Arial", "DejaVu Sans"],
    "font.size": 10,
    "svg.fonttype": "none",
    "svg.hashsalt": "justitia",
    "axes.edgecolor": GRID,
    "axes.labelcolor": INK,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
}


@dataclass(frozen=True)
class Plot:
    """One figure: an inline SVG, its title and the sentence that says how to read it."""

    title: str
    caption: str
    svg: str


def draw_plots(results: Sequence[PolicyResults]) -> list[Plot]:
    """All plots that these results can fill."""
    with mpl.rc_context(STYLE):
        plots = [_jct(results), _service(results), _ttft(results), _waiting(results)]
        if any(r.service for r in results):
            plots.append(_queues(results))
    return [p for p in plots if p is not None]


def _jct(results: Sequence[PolicyResults]) -> Plot | None:
    if not any(run.jct is not None for r in results for run in r.runs):
        return None
    figure, axes = _figure(3.6)
    for colour, r in zip(cycle(POLICY_COLOURS), results, strict=False):
        if values := sorted(run.jct for run in r.runs if run.jct is not None):
            part = np.arange(len(values) + 1) / len(r.runs)
            axes.step([values[0], *values], part, where="post", color=colour, lw=2, label=r.policy)
    _seconds(axes, "x")
    axes.set(xlabel="completion time of a run, seconds (log)", ylabel="part of runs finished", ylim=(0, 1.01))
    axes.legend(loc="upper left")
    caption = (
        "The further left a curve, the sooner runs finish; its right end is the worst run, and a curve that ends "
        "below 1 left runs unfinished."
    )
    return Plot("Completion time of runs per policy", caption, _svg(figure))


def _service(results: Sequence[PolicyResults]) -> Plot | None:
    """Service in the unit of the charges if all policies have the same, else in weighted tokens."""
    charged = len({service_unit(r) for r in results}) == 1
    series = {r.policy: service_series(r if charged else replace(r, service=())) for r in results}
    if not any(tenants for _, tenants in series.values()):
        return None
    unit = next(iter(series.values()))[0]
    svg = _panels({policy: tenants for policy, (_, tenants) in series.items()}, f"{unit} ÷ weight", step=False)
    caption = (
        "Service received so far, divided by the tenant's weight: while two tenants both have requests waiting, "
        "lines of equal slope mean that each gets its share."
    )
    return Plot("Service per tenant over time", caption, svg)


def _queues(results: Sequence[PolicyResults]) -> Plot:
    svg = _panels({r.policy: sampled(r, "queued") for r in results if r.service}, "requests waiting", step=True)
    caption = "Requests ready and not yet admitted: only while this is above zero is a tenant entitled to a share."
    return Plot("Queue per tenant over time", caption, svg)


def _ttft(results: Sequence[PolicyResults]) -> Plot | None:
    tenants = sorted({q.tenant for r in results for q in r.requests})
    figure, axes = _figure(3.4)
    width = 0.8 / len(results)
    drawn = False
    for i, (colour, r) in enumerate(zip(cycle(POLICY_COLOURS), results, strict=False)):
        for x, tenant in enumerate(tenants):
            values = ttft(q for q in r.requests if q.tenant == tenant and q.status == FINISHED)
            if not values:
                continue
            drawn = True
            p5, p50, p95, p99 = np.percentile(values, (5, 50, 95, 99))
            at = x + (i - (len(results) - 1) / 2) * width
            axes.vlines(at, p5, p95, color=colour, lw=7, alpha=0.45)
            axes.plot(at, p50, "o", color=colour, ms=6, label=r.policy if x == 0 else "_")
            axes.plot(at, p99, "_", color=colour, ms=12, mew=2)
    if not drawn:
        return None
    _seconds(axes, "y")
    axes.set_xticks(range(len(tenants)), [_with_weight(t, results) for t in tenants])
    axes.set(ylabel="time to first token, seconds (log)", xlim=(-0.6, len(tenants) - 0.4))
    axes.grid(visible=False, axis="x")
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    caption = "From ready to first token: the dot is the median, the bar the 5th to 95th percentile, the dash the 99th."
    return Plot("Time to first token per tenant", caption, _svg(figure))


def _waiting(results: Sequence[PolicyResults]) -> Plot | None:
    light = lightest_tenant(results[0])
    if light is None:
        return None
    figure, axes = _figure(3.2)
    drawn = False
    for colour, r in zip(cycle(POLICY_COLOURS), results, strict=False):
        series = waiting_series(r, light)
        if series.times.size:
            drawn = True
            axes.plot(series.times, series.values, "-", color=colour, lw=0.8, alpha=0.6)
            axes.plot(series.times, series.values, "o", color=colour, ms=3.5, label=r.policy)
    if not drawn:
        return None
    _seconds(axes, "y")
    axes.set(xlabel="moment the request became ready, seconds", ylabel="waited, seconds (log)")
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    caption = f"Each dot is a request of {light}, the tenant that asks least: how long it waited for its first token."
    return Plot(f"Waiting of the light tenant ({light})", caption, _svg(figure))


def _panels(shown: Mapping[str, Mapping[str, Series]], label: str, *, step: bool) -> str:
    """A panel for each policy, two or three in a row, with a line for each tenant."""
    columns = 2 if len(shown) in (2, 4) else min(3, len(shown))
    rows = -(-len(shown) // columns)
    figure = Figure(figsize=(WIDTH, 0.5 + 2.5 * rows), layout="constrained")
    grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    tenants = sorted({t for policy in shown.values() for t in policy})
    colour = dict(zip(tenants, cycle(TENANT_COLOURS), strict=False))
    for axes, (policy, series) in zip(grid.flat, shown.items(), strict=False):
        axes.set_title(policy)
        for tenant, s in series.items():
            style = "steps-post" if step else "default"
            axes.plot(s.times, s.values, color=colour[tenant], lw=1.8, drawstyle=style, label=tenant)
    for axes in grid.flat[len(shown) :]:
        axes.set_visible(False)
    for axes in list(grid.flat)[max(0, len(shown) - columns) : len(shown)]:
        axes.tick_params(labelbottom=True)
    for axes in grid[:, 0]:
        axes.set_ylabel(label)
        axes.set_ylim(bottom=0)
    figure.supxlabel("seconds", fontsize=10)
    figure.legend(*grid[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=len(tenants))
    return _svg(figure)


def _with_weight(tenant: str, results: Sequence[PolicyResults]) -> str:
    weights = {r.weights[tenant] for r in results if tenant in r.weights}
    return f"{tenant}\nweight {weights.pop():g}" if len(weights) == 1 else tenant


def _figure(height: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    return figure, figure.subplots()


def _seconds(axes: Axes, which: str) -> None:
    axis = axes.xaxis if which == "x" else axes.yaxis
    axes.set_xscale("log") if which == "x" else axes.set_yscale("log")
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(FuncFormatter(lambda value, _: ""))


def _svg(figure: Figure) -> str:
    """The figure as an inline element that scales with the page."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r' width="[\d.]+pt" height="[\d.]+pt"|<metadata>.*?</metadata>', "", text, flags=re.DOTALL)
    text = text.replace(INK, "currentColor").replace(GRID, "var(--grid)")
    return re.sub(r"\n\s*", "\n", text)
