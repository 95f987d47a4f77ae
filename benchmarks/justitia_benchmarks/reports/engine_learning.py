"""The document of `make bench-learning-engine`: claims, the learning curve, first versions, completion times."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np

from justitia_benchmarks.document import COLUMNS, claim_row, table
from justitia_benchmarks.engine.workload import KV_TOKENS, SIZE
from justitia_benchmarks.engine_learning.plan import DEGREE, LOAD, Contended, LearningPlan
from justitia_benchmarks.engine_learning.workload import SHAPE
from justitia_benchmarks.experiment import Claim, at_most
from justitia_benchmarks.reports.bars import draw_bars
from justitia_benchmarks.reports.curves import Panel, colours_of, draw
from justitia_benchmarks.reports.learning import BEST, KINDS, ORDER, PAPER_ERROR
from justitia_benchmarks.speed import machine
from justitia_benchmarks.statistics import Estimate, digits, mean_interval, paired_ratio, quantile
from justitia_predictor.models import MODELS, Network, RunningMean
from justitia_simulator.files import write_bytes

COLD, TRUE = ORDER[0], ORDER[-1]
COLD_START = 1.20
"""Mean JCT with nothing known against known means, at most, in the simulations that the policy was designed with."""
CURVES, BARS = "learning-engine-curves.svg", "learning-engine-completion.svg"

HOW = """Written by `make bench-learning-engine`; `benchmarks/justitia_benchmarks/engine_learning/` says what is served
and how. Nothing here is edited by hand.

Real vLLM on a CPU with a random model of {layers} layers, float32, {kv:,} tokens of KV, our scheduler inside. Agent
runs of {classes} classes ({names}) with prompts and outputs of {size:g} of the recorded lengths. Prompts are text, a
word a token, which tells of a run what can be known when it begins (calls, what the lengths of prompts and answers have
in common) with the degree {degree:g}; the rest of a run's cost is chance. Answers are ended by an end token that is
forbidden until one token is left and then certain, and all have the same `max_tokens`: no feature tells their length.

Past runs go through the real sidecar, which keeps samples of them in a store: real features, measured costs. They
differ from those that the runs were written with by {difference:.2g} % at most. Models learn from the first n samples
of an application in the order in which its runs were over, and predict the last {unseen}. *Relative error*:
mean(|ĉ − c| / c). *{best}*: whatever kind did best on five folds of the runs learned from.

