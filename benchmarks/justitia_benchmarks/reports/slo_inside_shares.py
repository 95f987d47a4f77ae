"""Tables and claims of objectives inside the shares (`experiments/slo/inside_shares.py`)."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from justitia_benchmarks.document import write_table
from justitia_benchmarks.experiment import Claim, PaperVerdict, Row, at_least, at_most
from justitia_benchmarks.reports.slo import CONTROLLER
from justitia_benchmarks.statistics import Estimate, digits, mean_interval, paired_ratio

WITHOUT, VTC = "without", "vtc"
WANTED_HELD = 0.95
MOST_TAIL = {"equal": 1.0, "1 to 4": 1.2}

Found = Mapping[str, Mapping[str, Any]]


def inside_shares(rows: Sequence[Row], folder: Path) -> list[Claim]:
    """By weights: windows held, tails by VTC's, agents' completion and errors of shares."""
    pools: dict[str, list[Found]] = {}
    for cell, figures in rows:
        found: Any = figures
        pools.setdefault(str(cell.parameters["weights"]), []).append(found)
    claims: list[Claim] = []
    for weights, seeds in pools.items():
        held = mean_interval([_held(seed, CONTROLLER) for seed in seeds])
        tail, most = _by_vtc(seeds, CONTROLLER, "p99"), MOST_TAIL[weights]
        mean = paired_ratio([s[CONTROLLER]["agents"] for s in seeds], [s[WITHOUT]["agents"] for s in seeds])
        errors = {name: mean_interval([s[name]["error"] for s in seeds]) for name in (CONTROLLER, WITHOUT)}
        claims += [
            Claim(
                f"weights {weights}: share of windows held where some fixed gamma could, controller",
                f"{WANTED_HELD}",
                held,
                at_least(held, WANTED_HELD),
                f"without boosts {digits(fmean(_held(s, WITHOUT) for s in seeds))}, "
                f"two-level VTC {digits(fmean(_held(s, VTC) for s in seeds))}; chosen in hindsight, window by window",
            ),
            Claim(
                f"weights {weights}: P99 of first tokens of single requests ÷ two-level VTC's",
                f"at most {most:g}",
                tail,
                at_most(tail, most),
                f"without boosts {digits(_by_vtc(seeds, WITHOUT, 'p99').mean)}",
            ),
            Claim(
                f"weights {weights}: agents' mean completion time ÷ that without boosts",
                "–",
                mean,
                PaperVerdict.NOT_COMPARABLE,
                "what the objectives cost the same tenants' runs",
            ),
            Claim(
                f"weights {weights}: error of shares over 300 s, P95, controller",
                "–",
                errors[CONTROLLER],
                PaperVerdict.NOT_COMPARABLE,
                f"without boosts {digits(errors[WITHOUT].mean)}",
            ),
        ]
        _table(weights, seeds, folder)
    return claims


def _table(weights: str, seeds: Sequence[Found], folder: Path) -> None:
    rows = [
        [
            name,
            digits(fmean(_held(seed, name) for seed in seeds)),
            *(digits(_by_vtc(seeds, name, figure).mean) for figure in ("p99", "completion_p99", "agents")),
            digits(fmean(seed[name]["error"] for seed in seeds)),
        ]
        for name in seeds[0]
    ]
    header = ["order", "windows held of possible", "first tokens P99 ÷ VTC", "completion P99 ÷ VTC"]
    header += ["agents' mean ÷ VTC", "error of shares"]
    write_table(folder / f"weights-{weights.replace(' ', '-')}.md", header, rows)


def _held(seed: Found, name: str) -> float:
    """The share of windows held, among those that some fixed gamma held."""
    fixed = [found["held"] for order, found in seed.items() if order not in (WITHOUT, CONTROLLER, VTC)]
    possible = held = 0
    for tenant, windows in seed[name]["held"].items():
        for number, kept in enumerate(windows):
            if any(each[tenant][number] for each in fixed):
                possible += 1
                held += kept
    return held / possible if possible else 1.0


def _by_vtc(seeds: Sequence[Found], name: str, figure: str) -> Estimate:
    return paired_ratio([seed[name][figure] for seed in seeds], [seed[VTC][figure] for seed in seeds])
