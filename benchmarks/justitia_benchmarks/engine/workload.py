"""The agent classes in a size that a small model on a CPU serves in seconds, at a wanted load.

Prompts and outputs are cut to `SIZE` of what was recorded and the engine's KV space with them, so that as many requests
run at a time and a run takes as many steps of a full engine, times `SIZE`. No two prompts are alike, since load and
costs are stated without a prefix cache. Tool times shrink with the time that those steps take here. So runs relate to
each other, to the KV space and to their tools as the recorded ones do; what differs is the engine, whose step costs
more for each token and less for each token of KV than a GPU's.

Load u = sum(C) / (M * steps in the arrival window), as everywhere in this project, with the step time that the stock
engine was measured to have when it was full.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from justitia_benchmarks.experiments.agent_runs import full_iteration
from justitia_benchmarks.experiments.tiered.serving import PROFILE
from justitia_simulator.arrivals import scaled_to_load
from justitia_simulator.suite import agent_suite
from justitia_simulator.workload import WorkloadRequest, WorkloadRun, WorkloadStage
from justitia_vocabulary.units import ApplicationId, Seconds, Tokens

SIZE = 0.1
BLOCK: Tokens = 32
BLOCKS = 46
KV_TOKENS: Tokens = BLOCK * BLOCKS
LONGEST: Tokens = 640
NAMESPACE = "bench"
WEIGHTS = {"bronze": 1.0, "silver": 2.0}
"""Tenants; each asks for its part, so that every run can have its fair time."""


def draw(count: int, seed: int, load: float, step: Seconds) -> list[WorkloadRun]:
    """`count` runs, arriving so that the load is `load` for an engine whose full step takes that long."""
    recorded = agent_suite(count, seed=seed, tenants=WEIGHTS)
    speed = SIZE * step / full_iteration(recorded, PROFILE)
    return scaled_to_load([small(run, speed) for run in recorded], load, KV_TOKENS, step)


def all_at_once(count: int, seed: int) -> list[WorkloadRun]:
    """Runs without tools, all there from the beginning: what fills the engine."""
    return [replace(small(run, 0.0), arrival=0.0) for run in agent_suite(count, seed=seed, tenants=WEIGHTS)]


def work_seconds(count: int, step: Seconds) -> Seconds:
    """How long so many runs fill the engine, if its full step takes that long."""
    return sum(run.cost for run in all_at_once(count, seed=1)) / KV_TOKENS * step


def applications(runs: Sequence[WorkloadRun]) -> Mapping[str, str]:
    """Name of each application in its namespace, with its tenant."""
    return {run.application.split("/")[1]: run.tenant for run in runs}


def small(run: WorkloadRun, speed: float) -> WorkloadRun:
    """Each tenant has applications of its own. `speed`: how long a recorded second takes here."""
    application = ApplicationId(f"{NAMESPACE}/{run.application.lower()}-{run.tenant}")
    stages = tuple(WorkloadStage(tuple(map(_cut, stage.requests)), stage.delay * speed) for stage in run.stages)
    return replace(run, application=application, stages=stages)


def _cut(request: WorkloadRequest) -> WorkloadRequest:
    prompt = max(8, round(request.prompt_tokens * SIZE))
    output = max(2, round(request.output_tokens * SIZE))
    output = min(output, LONGEST * 5 // 6)
    prompt = min(prompt, LONGEST - output)
    return WorkloadRequest(prompt, output)
