"""The document of `make bench-engine` about UniBoost's tail: what was found, ratios to TRAIL+, and seconds."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from statistics import fmean
from typing import Any

from justitia_benchmarks.document import table
from justitia_benchmarks.engine.tail_plan import (
    ADAPTIVE,
    ARRIVAL,
    SERVED_WAYS,
    SIMULATED_WAYS,
    TRAIL,
    TUNED,
    Capacity,
    Served,
    Simulated,
    TailCell,
    TailWay,
    Tuning,
)
from justitia_benchmarks.engine.tail_policies import QUANTUM_HERE, SIZE
from justitia_benchmarks.engine.tail_workload import SPACE
from justitia_benchmarks.experiments.boost_serving import SHORTER, SMALL
from justitia_benchmarks.speed import machine
from justitia_benchmarks.statistics import Estimate, digits, paired_ratio
from justitia_scheduling.core.tailslope import GAMMA
from justitia_scheduling.policies.uniboost import QUANTUM
from justitia_simulator.files import write_bytes
from justitia_simulator.mixes import LIGHT_REASONING

Figures = Mapping[str, float]
COMPARED = ("mean", "p50", "p90", "p95", "p99", "max", "largest", "ttft-p99", "throughput")
TAIL = ("p99", "ttft-p99", "max", "largest")
STATED = (ADAPTIVE, TUNED, ARRIVAL)
"""FCFS among them: a gain that it has, too, needs no boost."""
HEADS = {
    "max": "maximum",
    "largest": "P99 of the largest tenth",
    "ttft-p99": "TTFT P99",
    "throughput": "tokens/s",
    "preemptions": "preemptions a request",
}

HOW = f"""Written by `make bench-engine`; `benchmarks/justitia_benchmarks/engine/tail*.py` say what is served and how.

