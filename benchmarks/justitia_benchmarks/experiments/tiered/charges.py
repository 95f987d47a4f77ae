"""What a tenant is charged: one that reads long prompts against one that writes long answers, of equal weight.

For 600 s each sends single requests, of 2,000 + 20 and of 100 + 400 tokens (prompt + output), by a Poisson process,
ten of them at once, work for 1.3 times half the engine's time. Both are under tiered Justitia with true costs and
differ in what tenants are charged: engine time, KV token-time, or p + 2d weighted tokens.

- `share`: each tenant's part of the engine's time in those 600 s, split over the requests of each step as
  :class:`EngineTime` does, whatever tenants are charged.
- `slowdown`: a tenant's mean completion time, against having half of the engine alone: an engine on which every step
  takes twice as long, with M tokens of KV.
"""

import random
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import msgspec

from justitia_benchmarks.experiment import Cell, Claim, Figures, Row
from justitia_benchmarks.experiments.tiered.serving import PROFILE
from justitia_benchmarks.reports import tiered_charges as reports
from justitia_scheduling.core.cost import CostModel, EngineTime, KVTokenTimeCost, WeightedTokens, Work
from justitia_scheduling.policies.tiered import TieredJustitia
from justitia_simulator.arrivals import full_engine_seconds
from justitia_simulator.engine import Engine
from justitia_simulator.mixes import single_requests
from justitia_simulator.prediction import TRUE
from justitia_simulator.profiles import EngineProfile
from justitia_simulator.timing import Coefficients, SeparateTiming
from justitia_simulator.workload import WorkloadRequest, WorkloadRun
from justitia_vocabulary.units import KVTokenTime, RequestId, RunId, Seconds, Tokens

TENANTS = {"reads": WorkloadRequest(2000, 20), "writes": WorkloadRequest(100, 400)}
CHARGES: dict[str, CostModel] = {
    "engine time": EngineTime(PROFILE.charge),
    "KV token-time": KVTokenTimeCost(),
    "p + 2d": WeightedTokens(),
}
OVERLOAD = 1.3
AT_ONCE = 10
SECONDS = 600.0
SEEDS, QUICK_SEEDS = 6, 2


class Metered(CostModel):
    """Charges as another model does and keeps what each request takes of the engine's first `seconds` of work."""

    def __init__(self, charged: CostModel, seconds: Seconds) -> None:
        self.unit, self.burst = charged.unit, charged.burst
        self._charged = charged
        self._meter = EngineTime(PROFILE.charge)
        self._left = seconds
        self.taken: dict[RequestId, Seconds] = {}

    def in_engine(self, capacity: Tokens, longest_output: Tokens) -> float:
        return self._charged.in_engine(capacity, longest_output)

    def prompt_work(self, capacity: Tokens) -> KVTokenTime:
        return self._charged.prompt_work(capacity)

    def admission(self, prompt_tokens: Tokens) -> float:
        return self._charged.admission(prompt_tokens)

    def whole(self, prompt_tokens: Tokens, output_tokens: Tokens, running: int) -> float:
        return self._charged.whole(prompt_tokens, output_tokens, running)

    def step(self, work: Sequence[Work], duration: Seconds | None, running: int) -> list[float]:
        if self._left > 0:
            self._left -= duration or 0.0
            for done, seconds in zip(work, self._meter.step(work, duration, running), strict=True):
                request = done.progress.request
                self.taken[request] = self.taken.get(request, 0.0) + seconds
        return self._charged.step(work, duration, running)


class Charges:
    """Two tenants that differ in what they use most."""

    name = "tiered-charges"
    title = "Tiered Justitia: what a tenant is charged"
    paper = "ours"

    def cells(self, quick: bool) -> Sequence[Cell]:
        seeds = range(QUICK_SEEDS if quick else SEEDS)
        return [Cell({"charge": charge}, seed) for seed in seeds for charge in CHARGES]

    def run(self, cell: Cell) -> Figures:
        workload = both(cell.seed)
        owner = {run.id: run.tenant for run in workload}
        meter = Metered(CHARGES[str(cell.parameters["charge"])], SECONDS)
        together = _mean_jct(workload, meter, PROFILE)
        taken = dict.fromkeys(TENANTS, 0.0)
        for request, seconds in meter.taken.items():
            taken[owner[_run_of(request)]] += seconds
        figures = {}
        for tenant in TENANTS:
            own = [run for run in workload if run.tenant == tenant]
            alone = _mean_jct(own, CHARGES["engine time"], half(PROFILE))
            figures[tenant] = {
                "share": taken[tenant] / sum(taken.values()),
                "slowdown": together[tenant] / alone[tenant],
            }
        return figures

    def report(self, rows: Sequence[Row], folder: Path) -> Sequence[Claim]:
        return reports.charges(rows, folder)


def both(seed: int) -> list[WorkloadRun]:
    """The requests of both tenants in order of arrival, each a run."""
    arrivals = []
    for tenant, request in TENANTS.items():
        rng = random.Random(f"{seed}/{tenant}")
        full = 1000
        count = round(OVERLOAD * SECONDS / 2 / (full_engine_seconds([request] * full, PROFILE) / full))
        moments = [0.0] * AT_ONCE + [round(rng.uniform(0.0, SECONDS), 3) for _ in range(count - AT_ONCE)]
        arrivals += [(moment, tenant, request) for moment in moments]
    return single_requests(arrivals, "chat")


def half(profile: EngineProfile) -> EngineProfile:
    """An engine whose steps take twice as long."""
    timing = profile.timing
    assert isinstance(timing, SeparateTiming)
    slow = SeparateTiming(_doubled(timing.decode), _doubled(timing.prefill), 2 * timing.overhead)
    return msgspec.structs.replace(profile, timing=slow)


def _doubled(c: Coefficients) -> Coefficients:
    return Coefficients(2 * c.per_step, 2 * c.per_token, 2 * c.per_kv_token)


def _mean_jct(workload: Sequence[WorkloadRun], charged: CostModel, profile: EngineProfile) -> dict[str, Seconds]:
    """By tenant."""
    engine = Engine(TieredJustitia(charged), profile, label="served", prediction=TRUE, sample_every=1e9)
    times: dict[str, list[Seconds]] = {}
    for run in engine.serve(workload).runs:
        if run.jct is not None:
            times.setdefault(run.tenant, []).append(run.jct)
    return {tenant: fmean(own) for tenant, own in times.items()}


def _run_of(request: RequestId) -> RunId:
    return RunId(request.rsplit("#", 1)[0])
