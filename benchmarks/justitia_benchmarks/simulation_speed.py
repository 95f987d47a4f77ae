"""How many requests a minute the simulator serves, on one core, by workload and policy.

`python -m justitia_benchmarks.simulation_speed` (or `make benchmark`) serves whole workloads in the contended state in
which the experiments use them: 300 agent runs on the profile with vLLM's habits, ten minutes of VTC's overload on the
profile of the measured runs, and requests shaped like Azure's conversations. Timed is `Engine.serve` alone, in CPU time
of this process. Each turn serves every pair once, so that a machine whose speed drifts does not look like a policy;
shown is the middle turn, with the slowest and the fastest.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Annotated

import typer
from rich.progress import track

from justitia_benchmarks.document import table
from justitia_benchmarks.experiments.tiered.serving import PROFILE, agents, trace_shaped
from justitia_benchmarks.speed import machine, publish
from justitia_cli.console import errors, mistakes
from justitia_scheduling.baselines.registry import build_policy
from justitia_scheduling.core.cost import EngineTime
from justitia_simulator.engine import Engine
from justitia_simulator.mixes import vtc_workload
from justitia_simulator.profiles import EngineProfile, find_profile
from justitia_simulator.workload import WorkloadRun

POLICIES = ("tiered-justitia", "fcfs", "vtc", "justitia", "srjf", "uniboost")
TENANTS = dict.fromkeys(("t1", "t2", "t3", "t4"), 1.0)
WORKLOADS: dict[str, tuple[EngineProfile, Callable[[], list[WorkloadRun]]]] = {
    "agent runs": (PROFILE, lambda: agents(300, 1, 2.5, TENANTS)),
    "VTC overload": (find_profile("a10g-llama2-7b"), lambda: vtc_workload("overload", seed=1)),
    "Azure conversations": (PROFILE, lambda: trace_shaped("azure-conversation", 2000, 1, TENANTS)),
}


@dataclass(frozen=True)
class SimulationPace:
    """Requests a minute of CPU time in one turn."""

    workload: str
    policy: str
    requests: int
    per_minute: float


def measure(workload: str, runs: Sequence[WorkloadRun], policy: str) -> SimulationPace:
    profile, _ = WORKLOADS[workload]
    engine = Engine(build_policy(policy, EngineTime(profile.charge)), profile, label=policy)
    start = time.process_time()
    engine.serve(runs)
    seconds = time.process_time() - start
    requests = sum(len(run.requests) for run in runs)
    return SimulationPace(workload, policy, requests, 60 * requests / seconds)


def document(paces: Sequence[SimulationPace]) -> str:
    """The table, in Markdown."""
    sizes = {pace.workload: pace.requests for pace in paces}
    rows = []
    for policy in dict.fromkeys(pace.policy for pace in paces):
        cells = []
        for workload in sizes:
            own = sorted(p.per_minute / 1000 for p in paces if (p.workload, p.policy) == (workload, policy))
            cells.append(f"{median(own):.0f} ({own[0]:.0f}-{own[-1]:.0f})")
        rows.append([policy, *cells])
    parts = [
        "# Speed of the simulator",
        "Written by `make benchmark`; `benchmarks/justitia_benchmarks/simulation_speed.py` says what is served. "
        "Thousands of requests served a minute of CPU time on one core: the middle turn (slowest-fastest).",
        machine(),
        table(["policy", *(f"{name}, {count:,} requests" for name, count in sizes.items())], rows),
    ]
    return "\n\n".join(parts) + "\n"


def benchmark(
    *,
    turns: Annotated[int, typer.Option(min=1, help="How often each workload is served under each policy")] = 3,
    out: Annotated[Path | None, typer.Option(help="Markdown file for the table")] = None,
) -> None:
    """Measure how many requests a minute the simulator serves."""
    with mistakes():
        workloads = {name: make() for name, (_, make) in WORKLOADS.items()}
        plan = [(name, policy) for _ in range(turns) for name in workloads for policy in POLICIES]
        paces = [
            measure(name, workloads[name], policy)
            for name, policy in track(plan, "simulating", console=errors, transient=True)
        ]
        publish(document(paces), out)


if __name__ == "__main__":
    typer.run(benchmark)
