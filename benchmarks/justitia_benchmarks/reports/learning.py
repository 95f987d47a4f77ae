"""Tables, plots and claims of what predictors are worth."""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from justitia_benchmarks.document import write_table
from justitia_benchmarks.experiment import Claim, Figures, Row, at_most
from justitia_benchmarks.reports.curves import Panel, draw
from justitia_benchmarks.statistics import digits, mean_interval, paired_ratio
from justitia_predictor.models import MODELS, Network, RunningMean

BEST = "best"
"""Whatever kind did best on held-out runs."""
KINDS = (*MODELS, BEST)
PAPER_ERROR = 0.53
PAPER_SAMPLES = 100
ORDER = ("cold start", RunningMean.kind, Network.kind, BEST, "true")


def report_errors(rows: Sequence[Row], folder: Path) -> list[Claim]:
    """By degree: errors of each class with as many runs as the paper's, and the mean over classes against runs."""
    degrees = sorted({float(cell.parameters["degree"]) for cell, _ in rows})
    samples = sorted({int(cell.parameters["samples"]) for cell, _ in rows})
    claims, panels = [], []
    for degree in degrees:
        own = [(cell, figures) for cell, figures in rows if cell.parameters["degree"] == degree]
        applications = list(dict.fromkeys(str(cell.parameters["application"]) for cell, _ in own))
        for figure in ("relative", "rank"):
            write_table(
                folder / f"{figure}-{degree:g}.md",
                [f"{_NAMES[figure]}, {PAPER_SAMPLES} runs, degree {degree:g}", *KINDS],
                [
                    [a, *(digits(fmean(_values(own, figure, kind, PAPER_SAMPLES, a))) for kind in KINDS)]
                    for a in applications
                ],
            )
        if len(samples) > 1:
            panels.append(
                Panel(
                    f"degree {degree:g}",
                    samples,
                    {kind: _curves(own, kind, samples) for kind in KINDS},
                    limit=PAPER_ERROR,
                    logarithmic=True,
                )
            )
        of_network, of_best = (_mean_by_seed(own, "relative", kind, PAPER_SAMPLES) for kind in (Network.kind, BEST))
        why = f"mean over the ten classes; prompts tell what can be known with probability {degree:g}"
        claims += [
            Claim(
                f"relative error on unseen runs, MLP, {PAPER_SAMPLES} runs, degree {degree:g}",
                "53 %",
                mean_interval(of_network),
                at_most(mean_interval(of_network), PAPER_ERROR),
                why,
            ),
            Claim(
                f"the same, the best kind ÷ MLP, degree {degree:g}",
                "1",
                paired_ratio(of_best, of_network),
                at_most(paired_ratio(of_best, of_network), 1.0),
                "the kind is chosen for each class and seed on held-out runs: " + _chosen(own),
            ),
        ]
    if panels:
        draw(folder / "relative-error.png", panels, "mean relative error", "runs learned from")
    return claims


def report_completion(rows: Sequence[Row], folder: Path) -> list[Claim]:
    """Mean, P99 and largest decile of JCT against those with true costs."""
    claims = []
    for degree in sorted({float(cell.parameters["degree"]) for cell, _ in rows}):
        table = []
        for policy in dict.fromkeys(str(cell.parameters["policy"]) for cell, _ in rows):
            own = [f for c, f in rows if c.parameters["policy"] == policy and c.parameters["degree"] == degree]
            ratios = {
                figure: {
                    p: paired_ratio([_at(f, p, figure) for f in own], [_at(f, "true", figure) for f in own])
                    for p in ORDER
                }
                for figure in ("mean", "p99", "largest_decile")
            }
            table += [
                [f"{policy}, {_NAMES[figure]}", *(of[p].text for p in ORDER[:-1])] for figure, of in ratios.items()
            ]
            means = {p: [_at(f, p, "mean") for f in own] for p in ORDER}
            gain, most = (paired_ratio(means[p], means[RunningMean.kind]) for p in (BEST, "true"))
            claims.append(
                Claim(
                    f"mean JCT with the best model ÷ with running means, {policy}, degree {degree:g}",
                    "less than 1",
                    gain.percent,
                    at_most(gain, 1.0),
                    f"100 past runs of each class; with true costs {most.percent}",
                )
            )
        write_table(folder / f"jct-{degree:g}.md", [f"JCT ÷ with true costs, degree {degree:g}", *ORDER[:-1]], table)
        _write_classes(rows, degree, folder)
    return claims


def _write_classes(rows: Sequence[Row], degree: float, folder: Path) -> None:
    """What is gained by class, over the seeds in which it occurs."""
    policies = list(dict.fromkeys(str(cell.parameters["policy"]) for cell, _ in rows))
    found: dict[str, list[str]] = {}
    for policy in policies:
        own: list[Any] = [f for c, f in rows if c.parameters["policy"] == policy and c.parameters["degree"] == degree]
        for name in dict.fromkeys(name for f in own for name in f["true"]["classes"]):
            times = {
                p: [f[p]["classes"][name] for f in own if name in f["true"]["classes"]]
                for p in (RunningMean.kind, BEST, "true")
            }
            found.setdefault(name, []).extend(
                paired_ratio(times[p], times[RunningMean.kind]).text for p in (BEST, "true")
            )
    heads = [f"{policy}, {p}" for policy in policies for p in (BEST, "true")]
    write_table(
        folder / f"jct-by-class-{degree:g}.md",
        [f"mean JCT ÷ with running means, degree {degree:g}", *heads],
        [[name, *texts] for name, texts in found.items()],
    )


_NAMES = {
    "relative": "mean relative error",
    "rank": "rank correlation",
    "mean": "mean",
    "p99": "P99",
    "largest_decile": "mean of the largest decile",
}


def _at(figures: Figures, *path: str) -> float:
    """A figure inside others."""
    found: Any = figures
    for name in path:
        found = found[name]
    return float(found)


def _values(rows: Sequence[Row], figure: str, kind: str, samples: int, application: str) -> list[float]:
    return [
        _at(f, "errors", kind, figure)
        for cell, f in rows
        if cell.parameters["samples"] == samples and cell.parameters["application"] == application
    ]


def _mean_by_seed(rows: Sequence[Row], figure: str, kind: str, samples: int) -> list[float]:
    """Over classes, of each seed."""
    by_seed: dict[int, list[float]] = {}
    for cell, f in rows:
        if cell.parameters["samples"] == samples:
            by_seed.setdefault(cell.seed, []).append(_at(f, "errors", kind, figure))
    return [fmean(values) for _, values in sorted(by_seed.items())]


def _curves(rows: Sequence[Row], kind: str, samples: Sequence[int]) -> list[list[float]]:
    """The mean error against samples, of each seed."""
    by_samples = [_mean_by_seed(rows, "relative", kind, count) for count in samples]
    return [list(curve) for curve in zip(*by_samples, strict=True)]


def _chosen(rows: Sequence[Row]) -> str:
    kinds = [str(f["kind"]) for cell, f in rows if cell.parameters["samples"] == PAPER_SAMPLES]
    counts = {kind: kinds.count(kind) for kind in dict.fromkeys(kinds)}
    return ", ".join(f"{kind} {count}" for kind, count in sorted(counts.items(), key=lambda each: -each[1]))
