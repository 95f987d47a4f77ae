"""The policies that the VTC paper compares, by the names of its tables."""

import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from justitia_scheduling.baselines.registry import build_policy
from justitia_scheduling.baselines.rpm import RPM
from justitia_scheduling.baselines.vtc_predicted import OracleVTC
from justitia_scheduling.core.cost import CostModel
from justitia_scheduling.core.policy import Policy
from justitia_simulator.prediction import MEAN, PredictionSource, Told
from justitia_simulator.workload import WorkloadRun
from justitia_vocabulary.units import RunId, Seconds, TenantId

MINUTE: Seconds = 60.0


@dataclass(frozen=True)
class Contender:
    """A policy and what it is told."""

    policy: Policy
    prediction: PredictionSource = MEAN


class ToldVTC(OracleVTC):
    """VTC that takes the lengths it is told for true."""

    oracle: ClassVar[bool] = False


def contender(name: str, cost_model: CostModel, seed: int) -> Contender:
    """`vtc-50` is told lengths with an error of up to 50 %. `rpm-N` serves in order what :func:`accepted` lets in, as
    the authors' engine does; `rpm-N-held` is the paper's text (section 5.1): what is over the limit waits for the next
    minute.
    """
    if name == "vtc-50":
        return Contender(ToldVTC(cost_model), lengths_within(0.5, seed))
    if name.endswith("-held"):
        return Contender(RPM(cost_model, limit=int(name.split("-")[1])))
    if name.startswith("rpm-"):
        return Contender(build_policy("fcfs", cost_model))
    return Contender(build_policy(name.removesuffix("-weighted"), cost_model))


def lengths_within(error: float, seed: int) -> PredictionSource:
    """Every output's length, off by a part that is drawn evenly from [-error, error]."""

    def tell(workload: Sequence[WorkloadRun]) -> dict[RunId, Told]:
        rng = random.Random(seed)
        return {
            run.id: Told(None, [r.output_tokens * rng.uniform(1 - error, 1 + error) for r in run.requests])
            for run in workload
        }

    return PredictionSource(f"within:{error}", tell)


def accepted(runs: Sequence[WorkloadRun], policy: str) -> list[WorkloadRun]:
    """What the authors' `rpm-N` lets in: no more than N of a client's requests in any minute, the rest is refused."""
    if not policy.startswith("rpm-") or policy.endswith("-held"):
        return list(runs)
    limit = int(policy.removeprefix("rpm-"))
    recent: dict[TenantId, deque[Seconds]] = {}
    let_in = []
    for run in runs:
        mine = recent.setdefault(run.tenant, deque())
        while mine and run.arrival - mine[0] > MINUTE:
            mine.popleft()
        if len(mine) < limit:
            mine.append(run.arrival)
            let_in.append(run)
    return let_in
