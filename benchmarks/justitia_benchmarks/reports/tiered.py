"""What came out of tiered Justitia's experiments, against targets of our own.

A target in words, "no worse", is reached where the whole interval of the ratio stays at or below 1.02.
"""

from collections.abc import Callable, Mapping, Sequence, Set
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple, Self

import numpy as np

from justitia_benchmarks.comparison import Comparison, compare, later
from justitia_benchmarks.document import write_table
from justitia_benchmarks.experiment import Claim, PaperVerdict, Row, at_least, at_most
from justitia_benchmarks.statistics import Estimate, digits, mean_interval, paired_ratio
from justitia_scheduling.policies.tiered import THETA, THETA_LEARNED

NO_WORSE = 1.02
DEFAULT = "tiered-justitia"
DEMANDS = {"equal": "equal demand", "weighted": "demand as the weights"}
LIARS = "liars:0.05:1000"
THOROUGH_LIARS = f"{LIARS}, outputs too"
HEADS = ("mean ÷ SRJF", "mean ÷ VTC", "largest decile ÷ VTC", "P99 ÷ VTC", "not later than VTC", "worst run ÷ VTC")


class TieredKey(NamedTuple):
    """Which cells; kappa, theta and the burst B are None where they are the defaults."""

    scenario: str
    policy: str
    prediction: str
    kappa: float | None = None
    theta: float | None = None
    burst: float | None = None

    @property
    def of_defaults(self) -> bool:
        return self.kappa is None and self.burst is None


def usual_theta(prediction: str) -> float:
    """Theta and kappa of all runs under the default settings: with `mean`, no run is told a cost."""
    return THETA_LEARNED if prediction == "mean" else THETA


class TieredFigures:
    """Figures by what was served and by seed."""

    def __init__(self, by_seed: dict[TieredKey, dict[int, Mapping[str, Any]]]) -> None:
        self.by_seed = by_seed

    @classmethod
    def of_rows(cls, rows: Sequence[Row]) -> Self:
        found: dict[TieredKey, dict[int, Mapping[str, Any]]] = {}
        for cell, figures in rows:
            p = cell.parameters
            knobs = [float(p[name]) if name in p else None for name in ("kappa", "theta", "burst")]
            served = TieredKey(str(p["scenario"]), str(p["policy"]), str(p["prediction"]), *knobs)
            found.setdefault(served, {})[cell.seed] = figures
        return cls(found)

    def of_seeds(self, seeds: Set[int]) -> Self:
        """What was measured with these seeds."""
        return type(self)({s: {seed: f for seed, f in of.items() if seed in seeds} for s, of in self.by_seed.items()})

    def pairs(self, ours: TieredKey, theirs: TieredKey) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
        """Figures of the seeds that both have."""
        a, b = self.by_seed[ours], self.by_seed[theirs]
        return [(a[seed], b[seed]) for seed in sorted(a.keys() & b.keys())]

    def compared(self, ours: TieredKey, theirs: TieredKey) -> list[Comparison]:
        """By seed."""
        return [compare(a["jct"], b["jct"], a["cost"]) for a, b in self.pairs(ours, theirs)]

    def ratio(self, ours: TieredKey, theirs: TieredKey, figure: str = "mean") -> Estimate:
        return _ratio([getattr(c, figure) for c in self.compared(ours, theirs)])

    def honest(self, ours: TieredKey, theirs: TieredKey) -> Estimate:
        """Ratio of the mean of those runs that do not lie."""
        return _ratio([_honest_mean(a) / _honest_mean(b) for a, b in self.pairs(ours, theirs)])


def completion(measured: TieredFigures, folder: Path) -> list[Claim]:
    for number, scenario in enumerate(dict.fromkeys(s.scenario for s in measured.by_seed), 1):
        _write(folder / f"{number:02}-{scenario}.md", scenario, measured, _of_defaults(measured, scenario))
    return [*_one_tenant(measured), *_half(measured), *_four_tenants(measured)]


