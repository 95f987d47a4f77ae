"""The document of `make bench-engine` about completion times: targets, a table for each load, and pictures."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from justitia_benchmarks.comparison import LATER_FRACTION
from justitia_benchmarks.document import table
from justitia_benchmarks.engine import measure
from justitia_benchmarks.engine.measure import MEAN, NOISY, NONE, RUN_VTC, STOCK, TRUE, Way, tokens_per_second
from justitia_benchmarks.engine.plan import SEEDS_BESIDE, EngineCell
from justitia_benchmarks.engine.workload import KV_TOKENS, SIZE, WEIGHTS
from justitia_benchmarks.reports.curves import COLOURS, STYLE
from justitia_benchmarks.speed import machine
from justitia_benchmarks.statistics import Estimate, digits, mean_interval, paired_ratio
from justitia_simulator.files import write_bytes
from justitia_vocabulary.units import Seconds

Figures = Mapping[str, Any]
NO_WORSE = 1.02
LEAST_WAIT = 0.1
"""The least part of their time that requests wait in the engine under run-level VTC, for orders to be compared."""
NOTHING_WAITED = "nothing waited: no comparison"
PICTURE = "engine-completion.svg"

HOW = f"""Written by `make bench-engine`; `benchmarks/justitia_benchmarks/engine/` says what is served and how.
Real vLLM on a CPU with a random model of two layers, float32, {KV_TOKENS:,} tokens of KV. Agent runs of the ten classes
with exact class counts and arrivals shaped like Mooncake's; prompts and outputs are {SIZE:g} of the recorded ones, tool
times shrink with the time that steps take. Two tenants, weights {" and ".join(f"{w:g}" for w in WEIGHTS.values())}, ask
in that proportion.