Single requests on a real vLLM with our scheduler inside, on a CPU with a random model of two layers, {SPACE.tokens:,}
tokens of KV, without a prefix cache. The mixes are those of [boost-table](README.md#boost-table), the UniBoost paper's:
70 % reasoning, the rest conversation, by Poisson; `heavy` has the trace's lengths, `light` has none of its longest
outputs. Lengths and KV space are {SIZE:g} of those there: outputs reach {round(SHORTER[SMALL] * SIZE):,} and
{round(LIGHT_REASONING.maximum_output * SIZE):,} tokens, and UniBoost's quantum is {QUANTUM_HERE} tokens in place of
{QUANTUM}. rho is the load, in what the engine sustains by arrival on a closed backlog of the same requests.

*TRAIL+* is SRPT with the true lengths, as in the paper; SJF has the same. UniBoost and FCFS know none. UniBoost's own
gamma starts at {GAMMA:g} and follows equation 9; the tuned one is fixed where the simulator finds the least P99, for
requests that are not measured here. *TRAIL+ again* is TRAIL+ a second time: its ratio shows what noise does.

All ways of one seed follow each other; ratios are paired by seed, with a 95 % interval (Student's t on logarithms).
*Simulated*: the same requests in the simulator, with the step time that the engine was measured to have, at this part
of the simulated engine's own capacity. Times are those to the last token (TTLT), unless a column says TTFT. *Tokens/s*
are those until the last request is over."""


class Gain(StrEnum):
    """Shown with the whole interval, or not."""

    SHOWN = "shown"
    NOT_SHOWN = "not shown"
    LOSS = "a loss is shown"
    UNKNOWN = "not known"


BySeed = Mapping[int, Figures]


class TailFigures:
    """What is known of one load: figures by way and seed, capacities by seed, in tokens a second."""

    def __init__(self, tuning: Tuning, cells: Mapping[TailCell, Mapping[str, Any]]) -> None:
        self.load, self.requests = tuning.load, tuning.requests
        self.gamma = float(cells[tuning]["gamma"])
        self.served: dict[TailWay, dict[int, Figures]] = {}
        self.simulated: dict[TailWay, dict[int, Figures]] = {}
        self.capacity: dict[int, float] = {}
        self.simulated_capacity: dict[int, float] = {}
        for cell, own in cells.items():
            match cell:
                case Capacity() if cell.mix == self.load.mix:
                    self.capacity[cell.seed] = own["tokens_per_second"]
                case Simulated(capacity=of) if cell.load == self.load:
                    self.simulated_capacity[of.seed] = own["tokens_per_second"]
                    for way in SIMULATED_WAYS:
                        self.simulated.setdefault(way, {})[of.seed] = own["ways"][way.name]
                case Served(capacity=of, way=way) if cell.load == self.load:
                    self.served.setdefault(way, {})[of.seed] = own
                case _:
                    pass


def ratio(of: Mapping[TailWay, BySeed], way: TailWay, figure: str) -> Estimate | None:
    """The way's figure ÷ TRAIL+'s; None if no seed has both."""
    ours, theirs = of.get(way, {}), of.get(TRAIL, {})
    seeds = sorted(ours.keys() & theirs.keys())
    if not seeds:
        return None
    return paired_ratio([ours[s][figure] for s in seeds], [theirs[s][figure] for s in seeds])


def gain(found: Estimate | None) -> Gain:
    """What a ratio of times says: a gain is below 1."""
    if found is None or found.n < 2:
        return Gain.UNKNOWN
    if found.high < 1:
        return Gain.SHOWN
    return Gain.LOSS if found.low > 1 else Gain.NOT_SHOWN


def write_tail_document(cells: Mapping[TailCell, Mapping[str, Any]], folder: Path) -> Path:
    loads = [TailFigures(cell, cells) for cell in cells if isinstance(cell, Tuning)]
    parts = [
        "# UniBoost's tail inside a real vLLM",
        HOW,
        machine(),
        "## What was found",
        "\n".join(f"- {_statement(way, loads)}" for way in STATED),
        "A gain is shown where the whole interval of a ratio is below 1. One seed shows none.",
        table(FOUND, [row for of in loads for row in _found(of)]),
    ]
    for of in loads:
        parts += [f"## {of.load.text}", _conditions(of), table(("÷ TRAIL+", *map(_head, COMPARED)), _ratios(of))]
        parts.append(table(("seconds", *map(_head, (*COMPARED, "preemptions"))), _seconds(of)))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "engine-tail.md"
    write_bytes(path, "\n\n".join(parts).encode() + b"\n")
    return path


FOUND = ("load", "÷ TRAIL+", "figure", "on the engine", "simulated", "gain")


def _statement(way: TailWay, loads: Sequence[TailFigures]) -> str:
    gains = (f"{gain(ratio(of.served, way, 'p99'))} ({of.load.text})" for of in loads)
    return f"{way.name}, a P99 below TRAIL+'s: {'; '.join(gains)}."


def _found(of: TailFigures) -> list[list[str]]:
    rows = []
    for way in STATED:
        for figure in ("mean", *TAIL):
            found = ratio(of.served, way, figure)
            promised = _text(ratio(of.simulated, way, figure))
            rows.append([of.load.text, way.name, _head(figure), _text(found), promised, gain(found)])
    return rows


def _conditions(of: TailFigures) -> str:
    text = f"Tuned gamma: {of.gamma:g} a second. {of.requests:,} requests for each seed"
    both = of.capacity.keys() & of.simulated_capacity.keys()
    if not both:
        return f"{text}."
    simulated = fmean(of.simulated_capacity[seed] / of.capacity[seed] for seed in both)
    capacity = fmean(of.capacity[seed] for seed in both)
    return f"{text}; capacity {digits(capacity)} tokens/s, simulated {digits(simulated)} of it."


def _ratios(of: TailFigures) -> list[list[str]]:
    rows = [[way.name, *(_text(ratio(of.served, way, f)) for f in COMPARED)] for way in SERVED_WAYS if way != TRAIL]
    return rows + [
        [f"{way.name}, simulated", *(_text(ratio(of.simulated, way, f)) for f in COMPARED)]
        for way in SIMULATED_WAYS
        if way != TRAIL
    ]


def _seconds(of: TailFigures) -> list[list[str]]:
    """Means over the seeds."""
    return [
        [f"{way.name}{where}", *(digits(fmean(own[f] for own in by[way].values())) for f in (*COMPARED, "preemptions"))]
        for by, where in ((of.served, ""), (of.simulated, ", simulated"))
        for way in SERVED_WAYS
        if way in by
    ]


def _head(figure: str) -> str:
    return HEADS.get(figure, figure.upper() if figure[0] == "p" else figure)


def _text(found: Estimate | None) -> str:
    return "-" if found is None else found.text
