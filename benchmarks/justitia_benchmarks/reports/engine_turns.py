"""The document of `make bench-engine` about sessions of agents that take turns, and how near the simulator comes."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from justitia_benchmarks.document import table
from justitia_benchmarks.engine.calibrated import Calibrated
from justitia_benchmarks.engine.measure import tokens_per_second
from justitia_benchmarks.engine.plan import EngineCell
from justitia_benchmarks.engine.simulated import (
    MEAN_WITHIN,
    RUNS_LOAD,
    THROUGHPUT_WITHIN,
    BySeed,
    Compared,
    rankings,
    ratio,
    simulated_runs,
    simulated_sessions,
    within,
)
from justitia_benchmarks.engine.turns import LOAD, SCALE, SPACE, STOCK, VTC, WAYS, TurnsWay, draw
from justitia_benchmarks.engine.turns_serving import TurnsMeasured
from justitia_benchmarks.engine.workload import WEIGHTS
from justitia_benchmarks.speed import machine
from justitia_benchmarks.statistics import Estimate, digits, paired_ratio, quantile
from justitia_simulator.files import write_bytes
from justitia_simulator.turns import LONGEST, reusable
from justitia_vocabulary.units import Seconds

Figures = Mapping[str, Any]
AGAINST = VTC

HOW = f"""Written by `make bench-engine`; `benchmarks/justitia_benchmarks/engine/turns.py` says what is served, [the
design note](../design/turns.md) what the sessions are. Real vLLM on a CPU with a random model of two layers, float32,
{SPACE.tokens:,} tokens of KV, prefix cache on. Lengths are {SCALE:g} of those that `make bench-turns` serves
([results](turns.md)), up to {round(LONGEST * SCALE):,} tokens a context, and so is the KV space; pauses shrink with the
time that the sessions take. To read a context again takes this engine longer, compared with a step, than it takes a
GPU. Two tenants of weights {" and ".join(f"{w:g}" for w in WEIGHTS.values())} have as many sessions each, at load
{LOAD:g}: engine time of all sessions, with all prefixes cached and the KV space full, over the window in which they
arrive. Nothing is predicted.

