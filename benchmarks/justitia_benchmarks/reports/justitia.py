"""The Justitia paper's completion times: claims, figures 7, 8 and 11, and what lies behind them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from justitia_benchmarks.document import write_table
from justitia_benchmarks.experiment import Claim, Row, at_least, at_most
from justitia_benchmarks.reports.justitia_plots import draw_means, draw_ratios
from justitia_benchmarks.statistics import Estimate, digits, mean_interval, paired_ratio

REFERENCE = "7B"
WITHOUT_DM = "u=2.5, no DM"
FAIRNESS_AT = "3x"
OURS = ("justitia", "tiered-justitia")
ORDER = ("fcfs", "sjf", "parrot", "vtc", "srjf", "justitia", "tiered-justitia", "justitia-c")
CLOSE = 0.1
FIGURES = {"vtc": ("−57.5 %", 0.425), "parrot": ("−61.1 %", 0.389)}
"""The paper's change of the mean JCT against each, and the ratio that it is."""

Seeds = Sequence[Mapping[str, Any]]
"""A policy's figures, seed by seed."""
Group = Mapping[str, Seeds]
"""By policy, of one model at one load."""


def report_completion(rows: Sequence[Row], folder: Path) -> list[Claim]:
    """Tables and plots of every model and load. Fairness is claimed at the density that the paper gives it at."""
    cells: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for cell, figures in rows:
        cells.setdefault((str(cell.parameters["model"]), str(cell.parameters["load"])), []).append(figures)
    groups = {
        key: {policy: [f["policies"][policy] for f in of] for policy in ORDER if policy in of[0]["policies"]}
        for key, of in cells.items()
    }
    reference = {load: group for (model, load), group in groups.items() if model == REFERENCE}
    _write_loads(cells, folder)
    for number, ((model, load), group) in enumerate(groups.items()):
        _write_times(folder / f"jct-{number:02}.md", f"{model}, {load}", group)
    _write_classes(cells, reference, folder)
    draw_means(groups, folder / "mean-jct.png")
    draw_ratios(reference, folder / "ratio-to-vtc.png")
    shares = _cost_shares(cells[REFERENCE, FAIRNESS_AT])
    claims: list[Claim] = []
    for (model, load), group in groups.items():
        why = {"vtc": f"{_load(cells[model, load])}; VTC: each run a client, charged p + 2d"}
        if model == REFERENCE:
            why["parrot"] = _parrot(group, shares, load)
        for policy in OURS:
            claims += [_mean_claim(f"{model}, {load}", group, policy, other, why[other]) for other in why]
            claims.append(_close_to_srjf(f"{model}, {load}", group, policy))
    return [*claims, *_fairness_claims(reference[FAIRNESS_AT]), *_ablation_claims(reference)]


def _mean_claim(of: str, group: Group, policy: str, other: str, why: str) -> Claim:
    paper, bound = FIGURES[other]
    e = _ratio(group[policy], group[other], "mean")
    return Claim(f"{of}: mean JCT, {policy} against {other}", paper, e.percent, at_most(e, bound), why)


def _close_to_srjf(of: str, group: Group, policy: str) -> Claim:
    e = _ratio(group[policy], group["srjf"], "mean")
    return Claim(
        f"{of}: mean JCT, {policy} against srjf",
        "very close",
        e.percent,
        at_most(e, 1.0, within=CLOSE),
        "close: at most 10 % more; beaten: less than SRJF",
    )


def _fairness_claims(group: Group) -> list[Claim]:
    claims = []
    for policy in OURS:
        share = mean_interval([o["not_later"] for o in group[policy]])
        worst = mean_interval([o["worst"] for o in group[policy]])
        late = mean_interval([o["not_late"] for o in group[policy]])
        srjf = mean_interval([o["not_later"] for o in group["srjf"]])
        later = mean_interval([o["worst_later_by"] for o in group[policy]])
        why = (
            f"within 10 % or 2 s of VTC's: {digits(late.mean)}; SRJF {digits(srjf.mean)}, so it does not see starvation"
        )
        claims += [
            Claim(f"{FAIRNESS_AT}: share of runs not later than under VTC, {policy}", "0.92", share,
                  at_least(share, 0.92), why),
            Claim(f"{FAIRNESS_AT}: worst JCT ÷ JCT under VTC, {policy}", "1.26", worst, at_most(worst, 1.26),
                  f"the worst run of each seed ends {digits(later.mean)} s later than under VTC"),
        ]  # fmt: skip
    return claims


