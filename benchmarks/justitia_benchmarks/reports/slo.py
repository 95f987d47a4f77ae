"""Tables, plots and claims of gamma moved by objectives.

A window counts if it begins a minute or more after the step; it could be held if it was under some fixed gamma, not
always the same one: that is hindsight, window by window.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from justitia_benchmarks.document import write_table
from justitia_benchmarks.experiment import Claim, PaperVerdict, Row, at_least, at_most
from justitia_benchmarks.reports.curves import Panel, draw
from justitia_benchmarks.statistics import Estimate, digits, mean_interval, paired_ratio

CONTROLLER, EQUATION_9 = "controller", "equation 9"
SETTLED = 60.0
"""Seconds from a step within which the objective is to be held again."""
WANTED = 0.95

Contenders = Mapping[str, Mapping[str, Any]]


def report_steps(rows: Sequence[Row], folder: Path, *, window: float, step: float, end: float) -> list[Claim]:
    """By scenario: what is held, attainment and gamma over time, and what completion costs."""
    scenarios: dict[str, list[Contenders]] = {}
    percentile = {}
    for cell, figures in rows:
        name = str(cell.parameters["scenario"])
        found: Any = figures
        scenarios.setdefault(name, []).append(found["contenders"])
        percentile[name] = float(found["percentile"])
    first = int((step + SETTLED) / window)
    claims: list[Claim] = []
    for name, seeds in scenarios.items():
        for contender in (CONTROLLER, EQUATION_9):
            held = [_held_of_possible(seed, contender, percentile[name], first) for seed in seeds]
            possible = [share for share in held if share is not None]
            if not possible:
                continue
            share = mean_interval(possible)
            claims.append(
                Claim(
                    f"{name}: share of windows held where a fixed gamma could, {contender}",
                    "0.95" if contender == CONTROLLER else "–",
                    share,
                    at_least(share, WANTED) if contender == CONTROLLER else PaperVerdict.NOT_COMPARABLE,
                    f"windows from {SETTLED:g} s after the step; {_best(seeds, percentile[name], first)}",
                )
            )
        claims += [_reached(name, seeds), _spell(name, seeds, percentile[name], int(step / window), window)]
    pooled = [
        of_seed
        for name, seeds in scenarios.items()
        for seed in seeds
        if (of_seed := _held_of_possible(seed, CONTROLLER, percentile[name], first)) is not None
    ]
    claims.append(
        Claim(
            "all steps: share of windows held where a fixed gamma could, controller",
            "0.95",
            mean_interval(pooled),
            at_least(mean_interval(pooled), WANTED),
            "each scenario and seed counts alike",
        )
    )
    _tables(scenarios, percentile, first, folder)
    _plots(scenarios, percentile, folder, window, end)
    return claims


def report_overload(rows: Sequence[Row], folder: Path) -> list[Claim]:
    """When it is said, and what the named replicas hold."""
    found: list[Any] = [figures for _, figures in rows]
    said = [f["said"] for f in found if f["said"] is not None]
    named = [f for f in found if f["named"] is not None]
    engines = sorted({int(n) for f in found for n in f["held"]})
    write_table(
        folder / "overload.md",
        ["engines", "share of windows held", "named in"],
        [
            [
                str(n),
                digits(fmean(f["held"][str(n)] for f in found if str(n) in f["held"])),
                f"{sum(f['named'] == n for f in found)} of {len(found)} seeds",
            ]
            for n in engines
        ],
    )
    claims = [
        Claim(
            "share of seeds in which Unattainable is said, and never before the step",
            "1",
            mean_interval([float(f["said"] is not None and f["said"] > 0 and not f["before"]) for f in found]),
            PaperVerdict.REACHED
            if len(said) == len(found) and not any(f["before"] for f in found)
            else PaperVerdict.NOT_REACHED,
            f"first said {digits(min(said))} to {digits(max(said))} s after the step" if said else "never said",
        )
    ]
    if named:
        held = mean_interval([f["held"][str(f["named"])] for f in named])
        fewer = [f["held"][str(f["named"] - 1)] for f in named if str(f["named"] - 1) in f["held"]]
        claims.append(
            Claim(
                "share of windows that the named replicas hold",
                "0.95",
                held,
                at_least(held, WANTED),
                f"one fewer: {mean_interval(fewer).text}" if fewer else "one fewer was not tried",
            )
        )
    return claims


def _held(seed: Contenders, contender: str, percentile: float, first: int) -> list[bool]:
    return [share >= percentile for share in seed[contender]["windows"][first:]]


def _fixed(seed: Contenders) -> list[str]:
    return [name for name in seed if name not in (CONTROLLER, EQUATION_9)]


def _held_of_possible(seed: Contenders, contender: str, percentile: float, first: int) -> float | None:
    possible = [any(of) for of in zip(*(_held(seed, g, percentile, first) for g in _fixed(seed)), strict=True)]
    ours = _held(seed, contender, percentile, first)
    counted = [held for held, could in zip(ours, possible, strict=True) if could]
    return fmean(counted) if counted else None


def _best(seeds: Sequence[Contenders], percentile: float, first: int) -> str:
    """The fixed gamma that holds most windows over all seeds, and what it holds of those that some gamma could."""
    shares = {g: fmean(fmean(_held(s, g, percentile, first)) for s in seeds) for g in _fixed(seeds[0])}
    best = max(shares, key=shares.__getitem__)
    held = [_held_of_possible(seed, best, percentile, first) for seed in seeds]
    of_possible = fmean(share for share in held if share is not None)
    return f"the best single gamma, {best}, holds {digits(of_possible)} of them, {digits(shares[best])} of all windows"


def _reached(name: str, seeds: Sequence[Contenders]) -> Claim:
    times = [seed[CONTROLLER]["reached"] for seed in seeds]
    known = [t for t in times if t is not None]
    best = [
        min((seed[g]["reached"] for g in _fixed(seed) if seed[g]["reached"] is not None), default=None)
        for seed in seeds
    ]
    of_best = [t for t in best if t is not None]
    ours: Estimate | str = mean_interval(known) if len(known) == len(times) else f"{len(known)} of {len(times)} seeds"
    verdict = at_most(ours, SETTLED) if isinstance(ours, Estimate) else PaperVerdict.NOT_REACHED
    return Claim(
        f"{name}: seconds from the step to windows that are held",
        f"{SETTLED:g}",
        ours,
        verdict,
        f"within {SETTLED:g} s in {sum(t <= SETTLED for t in known)} of {len(times)} seeds, at most "
        f"{digits(max(known)) if known else '–'}; the best fixed gamma {digits(fmean(of_best)) if of_best else '–'}",
    )


def _spell(name: str, seeds: Sequence[Contenders], percentile: float, first: int, window: float) -> Claim:
    """The longest time on end that is missed after the step though a fixed gamma could hold it."""

    def longest(seed: Contenders, contender: str) -> float:
        most = spell = 0
        for i, held in enumerate(_held(seed, contender, percentile, first)):
            could = any(_held(seed, g, percentile, first)[i] for g in _fixed(seed))
            spell = spell + 1 if could and not held else 0
            most = max(most, spell)
        return most * window

    ours = mean_interval([longest(seed, CONTROLLER) for seed in seeds])
    theirs = mean_interval([longest(seed, EQUATION_9) for seed in seeds])
    return Claim(
        f"{name}: longest spell that is missed though a fixed gamma could hold it, s",
        f"{SETTLED:g}",
        ours,
        at_most(ours, SETTLED),
        f"the worst seed {digits(max(longest(seed, CONTROLLER) for seed in seeds))}; equation 9 {theirs.text}",
    )


def _tables(
    scenarios: Mapping[str, Sequence[Contenders]], percentile: Mapping[str, float], first: int, folder: Path
) -> None:
    names = list(next(iter(scenarios.values()))[0])
    write_table(
        folder / "1-held.md",
        ["share of all windows held", *names],
        [
            [name, *(digits(fmean(fmean(_held(s, c, percentile[name], first)) for s in seeds)) for c in names)]
            for name, seeds in scenarios.items()
        ],
    )
    others = [name for name in names if name != EQUATION_9]
    write_table(
        folder / "2-completion.md",
        ["completion after the step ÷ equation 9", *others],
        [
            [
                f"{name}, {p.upper()}",
                *(
                    digits(
                        paired_ratio(
                            [s[c]["completion"][p] for s in seeds], [s[EQUATION_9]["completion"][p] for s in seeds]
                        ).mean
                    )
                    for c in others
                ),
            ]
            for name, seeds in scenarios.items()
            for p in ("p50", "p90", "p99")
        ],
    )


def _plots(
    scenarios: Mapping[str, Sequence[Contenders]],
    percentile: Mapping[str, float],
    folder: Path,
    window: float,
    end: float,
) -> None:
    middles = [(i + 0.5) * window for i in range(int(end / window))]
    shown = (CONTROLLER, EQUATION_9, "0.01", "0.1")
    draw(
        folder / "3-attainment.png",
        [
            Panel(
                name,
                middles,
                {
                    (c if c in (CONTROLLER, EQUATION_9) else f"gamma {c}"): [s[c]["windows"] for s in seeds]
                    for c in shown
                },
                limit=percentile[name],
            )
            for name, seeds in scenarios.items()
        ],
        "share within the bound",
    )
    looks = min(len(s[CONTROLLER]["gamma"]) for seeds in scenarios.values() for s in seeds)
    draw(
        folder / "4-gamma.png",
        [
            Panel(
                name,
                [end * (i + 1) / looks for i in range(looks)],
                {c: [s[c]["gamma"][:looks] for s in seeds] for c in (CONTROLLER, EQUATION_9)},
                logarithmic=True,
            )
            for name, seeds in scenarios.items()
        ],
        "gamma in effect, 1/s",
    )