All ways of one seed follow each other on the same machine; ratios are paired by seed, with a 95 % interval (Student's t
on logarithms). *Stock vLLM* has no part of ours. *Engine*: our scheduler inside, told directly what the row says,
without a sidecar in the way. The rows with a sidecar are what users get: it recognises runs and learns their costs
itself. *Later*: part of the runs that complete more than {LATER_FRACTION:.0%} later than under VTC with a client for
each run; *worst*: the largest such ratio of one run. *Tokens/s* are those until the last run is over, most of which
the engine works for the largest runs alone; what the scheduler itself costs is in [its own document](engine-cost.md).
*Share*: what `silver` was charged of all
while runs arrived (its weight asks for {WEIGHTS["silver"] / sum(WEIGHTS.values()):.2f}); not known for stock vLLM and
behind a sidecar. Where requests wait in the engine for less than {LEAST_WAIT:.0%} of their time under VTC, orders are
not compared. Ways with n = {SEEDS_BESIDE} are there to compare with, no target is set for them."""


class EngineFigures:
    """Figures by load and way, a list in the order of the seeds."""

    def __init__(self, rows: Sequence[tuple[EngineCell, Figures]]) -> None:
        self._of: dict[tuple[float, Way], dict[int, Figures]] = {}
        for cell, figures in rows:
            self._of.setdefault((cell.scenario.load, cell.way), {})[cell.seed] = figures

    @property
    def loads(self) -> list[float]:
        return sorted({load for load, _ in self._of}, reverse=True)

    def ways(self, load: float) -> list[Way]:
        return [way for way in measure.WAYS if (load, way) in self._of]

    def all(self, load: float, way: Way) -> list[Figures]:
        return list(self._of[load, way].values())

    def has(self, load: float, *ways: Way) -> bool:
        return all((load, way) in self._of for way in ways)

    def pairs(self, load: float, ours: Way, theirs: Way) -> list[tuple[Figures, Figures]]:
        a, b = self._of[load, ours], self._of[load, theirs]
        return [(a[seed], b[seed]) for seed in sorted(a.keys() & b.keys())]

    def waited(self, load: float) -> bool:
        """Whether enough waited under run-level VTC for the order to matter."""
        waits = [f["queued"] / fmean(f["ttlt"]) for f in self._of.get((load, RUN_VTC), {}).values()]
        return not waits or fmean(waits) >= LEAST_WAIT

    def ratio(self, load: float, ours: Way, theirs: Way, figure: str = "jct") -> Estimate:
        """The ratio of the means."""
        pairs = self.pairs(load, ours, theirs)
        return paired_ratio([_value(a, figure) for a, _ in pairs], [_value(b, figure) for _, b in pairs])


def write_document(
    rows: Sequence[tuple[EngineCell, Figures]],
    full_step: Seconds,
    *,
    folder: Path,
) -> Path:
    measured = EngineFigures(rows)
    seeds = len({cell.seed for cell, _ in rows})
    parts = [
        "# Inside a real vLLM",
        HOW,
        f"{machine()} {seeds} seeds, {len(rows)} replays. A step of the full stock engine: {1e3 * full_step:.1f} ms.",
        "## Targets",
        table(("target", "wanted", "measured", "reached"), _targets(measured)),
    ]
    for load in measured.loads:
        parts += [f"## Load u = {load:g}", table(HEADS, [_row(measured, load, way) for way in measured.ways(load)])]
    folder.mkdir(parents=True, exist_ok=True)
    _draw(measured, folder / PICTURE)
    parts.insert(5, f"![Completion times]({PICTURE})")
    path = folder / "engine.md"
    write_bytes(path, "\n\n".join(parts).encode() + b"\n")
    return path


def _targets(measured: EngineFigures) -> list[list[str]]:
    high = measured.loads[0]
    wanted: list[tuple[str, float, Way, Way, str]] = [
        ("mean JCT, true costs ÷ run-level VTC", 0.60, TRUE, RUN_VTC, "jct"),
        ("mean JCT, costs off by up to 3 ÷ true costs", 1.05, NOISY, TRUE, "jct"),
        ("mean JCT, running means ÷ true costs", 1.20, MEAN, TRUE, "jct"),
        ("mean JCT, one constant ÷ run-level VTC", 1.0, NONE, RUN_VTC, "jct"),
    ]
    rows = [
        _target(f"u = {high:g}: {name}", limit, measured.ratio(high, a, b, figure), measured.waited(high))
        for name, limit, a, b, figure in wanted
        if measured.has(high, a, b)
    ]
    for way in (TRUE, MEAN):
        if measured.has(0.5, way, RUN_VTC):
            ratio = measured.ratio(0.5, way, RUN_VTC)
            name = f"u = 0.5: {way.name} ÷ run-level VTC, upper end"
            verdict = [ratio.text, _yes(ratio.high <= NO_WORSE)] if measured.waited(0.5) else [NOTHING_WAITED, "-"]
            rows.append([name, f"≤ {NO_WORSE:g}", *verdict])
    return rows


def _target(name: str, limit: float, ratio: Estimate, waited: bool) -> list[str]:
    return [name, f"≤ {limit:g}", *([ratio.text, _yes(ratio.mean <= limit)] if waited else [NOTHING_WAITED, "-"])]


def _yes(holds: bool) -> str:
    return "yes" if holds else "**no**"


HEADS = (
    "way",
    "mean JCT ÷ run-level VTC",
    "JCT, s: mean, P50, P90, P99",
    "TTFT, s: mean, P50, P90, P99",
    "TTLT, s: mean, P50, P90, P99",
    "later",
    "worst",
    "share",
    "tokens/s ÷ stock",
    "preemptions",
)


def _row(measured: EngineFigures, load: float, way: Way) -> list[str]:
    mine = measured.all(load, way)
    pairs = measured.pairs(load, way, RUN_VTC)
    ratios = [np.array(a["jct"]) / np.array(b["jct"]) for a, b in pairs]
    later = mean_interval([float((r > 1 + LATER_FRACTION).mean()) for r in ratios])
    own, waited = way == RUN_VTC, measured.waited(load)
    shares = [f["service"]["silver"] / (sum(f["service"].values()) or 1.0) for f in mine if "service" in f]
    preempted = [float(f["preemptions"]) for f in mine if "preemptions" in f]
    stock = measured.ratio(load, way, STOCK, "throughput")
    return [
        f"{way.name}",
        NOTHING_WAITED if not waited else "1" if own else measured.ratio(load, way, RUN_VTC).text,
        *(_distribution([f[name] for f in mine]) for name in ("jct", "ttft", "ttlt")),
        "-" if own or not waited else digits(later.mean),
        "-" if own or not waited else digits(fmean(float(r.max()) for r in ratios)),
        digits(fmean(shares)) if shares else "-",
        "1" if way == STOCK else stock.text,
        f"{fmean(preempted):.0f}" if preempted else "-",
    ]


def _distribution(by_seed: Sequence[Sequence[float]]) -> str:
    """Means over the seeds."""
    points = [fmean(map(fmean, by_seed))]
    points += [fmean(float(np.percentile(values, q)) for values in by_seed) for q in (50, 90, 99)]
    return ", ".join(map(digits, points))


def _value(figures: Figures, figure: str) -> float:
    return tokens_per_second(figures) if figure == "throughput" else fmean(figures[figure])


def _draw(measured: EngineFigures, path: Path) -> None:
    """Left: the part of the runs that have completed within a time. Right: each way's mean against run-level VTC."""
    load = measured.loads[0]
    ways = measured.ways(load)
    drawn = [way for way in ways if way in {STOCK, RUN_VTC, TRUE, MEAN, NONE, measure.PRODUCT, measure.SIDECAR}]
    colour = dict.fromkeys(ways, "0.6") | dict(zip(drawn, COLOURS, strict=False))
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(11.5, 0.4 * len(ways) + 2.4), layout="constrained")
        curves, ratios = figure.subplots(1, 2)
        for way in drawn:
            jcts = np.sort(np.concatenate([f["jct"] for f in measured.all(load, way)]))
            curves.plot(jcts, np.arange(1, len(jcts) + 1) / len(jcts), color=colour[way], lw=1.6, label=way.name)
        curves.set_xscale("log")
        curves.set_xlabel("completion time of a run, seconds")
        curves.set_title(f"Part of the runs completed, u = {load:g}")
        curves.legend(fontsize=7.5, loc="lower right")
        for place, way in enumerate(reversed(ways)):
            ratio = measured.ratio(load, way, RUN_VTC)
            bars = [[max(0.0, ratio.mean - ratio.low)], [max(0.0, ratio.high - ratio.mean)]]
            ratios.errorbar(ratio.mean, place, xerr=bars, marker="o", color=colour[way], ms=5, elinewidth=1.2)
        ratios.set_yticks(range(len(ways)), [way.name for way in reversed(ways)])
        ratios.axvline(1.0, color="0.4", lw=1, ls="--")
        ratios.set_xscale("log")
        ratios.set_xlabel("mean completion time ÷ run-level VTC's")
        ratios.set_title("Paired by seed, 95 % intervals")
        figure.savefig(path, metadata={"Date": None})
