"""The Justitia paper's smaller experiments: starvation (figure 9), wrong costs (figure 10), overhead (figure 12)."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from justitia_benchmarks.document import write_table
from justitia_benchmarks.experiment import Claim, Row, at_most
from justitia_benchmarks.reports.curves import Panel, draw
from justitia_benchmarks.statistics import digits, mean_interval, paired_ratio

OURS = ("justitia", "tiered-justitia")
CLOSE = 0.1
"""How much more than a bound that the paper gives in words still counts as reaching it."""

Series = Mapping[str, Mapping[float, Sequence[float]]]
"""Values of each seed by policy and by what is varied."""


def report_starvation(rows: Sequence[Row], folder: Path) -> list[Claim]:
    """JCT of the large run against the number of small ones, for each rate at which these come."""
    claims, panels = [], {}
    for every in sorted({float(cell.parameters["every"]) for cell, _ in rows}):
        own = [(cell, figures) for cell, figures in rows if cell.parameters["every"] == every]
        jct = panels[f"one small run every {every:g} s"] = _series(own, "mice", "elephant_jct")
        mice = sorted(jct["srjf"])
        drained = mean_interval(_series(own, "mice", "drained")["justitia"][mice[-1]])
        write_table(
            folder / f"elephant-jct-{every:g}.md",
            [f"JCT of the large run, s; one small run every {every:g} s", *(f"{n:g} small runs" for n in mice)],
            [[policy, *(mean_interval(by_mice[n]).text for n in mice)] for policy, by_mice in jct.items()],
        )
        growth = {policy: paired_ratio(by_mice[mice[-1]], by_mice[mice[-2]]) for policy, by_mice in jct.items()}
        why = (
            f"bounded: at most 10 % more; SRJF {growth['srjf'].percent}. Serving takes {digits(drained.mean)} times as "
            "long as arriving: well beyond 1, runs pile up and fair sharing itself leaves the large one ever less"
        )
        claims += [
            Claim(
                f"a small run every {every:g} s: JCT of a large run among {mice[-1]:g} against {mice[-2]:g}, {policy}",
                "bounded; under SRJF it grows on",
                growth[policy].percent,
                at_most(growth[policy], 1.0, within=CLOSE),
                why,
            )
            for policy in OURS
        ]
    _draw(folder / "elephant-jct.png", panels, "JCT of the large run, s", "small runs")
    return claims


def report_misprediction(rows: Sequence[Row], folder: Path) -> list[Claim]:
    """Mean JCT against the one with true costs."""
    series = {"mean": _series(rows, "factor", "mean"), "P90": _series(rows, "factor", "p90")}
    factors = sorted(series["mean"]["justitia"])
    ratios = {
        figure: {policy: [paired_ratio(own[f], own[factors[0]]) for f in factors] for policy, own in of.items()}
        for figure, of in series.items()
    }
    for figure, of in ratios.items():
        write_table(
            folder / f"{figure.lower()}-jct.md",
            [f"{figure} JCT ÷ with true costs", *(f"factor {f:g}" for f in factors)],
            [[policy, *(e.text for e in estimates)] for policy, estimates in of.items()],
        )
    relative = {
        policy: {f: [a / b for a, b in zip(own[f], own[factors[0]], strict=True)] for f in factors}
        for policy, own in series["mean"].items()
    }
    _draw(
        folder / "mean-jct.png", {"7B, 2x": relative}, "mean JCT ÷ with true costs", "costs wrong by up to a factor of"
    )
    return [
        Claim(
            f"costs wrong by up to {factors[-1]:g}×: mean JCT, {policy}",
            "+9.5 %",
            ratios["mean"][policy][-1].percent,
            at_most(ratios["mean"][policy][-1], 1.095),
            "log-uniform factors per run; 2x, 7B",
        )
        for policy in OURS
    ]


def report_overhead(rows: Sequence[Row], folder: Path) -> list[Claim]:
    """Milliseconds of CPU time per scheduling point."""
    figures = {name: _series(rows, "rate", name) for name in ("median", "mean", "p99", "per_run")}
    rates = sorted(figures["mean"]["justitia"])
    titles = {
        "median": "median per point, ms",
        "mean": "mean per point, ms",
        "p99": "P99 per point, ms",
        "per_run": "all scheduling per run, ms",
    }
    write_table(
        folder / "scheduling-time.md",
        ["policy", "CPU time", *(f"{rate:g} runs a minute" for rate in rates)],
        [
            [policy, titles[name], *(mean_interval(of[policy][rate]).text for rate in rates)]
            for policy in OURS
            for name, of in figures.items()
        ],
    )
    panels = {titles[name]: figures[name] for name in ("mean", "p99", "per_run")}
    _draw(folder / "scheduling-time.png", panels, "milliseconds", "runs a minute")
    paper = {rates[0]: 0.78, rates[-1]: 8.09}
    return [
        Claim(
            f"scheduling at {rate:g} runs a minute, {policy}: mean milliseconds",
            digits(figure),
            ours := mean_interval(figures["mean"][policy][rate]),
            at_most(ours, figure),
            f"CPU time when a run arrives or ends; P99 {_mean(figures['p99'][policy][rate])} ms",
        )
        for policy in OURS
        for rate, figure in paper.items()
    ]


def _series(rows: Sequence[Row], varied: str, figure: str) -> dict[str, dict[float, list[float]]]:
    series: dict[str, dict[float, list[float]]] = {}
    for cell, figures in rows:
        by_value = series.setdefault(str(cell.parameters["policy"]), {})
        by_value.setdefault(float(cell.parameters[varied]), []).append(float(str(figures[figure])))
    return series


def _mean(values: Sequence[float]) -> str:
    return digits(mean_interval(values).mean)


def _draw(path: Path, panels: Mapping[str, Series], ylabel: str, xlabel: str) -> None:
    """A panel for each series: a curve for each policy, with the range of its seeds."""
    drawn = []
    for title, series in panels.items():
        moments = sorted(next(iter(series.values())))
        lines = {
            policy: [list(curve) for curve in zip(*(own[x] for x in moments), strict=True)]
            for policy, own in series.items()
        }
        drawn.append(Panel(title, moments, lines))
    draw(path, drawn, ylabel, xlabel)
