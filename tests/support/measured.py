"""Runs that were measured on an A10G (`tests/data/vtc-a10g`), and the same requests in the simulator."""

import csv
import gzip
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from statistics import fmean

from justitia_scheduling.core.policy import Policy
from justitia_simulator.engine import Engine
from justitia_simulator.fairness import Served
from justitia_simulator.prediction import MEAN, PredictionSource
from justitia_simulator.profiles import find_profile
from justitia_simulator.workload import WorkloadRequest, WorkloadRun, WorkloadStage
from justitia_vocabulary.units import TenantId

DATA = Path(__file__).parents[1] / "data/vtc-a10g"
REAL = Path(str(files("justitia_simulator").joinpath("data/lmsys-arena.csv.gz")))


def measured(workload: str, run: str) -> list[Served]:
    """The requests that the run served; what it refused is left out."""
    return [
        Served(
            request["client"],
            float(request["time"]),
            float(request["time"]) + float(timing["first_token_latency"]),
            float(request["time"]) + float(timing["latency"]),
            int(request["prompt_tokens"]),
            int(request["output_tokens"]),
        )
        # A run may have been stopped before the workload's end.
        for request, timing in zip(_rows(workload), _rows(f"{workload}.{run}"), strict=False)
        if timing["latency"]
    ]


def simulated(
    requests: list[Served],
    policy: Policy,
    weights: Mapping[TenantId, float] | None = None,
    prediction: PredictionSource = MEAN,
) -> list[Served]:
    """The same requests, served by the simulator's A10G."""
    runs = [
        WorkloadRun(
            f"r{i}", r.client, "a", r.arrival, (WorkloadStage((WorkloadRequest(r.prompt_tokens, r.output_tokens),)),)
        )
        for i, r in enumerate(requests)
    ]
    engine = Engine(policy, find_profile("a10g-llama2-7b"), label="", prediction=prediction)
    return [
        Served(r.tenant, r.ready, r.first_token or 0.0, r.finished or 0.0, r.prompt_tokens, r.output_tokens)
        for r in engine.serve(runs, weights).requests
    ]


@dataclass(frozen=True, slots=True)
class Figures:
    """Tokens per second, prompts and outputs together; mean wait for the first token and time per further one, in s."""

    throughput: float
    mean_ttft: float
    mean_tpot: float


def figures(requests: list[Served]) -> Figures:
    tokens = sum(r.prompt_tokens + r.output_tokens for r in requests)
    return Figures(
        tokens / max(r.finished for r in requests),
        fmean(r.first_token - r.arrival for r in requests),
        fmean((r.finished - r.first_token) / (r.output_tokens - 1) for r in requests if r.output_tokens > 1),
    )


def client_error(ours: list[Served], real: list[Served]) -> float:
    """How far each client's mean wait for the first token is off, over all that was waited for in reality."""
    waits: dict[TenantId, list[float]] = {}
    for sign, requests in ((1.0, ours), (-1.0, real)):
        for r in requests:
            waits.setdefault(r.client, []).append(sign * (r.first_token - r.arrival))
    return sum(abs(sum(mine)) for mine in waits.values()) / sum(r.first_token - r.arrival for r in real)


def _rows(name: str) -> list[dict[str, str]]:
    with gzip.open(REAL if name == "real" else DATA / f"{name}.csv.gz", "rt", newline="") as file:
        return list(csv.DictReader(file))