Contended runs are others: {runs} a seed, with the paper's shares of the classes, arriving {load:g} times as fast as the
engine was measured to serve such runs when all were there at once. Tools take no time. Tiered Justitia inside vLLM
orders them, and only what it is told of their costs differs: *{cold}* nothing at all, as an application begins;
*{mean}*, *{mlp}* and *{best}* what a model says that learned from {learned_from} past runs of each class; *{true}* the
run's cost. All ways of a seed follow each other; ratios are paired by seed. Intervals are 95 %, Student's t: over seeds
for times (of ratios on logarithms), over classes for errors."""

Figures = Mapping[str, Any]
Learned = Mapping[str, Figures]
"""By class."""
Completed = Sequence[tuple[Contended, Figures]]


def write_document(plan: LearningPlan, learned: Learned, contended: Completed, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    how = HOW.format(
        kv=KV_TOKENS,
        size=SIZE,
        layers=SHAPE.layers,
        classes=len(learned),
        names=", ".join(learned),
        degree=DEGREE,
        difference=100 * max(own["difference"] for own in learned.values()),
        unseen=plan.unseen,
        runs=len(contended[0][1]["jct"]),
        load=LOAD,
        learned_from=plan.learned_from,
        cold=COLD,
        mean=RunningMean.kind,
        mlp=MLP,
        best=BEST,
        true=TRUE,
    )
    claims = [*error_claims(plan, learned), *completion_claims(contended)]
    parts = [
        "# What is learned inside a real vLLM",
        how,
        f"{machine()} {plan.seeds} seeds, {plan.past * len(learned)} past runs, {len(contended)} replays.",
        "## Claims",
        table(COLUMNS, [claim_row(claim) for claim in claims]),
        "## Learning curve",
        f"![Relative error against runs learned from]({CURVES})",
        f"The bound is the paper's {100 * PAPER_ERROR:.0f} %.",
        *(_errors(plan, learned, figure) for figure in FIGURE_NAMES),
        "## First versions",
        FIRST_VERSIONS.format(past=plan.learned_from),
        _first_versions(learned),
        "## Completion times",
        f"![Completion times by what is told]({BARS})",
        _completion(contended),
    ]
    _draw_curves(plan, learned, folder / CURVES)
    draw_bars(
        folder / BARS,
        {title: [(told, ratio(contended, told, figure)) for told in ORDER[:-1]] for figure, title in FIGURES.items()},
        "÷ with true costs",
        colours_of([*KINDS, *ORDER]),
    )
    path = folder / "learning-engine.md"
    write_bytes(path, "\n\n".join(parts).encode() + b"\n")
    return path


# Errors.


def error_claims(plan: LearningPlan, learned: Learned) -> list[Claim]:
    n = plan.learned_from
    of_network, of_best = ({c: _error(own, n, kind, "relative") for c, own in learned.items()} for kind in (MLP, BEST))
    network, gain = mean_interval(list(of_network.values())), paired_ratio([*of_best.values()], [*of_network.values()])
    chosen = [own["curve"][str(n)]["kind"] for own in learned.values()]
    least, most = min(of_network, key=of_network.__getitem__), max(of_network, key=of_network.__getitem__)
    return [
        Claim(
            f"relative error on unseen runs, MLP, {n} runs",
            f"{100 * PAPER_ERROR:.0f} %",
            network,
            at_most(network, PAPER_ERROR),
            f"mean over the classes, from {least} ({digits(of_network[least])}) to {most} ({digits(of_network[most])})",
        ),
        Claim(
            f"the same, {BEST} ÷ MLP",
            "1",
            gain,
            at_most(gain, 1.0),
            "chosen for each class on held-out runs: "
            + ", ".join(f"{kind} {chosen.count(kind)}" for kind in MODELS if kind in chosen),
        ),
    ]


MLP = Network.kind
FIGURE_NAMES = {"relative": "relative error", "rank": "rank correlation"}


def _error(own: Figures, count: int, kind: str, figure: str) -> float:
    return float(own["curve"][str(count)]["errors"][kind][figure])


def _errors(plan: LearningPlan, learned: Learned, figure: str) -> str:
    """Errors for each class with as many runs as in the claims, and the mean over classes with others."""
    n = plan.learned_from
    rows = [[f"{c}, {n} runs", *(digits(_error(own, n, kind, figure)) for kind in KINDS)] for c, own in learned.items()]
    rows += [
        [f"mean, {count} runs", *(digits(fmean(_error(o, count, k, figure) for o in learned.values())) for k in KINDS)]
        for count in plan.counts
    ]
    return table([FIGURE_NAMES[figure], *KINDS], rows)


def _draw_curves(plan: LearningPlan, learned: Learned, path: Path) -> None:
    counts = plan.counts

    def lines(classes: Sequence[str]) -> dict[str, list[list[float]]]:
        return {
            kind: [[fmean(_error(learned[c], n, kind, "relative") for c in classes) for n in counts]] for kind in KINDS
        }

    by_title = {"mean of the classes": list(learned)} | {c: [c] for c in learned}
    panels = [Panel(title, counts, lines(own), limit=PAPER_ERROR, logarithmic=True) for title, own in by_title.items()]
    draw(path, panels, "relative error", "runs learned from")


# First versions.

FIRST_VERSIONS = """The best kind is learned from an application's first {past} samples and shadows the others, in the
order in which they were over, under the default rollout: the operator's own decision, asked after every fifth run.
*Runs*: all that were over by then, those learned from included."""


def _first_versions(learned: Learned) -> str:
    firsts = {c: own["first"] for c, own in learned.items()}
    promoted = [first["runs"] for first in firsts.values() if first["reason"] == "Promoted"]
    rows = [[c, first["kind"], first["reason"], str(first["runs"] or "-")] for c, first in firsts.items()]
    middle = f"median {median(promoted):g}" if promoted else "-"
    rows.append(["all", "", f"Promoted: {len(promoted)} of {len(firsts)}", middle])
    return table(["class", "kind", "first decision", "runs"], rows)


# Completion times.

FIGURES = {"mean": "mean JCT", "p99": "P99 of JCT", "largest": "mean JCT of the largest tenth"}


def completion_claims(contended: Completed) -> list[Claim]:
    most = ratio(contended, TRUE, "mean", RunningMean.kind).percent
    claims = []
    for told in (MLP, BEST):
        gain = ratio(contended, told, "mean", RunningMean.kind)
        why = f"with true costs {most}"
        claims.append(Claim(f"mean JCT, {told} ÷ running means", "less than 1", gain, at_most(gain, 1.0), why))
    cold = ratio(contended, COLD, "mean", RunningMean.kind)
    claims.append(
        Claim(
            "mean JCT, cold start ÷ running means",
            f"at most {COLD_START:g} (our simulations)",
            cold,
            at_most(cold, COLD_START),
            f"÷ true costs {ratio(contended, COLD, 'mean').text}: until runs of an application are over, only what its "
            "open ones have used tells anything",
        )
    )
    return claims


def ratio(contended: Completed, told: str, figure: str, against: str = TRUE) -> Estimate:
    """The ratio of a figure, paired by seed."""
    ours, theirs = (
        {cell.seed: _figure(figures, figure) for cell, figures in contended if cell.told == name}
        for name in (told, against)
    )
    seeds = sorted(ours.keys() & theirs.keys())
    return paired_ratio([ours[seed] for seed in seeds], [theirs[seed] for seed in seeds])


def _figure(figures: Figures, figure: str) -> float:
    jct, cost = np.array(figures["jct"]), np.array(figures["cost"])
    match figure:
        case "mean":
            return float(jct.mean())
        case "p99":
            return quantile(figures["jct"], 0.99)
        case _:
            return float(jct[np.argsort(cost)[-max(1, round(len(cost) / 10)) :]].mean())


def _completion(contended: Completed) -> str:
    rows = []
    for told in ORDER:
        own = [figures for cell, figures in contended if cell.told == told]
        ratios = ["1" if told == TRUE else ratio(contended, told, figure).text for figure in FIGURES]
        seconds = ", ".join(digits(fmean(_figure(f, figure) for f in own)) for figure in FIGURES)
        rows.append([told, *ratios, seconds, _told_error(own)])
    heads = [f"{title} ÷ true" for title in FIGURES.values()]
    return table(["told", *heads, "seconds: mean, P99, largest tenth", "relative error of what was told"], rows)


def _told_error(own: Sequence[Figures]) -> str:
    """Over the runs of all seeds, of which each class has the part that it has in the workload."""
    pairs = [(told, cost) for f in own for told, cost in zip(f["told"], f["cost"], strict=True) if told is not None]
    return digits(fmean(abs(told - cost) / cost for told, cost in pairs)) if pairs else "-"
