"""What the defaults and the parts of tiered Justitia buy: tables and a plot, no claims."""

from collections.abc import Sequence
from pathlib import Path

from justitia_benchmarks.document import write_table
from justitia_benchmarks.reports.tiered import DEFAULT, HEADS, TieredFigures, TieredKey, figures_of, usual_theta
from justitia_benchmarks.reports.tiered_plots import draw_knob
from justitia_benchmarks.statistics import digits
from justitia_scheduling.policies.tiered import THETA, THETA_LEARNED

DEFAULTS = "defaults"


def fronts(m: TieredFigures, folder: Path) -> None:
    """Kappa and theta, the parts taken away, and B with four tenants; each with the seeds that all of them have."""
    varied = [s for s in m.by_seed if s.kappa is not None]
    if not varied:
        return
    told = list(dict.fromkeys(s.prediction for s in varied))
    seeds = set.intersection(*(set(m.by_seed[s]) for s in varied))
    few = m.of_seeds(seeds)
    defaults = [TieredKey("one", DEFAULT, prediction) for prediction in told]
    whole = ("vtc", "srjf", DEFAULT)
    parts = sorted(
        (s for s in few.by_seed if s.scenario == "one" and s.of_defaults and s.policy not in whole),
        key=lambda s: s.policy,
    )
    _write(folder / "11-parts.md", "without", few, [*defaults, *parts])
    _write(folder / "12-knobs.md", "kappa, theta", few, [*defaults, *varied])
    _write(
        folder / "14-burst.md",
        "four tenants, equal demand",
        few,
        [TieredKey("equal", DEFAULT, "true"), *(s for s in few.by_seed if s.burst is not None)],
    )
    _draw(folder / "13-knobs.png", few, varied, told)


def _write(path: Path, head: str, m: TieredFigures, served: Sequence[TieredKey]) -> None:
    rows = [[_label(s), s.prediction, *(digits(e.mean) for e in figures_of(m, s))] for s in served if s in m.by_seed]
    n = len(m.by_seed[served[0]])
    write_table(path, [f"{head} (means of {n} seeds)", "told", *HEADS], rows)


def _label(s: TieredKey) -> str:
    if s.kappa is not None:
        return f"{s.kappa:g}, {s.theta:g}"
    if s.burst is not None:
        return f"B = {s.burst:g} s"
    return DEFAULTS if s.policy == DEFAULT else s.policy


def _draw(path: Path, m: TieredFigures, varied: Sequence[TieredKey], told: Sequence[str]) -> None:
    """Over kappa, theta as by default."""
    kappas = sorted({s.kappa for s in varied if s.kappa is not None})
    served = {
        (k, t): TieredKey("one", DEFAULT, t, *((k, usual_theta(t)) if k != usual_theta(t) else ()))
        for k in kappas
        for t in told
    }
    panels = {
        HEADS[i]: {t: [(f"{k:g}", figures_of(m, served[k, t])[i]) for k in kappas] for t in told} for i in (0, 2, 4)
    }
    draw_knob(path, panels, f"kappa (theta = {THETA:g}, {THETA_LEARNED:g} for means)", chosen=f"{THETA:g}")
