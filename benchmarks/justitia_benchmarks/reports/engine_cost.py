"""What our scheduler costs a real engine, whatever its order: time added to a step, tokens a second when full."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from justitia_benchmarks.document import table
from justitia_benchmarks.engine.saturation import POLICIES, Round
from justitia_benchmarks.speed import machine
from justitia_benchmarks.statistics import Estimate, digits, mean_interval, paired_ratio
from justitia_simulator.files import write_bytes

STEP_BUDGET = 50.0
LEAST_SPEED = 0.98

HOW = """Written by `make bench-engine`. Real vLLM on a CPU with a random model of two layers, whose steps take
milliseconds: what is added to each weighs more than with a model that people use."""

SPEED = """One engine always has 128 requests, all alike (60 tokens of prompt, 60 of output), each with its ticket
through the channel. Schedulers take turns of a second in the same process: two processes of the same engine differed
by six per cent. Ratios are paired by round, with a 95 % interval (Student's t on logarithms). The machine's own speed
changes from second to second; *same model speed* is the ratio if a step of the model had taken as long in both turns of
a pair. It is what the target is held against."""
SPEED_HEADS = (
    "KV blocks",
    "scheduler",
    "tokens/s",
    "step: model, ms",
    "step: all else, ms",
    "tokens/s ÷ stock",
    "the same, same model speed",
    "wanted",
    "reached",
)

STEPS = """Microseconds of `schedule()` and `update_from_output()` without the model: stock, and what is added under
each policy. Nobody comes or goes. Where a scheduler's requests happen to lie in memory changes its steps by some per
cent, so all are made anew several times: mean and, in brackets, half the width of the 95 % interval over these. Wanted:
at most 50 us with 1,000 waiting."""
STEP_POLICIES = ("fcfs", "vtc", "tiered-justitia", "uniboost")
STEP_HEADS = ("running", "waiting", "stock vLLM", "FCFS", "VTC", "tiered Justitia", "UniBoost", "reached")


def write_cost_document(steps: Sequence[Mapping[str, Any]], full: Mapping[str, Sequence[Round]], folder: Path) -> Path:
    """`full` by KV blocks."""
    rows = [row for blocks, rounds in full.items() for row in _speed_rows(blocks, rounds)]
    parts = [
        "# What the scheduler costs a real vLLM",
        HOW,
        machine(),
        "## Tokens a second, always full",
        SPEED,
        table(SPEED_HEADS, rows),
        "## What is added to a step",
        STEPS,
        table(STEP_HEADS, [_step_row(row) for row in steps]),
    ]
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "engine-cost.md"
    write_bytes(path, "\n\n".join(parts).encode() + b"\n")
    return path


def same_model_speed(rounds: Sequence[Round], policy: str) -> Estimate:
    """Tokens a second against stock, if both turns of a round had had the mean of their models' steps."""
    pairs = [(each[policy], each["stock"]) for each in rounds]
    model = [(ours["model"] + stock["model"]) / 2 for ours, stock in pairs]
    ours = [m + turn["outside"] for m, (turn, _) in zip(model, pairs, strict=True)]
    stock = [m + turn["outside"] for m, (_, turn) in zip(model, pairs, strict=True)]
    return paired_ratio(stock, ours)


def _speed_rows(blocks: str, rounds: Sequence[Round]) -> list[list[str]]:
    rows = []
    for name in ("stock", *POLICIES):
        mine = [each[name] for each in rounds]
        means = [
            f"{fmean(turn['tokensPerSecond'] for turn in mine):.0f}",
            *(digits(1e3 * fmean(turn[part] for turn in mine)) for part in ("model", "outside")),
        ]
        if name == "stock":
            rows.append([blocks, "stock vLLM", *means, "1", "1", "", ""])
            continue
        raw = paired_ratio([turn["tokensPerSecond"] for turn in mine], [r["stock"]["tokensPerSecond"] for r in rounds])
        ratio = same_model_speed(rounds, name)
        reached = "yes" if ratio.mean >= LEAST_SPEED else "**no**"
        rows.append([blocks, name, *means, raw.text, ratio.text, f"≥ {LEAST_SPEED}", reached])
    return rows


def _step_row(row: Mapping[str, Any]) -> list[str]:
    means = row["means"]
    added = {p: mean_interval([each[p] - each["stock"] for each in means]) for p in STEP_POLICIES}
    reached = "yes" if added["tiered-justitia"].mean <= STEP_BUDGET else "**no**"
    waiting = row["waiting"]
    stock = _with_spread(mean_interval([each["stock"] for each in means]))
    cells = [_with_spread(added[p], "+") for p in STEP_POLICIES]
    return [str(row["running"]), str(waiting), stock, *cells, reached if waiting == 1000 else ""]


def _with_spread(found: Estimate, sign: str = "") -> str:
    return f"{found.mean:{sign}.0f} (± {found.high - found.mean:.0f})".replace("-", "−")
