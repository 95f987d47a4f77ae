"""What came out of the flood: errors of shares, the light tenant's wait, and what B and beta trade."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from justitia_benchmarks.document import write_table
from justitia_benchmarks.experiment import Claim, Row, at_most
from justitia_benchmarks.reports.tiered_plots import draw_knob
from justitia_benchmarks.statistics import Estimate, digits, mean_interval, paired_ratio

DEFAULT = "tiered-justitia"
HEADS = (
    "mean JCT ÷ SRJF",
    "share error, 300 s, P95",
    "share error, 300 s, largest",
    "share error, 60 s, P95",
    "share error, 60 s, largest",
    "light tenant: mean TTFT, s",
    "light tenant: P99 of TTFT, s",
)
PLOTTED = (0, 1, 3, 5)
"""Which of them are drawn."""


class FloodKey(NamedTuple):
    """B and beta are None where they are the defaults."""

    policy: str
    burst: float | None = None
    beta: float | None = None


BySeed = Mapping[int, Mapping[str, Any]]


def flood(rows: Sequence[Row], folder: Path) -> list[Claim]:
    measured: dict[FloodKey, dict[int, Mapping[str, Any]]] = {}
    for cell, figures in rows:
        p = cell.parameters
        knobs = [float(p[name]) if name in p else None for name in ("burst", "beta")]
        measured.setdefault(FloodKey(str(p["policy"]), *knobs), {})[cell.seed] = figures
    figures_of = {served: _figures(by_seed, measured[FloodKey("srjf")]) for served, by_seed in measured.items()}
    write_table(
        folder / "1-policies.md",
        ["policy", *HEADS],
        [[s.policy, *(e.text for e in of)] for s, of in figures_of.items() if s.burst is None],
    )
    front = {s: of for s, of in figures_of.items() if s.burst is not None}
    write_table(
        folder / "2-front.md",
        ["B, s", "beta", *HEADS],
        [[f"{s.burst:g}", f"{s.beta:g}", *(e.text for e in of)] for s, of in front.items()],
    )
    _draw(folder / "3-front.png", front)
    return _claims(measured[FloodKey(DEFAULT)], figures_of)


def _figures(own: BySeed, srjf: BySeed) -> list[Estimate]:
    """In the order of HEADS, of the seeds that both have."""
    seeds = sorted(own.keys() & srjf.keys())
    return [
        paired_ratio([own[s]["mean_jct"] for s in seeds], [srjf[s]["mean_jct"] for s in seeds]),
        *(
            mean_interval([own[s][f"error_{window}"][figure] for s in seeds])
            for window in (300, 60)
            for figure in ("p95", "largest")
        ),
        *(mean_interval([own[s][name] for s in seeds]) for name in ("light_ttft", "light_ttft_p99")),
    ]


def _draw(path: Path, front: Mapping[FloodKey, Sequence[Estimate]]) -> None:
    betas = sorted({s.beta for s in front if s.beta is not None})
    panels = {
        HEADS[i]: {
            f"beta = {beta:g}": [(f"{s.burst:g}", of[i]) for s, of in front.items() if s.beta == beta] for beta in betas
        }
        for i in PLOTTED
    }
    draw_knob(path, panels, "B, engine seconds", chosen="400")


def _claims(own: BySeed, figures_of: Mapping[FloodKey, Sequence[Estimate]]) -> list[Claim]:
    means = {s: [digits(e.mean) for e in of] for s, of in figures_of.items()}
    default, srjf, justitia = (means[FloodKey(policy)] for policy in (DEFAULT, "srjf", "justitia"))
    strict = [m for s, m in means.items() if s.burst == 0]
    burst, in_engine = (digits(mean_interval([f[name] for f in own.values()]).mean) for name in ("burst", "in_engine"))
    backlogged = min(f["backlogged"] for f in own.values())
    share, wait = (figures_of[FloodKey(DEFAULT)][i] for i in (1, 5))
    return [
        Claim(
            "flooders of weights 1 and 2: error of shares over 300 s, P95 of windows",
            "≤ 0.07",
            share,
            at_most(share, 0.07),
            f"Largest {default[2]}; over 60 s P95 {default[3]}, largest {default[4]}. SRJF {srjf[1]}, Justitia "
            f"{justitia[1]}. B = {burst} s and U = {in_engine} s: mean JCT {default[0]} × SRJF's"
            + (f"; with B = 0 it is {strict[0][0]} × and the error {strict[0][1]}. " if strict else ". ")
            + f"Both have requests waiting at {backlogged:.0%} of the samples or more.",
        ),
        Claim(
            "flooders of weights 1 and 2: light tenant's mean TTFT, seconds",
            "≤ 1",
            wait,
            at_most(wait, 1.0),
            f"P99 {default[6]} s; SRJF {srjf[5]} s, Justitia {justitia[5]} s.",
        ),
    ]