All ways of one seed follow each other on the same machine; ratios are paired by seed, with a 95 % interval (Student's t
on logarithms). *Stock vLLM* has no part of ours. The others have our scheduler inside, told directly whose each request
is; *KV kept*: it keeps KV of sessions that pause. *Found*: the part of the prompts' tokens that were in the cache.
*Queued*: seconds that a request waited in the engine, on average. *Share*: what `silver` was charged of all for
as long as the engine needs for all sessions at best (its weight asks for
{WEIGHTS["silver"] / sum(WEIGHTS.values()):.2f}); not known for stock vLLM."""

SIMULATED = f"""The same sessions in the simulator, on a profile of that engine with our scheduler inside, measured as
`justitia calibrate` does, and with its KV space, blocks, seats and tokens per step. Measured ÷ simulated, over the
seeds and for each. Wanted: tokens a second within {THROUGHPUT_WITHIN:.0%}, mean completion within {MEAN_WITHIN:.0%}.
What differs: the plug-in learns how long steps take while it serves, and the simulator's policies know it; a request
that comes or goes takes processors from the engine whenever that is, and in the simulator it makes one step longer."""

RUNS = f"""The agent runs of [the other document](engine.md) at load {RUNS_LOAD:g}, by a profile of their engine. It was
measured while each token was streamed alone; where runs are served, tokens are streamed sixteen at a time."""


def write_turns_document(
    measured: TurnsMeasured, runs: Sequence[tuple[EngineCell, Figures]], step: Seconds, folder: Path
) -> Path:
    """`runs` are what came of the agent runs, which were drawn for full steps of `step`."""
    cell, _ = measured.rows[0]
    sessions = draw(cell.sessions, cell.seed, measured.engine.profile)
    parts = [
        "# Agents that take turns, inside a real vLLM",
        HOW,
        f"{machine()} {len({c.seed for c, _ in measured.rows})} seeds of {cell.sessions} sessions, "
        f"{len(measured.rows)} replays. {reusable(sessions):.1%} of the prompt tokens could be found.",
        "## Ways to serve",
        table(HEADS, _ways(measured)),
        "## Simulator against engine",
        SIMULATED,
        _profile(measured.engine),
        *_compared(simulated_sessions(measured), tied=STOCK.name),
        "### Agent runs",
        RUNS,
        _profile(measured.of_runs),
        *_compared(simulated_runs(runs, step, measured.of_runs)),
    ]
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "engine-turns.md"
    write_bytes(path, "\n\n".join(parts).encode() + b"\n")
    return path


# Ways.

HEADS = (
    "way",
    "mean completion",
    "÷ VTC",
    "P99 ÷ VTC",
    "tokens a second",
    "÷ VTC",
    "found",
    "queued",
    "share",
    "preemptions",
)


def _ways(measured: TurnsMeasured) -> list[list[str]]:
    of: dict[TurnsWay, dict[int, Figures]] = {}
    for cell, figures in measured.rows:
        of.setdefault(cell.way, {})[cell.seed] = figures
    return [_row(way, of[way], of[AGAINST]) for way in WAYS if way in of]


def _row(way: TurnsWay, ours: Mapping[int, Figures], theirs: Mapping[int, Figures]) -> list[str]:
    own, seeds = list(ours.values()), sorted(ours.keys() & theirs.keys())
    mean, p99, speed = (
        paired_ratio([figure(ours[s]) for s in seeds], [figure(theirs[s]) for s in seeds])
        for figure in (_mean, _p99, tokens_per_second)
    )
    shares = [f["service"]["silver"] / (sum(f["service"].values()) or 1.0) for f in own if "service" in f]
    preempted = [float(f["preemptions"]) for f in own if "preemptions" in f]
    return [
        way.name,
        f"{digits(fmean(map(_mean, own)))} s",
        _against(way, mean),
        _against(way, p99),
        digits(fmean(map(tokens_per_second, own))),
        _against(way, speed),
        f"{fmean(f['found'] for f in own):.0%}",
        f"{digits(fmean(f['queued'] for f in own))} s",
        digits(fmean(shares)) if shares else "-",
        f"{fmean(preempted):.0f}" if preempted else "-",
    ]


def _against(way: TurnsWay, ratio_to: Estimate) -> str:
    return "1" if way == AGAINST else ratio_to.text


def _mean(figures: Figures) -> float:
    return fmean(figures["jct"])


def _p99(figures: Figures) -> float:
    return quantile(figures["jct"], 0.99)


# Simulator against engine.

COMPARED_HEADS = (
    "way",
    "tokens a second",
    "by seed",
    f"within {THROUGHPUT_WITHIN:.0%}",
    "mean completion",
    "by seed",
    f"within {MEAN_WITHIN:.0%}",
    "found: measured, simulated",
)


def _compared(compared: Compared, tied: str | None = None) -> list[str]:
    """`tied`: a way whose order another one has, too."""
    if not compared:
        return ["Nothing to compare."]
    ranked = {name: pairs for name, pairs in compared.items() if name != tied}
    measured, simulated = rankings(ranked)
    seeds = sorted(set.intersection(*(set(pairs) for pairs in ranked.values())))
    alike = [_alike({name: {seed: pairs[seed]} for name, pairs in ranked.items()}) for seed in seeds]
    order = "the same" if measured == simulated else f"**not the same**: simulated {', '.join(simulated)}"
    return [
        table(COMPARED_HEADS, [_compared_row(name, pairs) for name, pairs in compared.items()]),
        f"By mean completion the order is {', '.join(measured)}, and simulated {order}. "
        f"Of the seeds that all have, {sum(alike)} of {len(alike)} give the same order.",
    ]


def _alike(compared: Compared) -> bool:
    measured, simulated = rankings(compared)
    return measured == simulated


def _compared_row(name: str, pairs: BySeed) -> list[str]:
    cells = [name]
    for figure, tolerated in (("throughput", THROUGHPUT_WITHIN), ("mean", MEAN_WITHIN)):
        found = ratio(pairs, figure)
        each = [ratio({seed: pair}, figure).mean for seed, pair in sorted(pairs.items())]
        cells += [found.text, ", ".join(f"{r:.2f}" for r in each), "yes" if within(found, tolerated) else "**no**"]
    sides = [[pair.measured.found for pair in pairs.values()], [pair.simulated.found for pair in pairs.values()]]
    known = [f"{fmean(f for f in side if f is not None):.0%}" for side in sides if None not in side]
    return [*cells, ", ".join(known) if len(known) == 2 else "-"]


def _profile(engine: Calibrated) -> str:
    return (
        f"The profile describes the points that were measured with a mean error of {engine.error:.0%}, and a mixed "
        f"load that it was not made of with {engine.check:+.0%}. A request passes {1e3 * engine.latency:.1f} ms "
        "outside the engine."
    )
