"""The Justitia paper's claims and figures 7, 8, 10 and 11."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from justitia_benchmarks.document import write_table
from justitia_benchmarks.experiment import Claim, Row, Verdict
from justitia_benchmarks.statistics import Estimate, mean_interval, paired_ratio

REFERENCE = "7B-A10G"


def report_completion(rows: Sequence[Row], folder: Path) -> list[Claim]:
    """One table per model and density; the claims are on the validated engine."""
    table: dict[tuple[str, str], dict[str, list[Mapping[str, Any]]]] = {}
    for cell, figures in rows:
        group = table.setdefault((str(cell.parameters["model"]), str(cell.parameters["density"])), {})
        for policy, own in figures.items():
            group.setdefault(policy, []).append(own)  # type: ignore[arg-type]
    for (model, density), group in table.items():
        write_table(
            folder / f"jct-{model}-{density}.md",
            [
                f"{model}, {density}",
                "mean JCT, s",
                "÷ VTC",
                "P90, s",
                "largest decile, s",
                "not later",
                "not late",
                "worst ratio",
            ],
            [[policy, *_columns(own, group["vtc"])] for policy, own in group.items()],
        )
    _draw_means(table, folder)
    densities = [density for model, density in table if model == REFERENCE]
    for density in densities:
        _draw_ratios(table[REFERENCE, density], density, folder)
    return [claim for density in densities for claim in _completion_claims(table[REFERENCE, density], density)]


def report_misprediction(rows: Sequence[Row], folder: Path) -> list[Claim]:
    """Mean JCT against the one with true costs."""
    means: dict[str, dict[float, list[float]]] = {}
    for cell, figures in rows:
        by_factor = means.setdefault(str(cell.parameters["policy"]), {})
        by_factor.setdefault(float(cell.parameters["factor"]), []).append(float(str(figures["mean"])))
    factors = sorted(means["justitia"])
    ratio = {policy: [paired_ratio(own[f], own[factors[0]]) for f in factors] for policy, own in means.items()}
    write_table(
        folder / "mean-jct.md",
        ["mean JCT ÷ with true costs", *(f"factor {f:g}" for f in factors)],
        [[policy, *(e.text for e in estimates)] for policy, estimates in ratio.items()],
    )
    return [
        Claim(
            f"Costs wrong by up to {factors[-1]:g}×: mean JCT under {policy} rises little",
            "+9.5 %",
            estimates[-1].percent,
            _at_most(estimates[-1], 1.095),
            "log-uniform factors per run; 2x density, 7B on an A10G",
        )
        for policy, estimates in ratio.items()
        if policy != "srjf"
    ]


def _columns(own: Sequence[Mapping[str, Any]], vtc: Sequence[Mapping[str, Any]]) -> list[str]:
    return [
        mean_interval([o["mean"] for o in own]).text,
        _ratio(own, vtc, "mean").text,
        mean_interval([o["p90"] for o in own]).text,
        mean_interval([o["largest_decile"] for o in own]).text,
        mean_interval([o["not_later"] for o in own]).text,
        mean_interval([o["not_late"] for o in own]).text,
        mean_interval([o["worst"] for o in own]).text,
    ]


def _completion_claims(group: Mapping[str, Sequence[Mapping[str, Any]]], density: str) -> list[Claim]:
    claims = []
    for policy in ("justitia", "tiered-justitia"):
        own = group[policy]
        for other, paper, bound in (("vtc", "−57.5 %", 0.425), ("parrot", "−61.1 %", 0.389), ("srjf", "close", 1.1)):
            e = _ratio(own, group[other], "mean")
            why = {"vtc": "each run a client, charged p + 2d", "srjf": "reached: mean within 10 %"}.get(other, "")
            claims.append(
                Claim(f"{density}: mean JCT, {policy} against {other}", paper, e.percent, _at_most(e, bound), why)
            )
        share = mean_interval([o["not_later"] for o in own])
        claims.append(
            Claim(
                f"{density}: share of runs not later than under VTC, {policy}",
                "92 % (3x)",
                share,
                _at_least(share, 0.92),
                "",
            )
        )
        worst = mean_interval([o["worst"] for o in own])
        claims.append(
            Claim(
                f"{density}: worst JCT ÷ JCT under VTC, {policy}",
                "1.26 (3x)",
                worst,
                _at_most(worst, 1.26),
                "worst of each seed",
            )
        )
    e = _ratio(group["justitia-c"], group["justitia"], "mean")
    claims.append(
        Claim(f"{density}: compute as cost (justitia-c) against Justitia, mean JCT", "up to +42.3 %", e.percent,
              Verdict.REACHED if e.low > 1 else Verdict.NOT_REACHED, "reached: the whole interval above 0 %")
    )  # fmt: skip
    return claims


def _ratio(ours: Sequence[Mapping[str, Any]], theirs: Sequence[Mapping[str, Any]], figure: str) -> Estimate:
    return paired_ratio([o[figure] for o in ours], [t[figure] for t in theirs])


def _at_most(e: Estimate, bound: float) -> Verdict:
    """Beaten where the whole interval is better, reached where the mean is."""
    return Verdict.BEATEN if e.high < bound else Verdict.REACHED if e.mean <= bound else Verdict.NOT_REACHED


def _at_least(e: Estimate, bound: float) -> Verdict:
    return Verdict.BEATEN if e.low > bound else Verdict.REACHED if e.mean >= bound else Verdict.NOT_REACHED


def _draw_means(table: Mapping[tuple[str, str], Mapping[str, Sequence[Mapping[str, Any]]]], folder: Path) -> None:
    figure = Figure(figsize=(9.5, 3.6), layout="constrained")
    axes = figure.subplots()
    policies = list(next(iter(table.values())))
    for i, policy in enumerate(policies):
        at = np.arange(len(table)) + (i - len(policies) / 2) * 0.1
        axes.bar(at, [mean_interval([o["mean"] for o in g[policy]]).mean for g in table.values()], 0.09, label=policy)
    axes.set_xticks(range(len(table)), [f"{model}\n{density}" for model, density in table])
    axes.set(ylabel="mean JCT, seconds (log)", yscale="log")
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    figure.savefig(folder / "mean-jct.png", dpi=80)


def _draw_ratios(group: Mapping[str, Sequence[Mapping[str, Any]]], density: str, folder: Path) -> None:
    figure = Figure(figsize=(7, 3.4), layout="constrained")
    axes = figure.subplots()
    for policy, own in group.items():
        if policy != "vtc":
            axes.plot(np.mean([o["ratios"] for o in own], axis=0), np.arange(101) / 100, label=policy)
    axes.axvline(1, color="0.5", lw=0.8)
    axes.set(xlabel=f"JCT ÷ JCT under VTC at {density}", ylabel="part of runs", xscale="log")
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    figure.savefig(folder / f"ratio-{density}.png", dpi=80)