def _one_tenant(m: TieredFigures) -> list[Claim]:
    vtc, srjf, true = _vtc("one"), _srjf("one"), TieredKey("one", DEFAULT, "true")
    by_told = {told: TieredKey("one", DEFAULT, told) for told in ("true", "noisy:3", "mean", "none")}
    claims = [
        _least("true costs: mean JCT ÷ VTC's", 0.45, m.ratio(true, vtc), "VTC: each run a client, charged p + 2d."),
        _least("true costs: mean JCT ÷ SRJF's", 1.05, m.ratio(true, srjf), f"SRJF ÷ VTC: {_text(m.ratio(srjf, vtc))}."),
        _least(
            "costs wrong by up to 3×: mean JCT ÷ with true costs",
            1.03,
            m.ratio(by_told["noisy:3"], true),
            "Log-uniform factors, one for each run."
            + _part(m, "no-revision", "noisy:3", lambda few, s: few.ratio(s, s._replace(prediction="true"))),
        ),
        _least(
            "applications' running means: mean JCT ÷ SRJF's with true costs",
            1.15,
            m.ratio(by_told["mean"], srjf),
            f"Nothing is told. Ours with true costs: {_text(m.ratio(true, srjf))}."
            + _part(m, "no-stretch", "mean", lambda few, s: few.ratio(s, srjf)),
        ),
        no_worse("no predictions: mean JCT ÷ VTC's", m.ratio(by_told["none"], vtc), "Every run is said to cost 10^5."),
        _most("true costs: runs not later than under VTC", 0.95, *_not_later(m, true, vtc)),
        _least(
            "true costs: worst run ÷ its time under VTC",
            2.5,
            _mean_worst(m, true, vtc),
            _why_worst(m, true, vtc) + _part(m, "no-stretch", "true", lambda few, s: _mean_worst(few, s, vtc)),
        ),
    ]
    for told, served in by_told.items():
        for figure, text in (("largest_decile", "mean JCT of the largest decile"), ("p99", "P99 of JCT")):
            claims.append(no_worse(f"{told}: {text} ÷ VTC's", m.ratio(served, vtc, figure), _why_large(m, served)))
    return [_named("one tenant, u = 2.5", claim) for claim in claims]


def _half(m: TieredFigures) -> list[Claim]:
    vtc, srjf, true = _vtc("half"), _srjf("half"), TieredKey("half", DEFAULT, "true")
    claims = [
        _least("true costs: mean JCT ÷ SRJF's", 1.05, m.ratio(true, srjf), f"÷ VTC's: {_text(m.ratio(true, vtc))}."),
        _most("true costs: runs not later than under VTC", 0.95, *_not_later(m, true, vtc)),
    ]
    for told in ("true", "noisy:3", "mean", "none"):
        served = TieredKey("half", DEFAULT, told)
        claims.append(no_worse(f"{told}: P99 of JCT ÷ VTC's", m.ratio(served, vtc, "p99"), _why_large(m, served)))
    return [_named("one tenant, u = 0.5", claim) for claim in claims]


def _four_tenants(m: TieredFigures) -> list[Claim]:
    claims = []
    for scenario, demand in DEMANDS.items():
        vtc, srjf, true = _vtc(scenario), _srjf(scenario), TieredKey(scenario, DEFAULT, "true")
        gaps = [float(figures["gap"]) for figures in m.by_seed[true].values()]
        preempted = mean_interval([float(figures["preemptions"]) for figures in m.by_seed[true].values()])
        own = [
            _least(
                "mean JCT ÷ SRJF's",
                1.10,
                m.ratio(true, srjf),
                f"SRJF knows no weights; ours keeps them. ÷ two-level VTC's: {_text(m.ratio(true, vtc))}."
                + _by_burst(m, srjf),
            ),
            _most("runs not later than under two-level VTC", 0.90, *_not_later(m, true, vtc)),
            no_worse("P99 of JCT ÷ two-level VTC's", m.ratio(true, vtc, "p99"), _why_large(m, true)),
        ]
        for liars, how in ((LIARS, "claim C/1000"), (THOROUGH_LIARS, "claim C/1000 and lie about each output")):
            served = TieredKey(scenario, DEFAULT, liars)
            own.append(
                _least(
                    f"honest runs' mean JCT where the 5 % largest {how} ÷ where nobody lies",
                    1.3,
                    m.honest(served, true),
                    f"All runs: {_text(m.ratio(served, true))}. No request's output is read, only its run's cost.",
                )
            )
        own.append(
            Claim(
                "widest gap between two tenants' services ÷ its bound 2 s + U/φ_f + U/φ_g",
                "≤ 1",
                mean_interval(gaps),
                PaperVerdict.REACHED if max(gaps) <= 1 else PaperVerdict.NOT_REACHED,
                f"Reached means in all seeds; the widest is {digits(max(gaps))}. s and U as the policy reports them: "
                "the largest slack, and what the engine can still be charged. Samples 1 s apart; "
                f"{_text(preempted)} preemptions a seed, whose recomputed tokens are charged to nobody.",
            )
        )
        claims += [_named(f"four tenants, {demand}", claim) for claim in own]
    return claims


def _by_burst(m: TieredFigures, srjf: TieredKey) -> str:
    """What the strictness of the sharing costs."""
    of = [s for s in m.by_seed if s.scenario == srjf.scenario and s.burst is not None]
    if not of:
        return ""
    seeds = len(m.pairs(of[0], srjf))
    figures = ", ".join(f"{_text(m.ratio(s, srjf))} with B = {s.burst:g} s" for s in of)
    true = TieredKey(srjf.scenario, DEFAULT, "true")
    own = _ratio([c.mean for c in m.compared(true, srjf)[:seeds]])
    return f" The gate is the cause: {figures}, {_text(own)} with the default, at most 400 s ({seeds} seeds)."


def _vtc(scenario: str) -> TieredKey:
    return TieredKey(scenario, "vtc", "true")


