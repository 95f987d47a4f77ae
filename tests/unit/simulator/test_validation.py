"""The A10G profile against what was measured on an A10G, and the paper's printed fairness figures."""

import csv
import gzip
from pathlib import Path
from statistics import fmean

import pytest

from justitia_scheduling.cost import WeightedTokens
from justitia_scheduling.registry import build_policy
from justitia_simulator.engine import Engine
from justitia_simulator.fairness import Served, service_difference
from justitia_simulator.profiles import PROFILES
from justitia_simulator.workload import Stage, WorkloadRequest, WorkloadRun

DATA = Path(__file__).parents[2] / "data/vtc-a10g"
RUNS = ["real-fcfs", "real-vtc", "overload-fcfs", "overload-vtc"]


def measured(name: str) -> list[Served]:
    with gzip.open(DATA / f"{name}.csv.gz", "rt", newline="") as file:
        return [
            Served(
                row["client"],
                float(row["time"]),
                float(row["time"]) + float(row["first_token_latency"]),
                float(row["time"]) + float(row["latency"]),
                int(row["prompt_tokens"]),
                int(row["output_tokens"]),
            )
            for row in csv.DictReader(file)
        ]


def simulated(requests: list[Served], policy: str) -> list[Served]:
    runs = [
        WorkloadRun(f"r{i}", r.client, "a", r.arrival, (Stage((WorkloadRequest(r.prompt_tokens, r.output_tokens),)),))
        for i, r in enumerate(requests)
    ]
    served = Engine(build_policy(policy, WeightedTokens()), PROFILES["a10g-llama2-7b"], label=policy).serve(runs)
    return [
        Served(r.tenant, r.ready, r.first_token or 0.0, r.finished or 0.0, r.prompt_tokens, r.output_tokens)
        for r in served.requests
    ]


def throughput(requests: list[Served]) -> float:
    return sum(r.prompt_tokens + r.output_tokens for r in requests) / max(r.finished for r in requests)


@pytest.mark.parametrize("name", RUNS)
def test_throughput_is_within_6_percent_and_mean_ttft_within_20_percent_of_the_measured(name: str) -> None:
    real = measured(name)
    ours = simulated(real, name.split("-")[1])
    assert throughput(ours) == pytest.approx(throughput(real), rel=0.06)
    first_token = [fmean(r.first_token - r.arrival for r in requests) for requests in (ours, real)]
    assert first_token[0] == pytest.approx(first_token[1], rel=0.20)


@pytest.mark.parametrize(
    ("name", "maximum", "average", "variance"),
    [("real-fcfs", 759.97, 433.53, 32112.00), ("real-vtc", 368.40, 251.66, 6549.16)],
)
def test_the_papers_fairness_figures_come_out_as_printed(
    name: str, maximum: float, average: float, variance: float
) -> None:
    figures = service_difference(measured(name), horizon=600.0)
    assert (figures.maximum, figures.average) == (pytest.approx(maximum, abs=0.05), pytest.approx(average, abs=0.05))
    assert figures.variance == pytest.approx(variance, rel=1e-3)