def _ablation_claims(reference: Mapping[str, Group]) -> list[Claim]:
    """The paper's figure is the largest of its densities; more is better, for it is what the cost model is worth."""
    claims = []
    for figure, title in (("mean", "mean"), ("p90", "P90")):
        ratios = {load: _ratio(g["justitia-c"], g["justitia"], figure) for load, g in reference.items()}
        largest = max(ratios, key=lambda load: ratios[load].mean)
        others = ", ".join(f"{load} {_change(e)}" for load, e in ratios.items() if load != largest)
        why = f"at {largest}, its largest; {others}; {_who_pays(reference[largest])}"
        claims.append(
            Claim(f"compute as cost (justitia-c) against KV token-time (justitia), {title} JCT", "up to +42.3 %",
                  ratios[largest].percent, at_least(ratios[largest], 1.423), why)
        )  # fmt: skip
    return claims


def _who_pays(group: Group) -> str:
    """The classes that finish latest and earliest where compute is the cost, against KV token-time."""
    ratios = {name: _class_ratio(group, name).mean for name in group["justitia"][0]["class_mean"]}
    last, first = max(ratios, key=ratios.__getitem__), min(ratios, key=ratios.__getitem__)
    return (
        f"p + 2d counts prompts, which C leaves out: {last} takes {digits(ratios[last])} times as long, "
        f"{first} {digits(ratios[first])} times"
    )


def _change(e: Estimate) -> str:
    return e.percent.split(" (", maxsplit=1)[0]


def _parrot(group: Group, shares: Mapping[str, float], load: str) -> str:
    """Why Parrot is as slow as it is: it is FCFS by run, and one run in a hundred holds most of the work."""
    against = f"Parrot ÷ VTC is {digits(_ratio(group['parrot'], group['vtc'], 'mean').mean)}, in the paper 1.09"
    if load == WITHOUT_DM:
        return f"without DM, at the same load, the queue by run holds up few: {against}"
    return f"all wait behind DM, 1 % of the runs and {shares['DM'] * 100:.0f} % of their cost: {against}"


def _cost_shares(cells: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Part of the workload's KV token-time that each class asks for."""
    total = sum(size["cost"] for cell in cells for size in cell["classes"].values())
    return {name: sum(cell["classes"][name]["cost"] for cell in cells) / total for name in cells[0]["classes"]}


def _load(of: Sequence[Mapping[str, Any]]) -> str:
    return f"u = {digits(mean_interval([f['u'] for f in of]).mean)}"


def _write_loads(cells: Mapping[tuple[str, str], Sequence[Mapping[str, Any]]], folder: Path) -> None:
    write_table(
        folder / "a-load.md",
        ["model", "load", "offered load u = ΣC ÷ (M · iterations in the arrival window)"],
        [[model, load, mean_interval([f["u"] for f in of]).text] for (model, load), of in cells.items()],
    )


def _write_times(path: Path, title: str, group: Group) -> None:
    columns = ["mean", "p90", "p99", "largest_decile", "not_later", "not_late", "worst"]
    figures = {
        policy: [*(mean_interval([o[c] for o in own]) for c in columns), _ratio(own, group["vtc"], "mean")]
        for policy, own in group.items()
    }
    write_table(
        path,
        [title, "mean JCT, s", "P90, s", "P99, s", "largest decile's mean, s", "not later than VTC", "not late",
         "worst ratio", "mean ÷ VTC"],
        [[policy, *(e.text for e in estimates)] for policy, estimates in figures.items()],
    )  # fmt: skip


def _write_classes(
    cells: Mapping[tuple[str, str], Sequence[Mapping[str, Any]]], reference: Mapping[str, Group], folder: Path
) -> None:
    """Who gains and who loses where compute is the cost: justitia-c ÷ justitia, by class."""
    of = cells[REFERENCE, FAIRNESS_AT]
    shares = _cost_shares(of)
    loads = [load for load in reference if load != WITHOUT_DM]
    rows = []
    for name, share in sorted(shares.items(), key=lambda item: item[1]):
        sizes = [cell["classes"][name] for cell in of]
        prompt, output, cost, runs = (sum(s[k] for s in sizes) for k in ("prompt", "output", "cost", "runs"))
        ratios = [_class_ratio(reference[load], name) for load in loads]
        rows.append(
            [name, digits(cost / runs), f"{share * 100:.1f} %", digits(prompt / output),
             digits(cost / (prompt + 2 * output)), *(e.text for e in ratios)]
        )  # fmt: skip
    write_table(
        folder / "z-compute-as-cost.md",
        ["class", "C of a run", "part of all C", "prompt ÷ output tokens", "C ÷ (p + 2d)",
         *(f"{load}: mean JCT, justitia-c ÷ justitia" for load in loads)],
        rows,
    )  # fmt: skip


def _class_ratio(group: Group, name: str) -> Estimate:
    pairs = [
        (c["class_mean"][name], j["class_mean"][name])
        for c, j in zip(group["justitia-c"], group["justitia"], strict=True)
    ]
    return paired_ratio([c for c, _ in pairs], [j for _, j in pairs])


def _ratio(ours: Seeds, theirs: Seeds, figure: str) -> Estimate:
    return paired_ratio([o[figure] for o in ours], [t[figure] for t in theirs])