def _srjf(scenario: str) -> TieredKey:
    return TieredKey(scenario, "srjf", "true")


def _of_defaults(m: TieredFigures, scenario: str) -> list[TieredKey]:
    """The policies of a scenario that are no variants of ours."""
    policies = ("vtc", "srjf", "justitia", DEFAULT)
    return [
        s
        for s in m.by_seed
        if s.scenario == scenario and s.policy in policies and s.of_defaults
        if s.policy == DEFAULT or s.prediction == "true"
    ]


def _write(path: Path, scenario: str, m: TieredFigures, served: Sequence[TieredKey]) -> None:
    rows = [[s.policy, s.prediction, *(e.text for e in figures_of(m, s))] for s in served]
    write_table(path, [f"{scenario}: policy", "told", *HEADS], rows)


def figures_of(m: TieredFigures, served: TieredKey) -> list[Estimate]:
    """In the order of HEADS."""
    vtc = m.compared(served, _vtc(served.scenario))
    return [
        m.ratio(served, _srjf(served.scenario)),
        *(_ratio([getattr(c, figure) for c in vtc]) for figure in ("mean", "largest_decile", "p99")),
        *(mean_interval([getattr(c, figure) for c in vtc]) for figure in ("not_later", "worst")),
    ]


def _not_later(m: TieredFigures, ours: TieredKey, theirs: TieredKey) -> tuple[Estimate, str]:
    """The part of runs, and which ones are later."""
    found = mean_interval([c.not_later for c in m.compared(ours, theirs)])
    classes: dict[str, int] = {}
    runs = 0
    for a, b in m.pairs(ours, theirs):
        which = later(np.array(a["jct"]), np.array(b["jct"]))
        runs += int(which.sum())
        for application in np.array(a["application"])[which]:
            classes[str(application)] = classes.get(str(application), 0) + 1
    most = ", ".join(f"{name} {count}" for name, count in sorted(classes.items(), key=lambda c: -c[1])[:4])
    return (
        found,
        f"Later: by more than 10 % and 2 s. Of all seeds {runs} runs are{f', most of {most}' if most else ''}.",
    )


def _part(m: TieredFigures, without: str, told: str, figure: Callable[[TieredFigures, TieredKey], Estimate]) -> str:
    """The figure with one of our parts taken away, beside ours of the same seeds."""
    variant, whole = (TieredKey("one", policy, told) for policy in (without, DEFAULT))
    if variant not in m.by_seed:
        return ""
    seeds = m.by_seed[variant].keys()
    few = m.of_seeds(seeds)
    return f" {without}: {_text(figure(few, variant))}, whole {_text(figure(few, whole))} ({len(seeds)} seeds)."


def _mean_worst(m: TieredFigures, ours: TieredKey, theirs: TieredKey) -> Estimate:
    return mean_interval([c.worst for c in m.compared(ours, theirs)])


def _why_worst(m: TieredFigures, ours: TieredKey, theirs: TieredKey) -> str:
    cases = []
    for a, b in m.pairs(ours, theirs):
        ratios = np.array(a["jct"]) / np.array(b["jct"])
        i = int(ratios.argmax())
        cases.append((float(ratios[i]), str(a["application"][i]), float(b["jct"][i]), float(a["jct"][i])))
    ratio, application, theirs_s, ours_s = max(cases)
    return (
        f"Mean over seeds of each seed's worst. Of all seeds {digits(ratio)}: a run of {application}, "
        f"{digits(theirs_s)} s under VTC and {digits(ours_s)} s under ours."
    )


def _why_large(m: TieredFigures, served: TieredKey) -> str:
    return f"SRJF with true costs: P99 {_text(m.ratio(_srjf(served.scenario), _vtc(served.scenario), 'p99'))}."


def _honest_mean(figures: Mapping[str, Any]) -> float:
    return fmean(jct for jct, lies in zip(figures["jct"], figures["lies"], strict=True) if not lies)


def _named(setting: str, claim: Claim) -> Claim:
    return Claim(f"{setting}: {claim.claim}", claim.paper, claim.ours, claim.verdict, claim.why)


def _least(text: str, target: float, ours: Estimate, why: str) -> Claim:
    return Claim(text, f"≤ {target:g}", ours, at_most(ours, target), why)


def _most(text: str, target: float, ours: Estimate, why: str) -> Claim:
    return Claim(text, f"≥ {target:g}", ours, at_least(ours, target), why)


def no_worse(text: str, ours: Estimate, why: str) -> Claim:
    beaten, reached = ours.n > 1 and ours.high < 1, ours.high <= NO_WORSE
    verdict = PaperVerdict.BEATEN if beaten else PaperVerdict.REACHED if reached else PaperVerdict.NOT_REACHED
    return Claim(text, "no worse", ours, verdict, why)


def _ratio(ratios: Sequence[float]) -> Estimate:
    return paired_ratio(ratios, [1.0] * len(ratios))


def _text(estimate: Estimate) -> str:
    return digits(estimate.mean)
