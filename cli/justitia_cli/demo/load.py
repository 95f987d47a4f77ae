"""The load of the demo, sized to the engine.

`research` (weight 1) and `batch` (weight 2) flood with many short requests of agents; `support` (weight 4) is light:
now and then a single question about a long text. Lengths and arrival pattern come from a production trace
(`examples/traces`), the grouping into runs is ours.

The flooders' work follows from the engine's speed, so that both have requests waiting for the planned time on any
machine: at weights 1 and 2, each sends its share of that time's work. There are never more requests than the queue
takes, so none is refused, even if the speed was measured wrong. A fast engine is flooded for a shorter time, not with
more requests; arrivals and pauses of tools shrink with it, so that the picture stays the same.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from justitia_simulator.traces import Scale, TenantTraffic, TraceRequest, tenant_runs
from justitia_simulator.workload import WorkloadRun

AGENT_LENGTHS = Scale(prompt=0.1, output=0.08, maximum_prompt=400, maximum_output=30)
QUESTION_LENGTHS = Scale(prompt=1.0, output=0.1, minimum_prompt=1200, maximum_prompt=1700, maximum_output=24)

RESEARCH = TenantTraffic("research", ("self-consistency",), 0.0, 0.0, AGENT_LENGTHS)
"""Its runs are small and alike: the policy lets another tenant run ahead by a multiple of one."""
BATCH = TenantTraffic("batch", ("code-checking", "fact-verification"), 0.0, 0.0, AGENT_LENGTHS)
SUPPORT = TenantTraffic("support", ("chat",), 0.0, 0.0, QUESTION_LENGTHS)

FLOOD_SECONDS = 66.0
"""How long the flood should last."""

ARRIVAL_PART = 0.3
"""The flooders' runs arrive in the first part of the time, and wait through the rest of it."""

QUEUE_USED = 0.9
"""The part of the queue that all requests together may use."""

SAMPLE_WORK = 20_000.0
"""Weighted tokens of the runs that show how much work a request is."""

LIGHT_PART = 0.12
"""The part of the engine's time that support asks for."""

LIGHT_ALONE = 8
"""How many of its questions are measured alone."""


def flooding_runs(trace: Sequence[TraceRequest], work: float, window: float, seed: int) -> list[WorkloadRun]:
    """Runs of the two flooders, with work 1 : 2, that arrive within the window (seconds)."""
    return [
        run
        for load, part in ((RESEARCH, 1 / 3), (BATCH, 2 / 3))
        for run in tenant_runs(trace, load.asking(work * part, window), seed=seed)
    ]


def light_run_alone(runs: Sequence[WorkloadRun]) -> WorkloadRun:
    """The light tenant's first questions of a workload, each sent when the one before has been answered. So none
    waits for another, on a slow machine either.
    """
    light = [run for run in runs if run.tenant == SUPPORT.tenant][:LIGHT_ALONE]
    stages = tuple(replace(stage, delay=0.0) for run in light for stage in run.stages)
    return replace(light[0], arrival=0.0, stages=stages)


@dataclass(frozen=True)
class LoadPlan:
    """The size of the load: `work` in weighted tokens (prompt + 2 * output), enough for `seconds` of the engine. Pauses
    of tools, which do not depend on the engine, are shortened by the factor `pace`.
    """

    work: float
    seconds: float
    pace: float = 1.0


def count_requests(runs: Iterable[WorkloadRun]) -> int:
    return sum(len(stage.requests) for run in runs for stage in run.stages)


def plan_load(trace: Sequence[TraceRequest], speed: float, part: float, queue: int, seed: int) -> LoadPlan:
    """Plan a load for an engine of that `speed`, in weighted tokens a second, that lasts for a `part` of
    `FLOOD_SECONDS`. It is shorter if the `queue` would not take so many requests.
    """
    seconds = FLOOD_SECONDS * part
    per_request = SAMPLE_WORK / count_requests(contended_runs(trace, LoadPlan(SAMPLE_WORK, seconds), seed))
    work = min(speed * seconds, QUEUE_USED * queue * per_request)
    while count_requests(contended_runs(trace, LoadPlan(work, seconds), seed)) > queue:
        work *= QUEUE_USED
    return LoadPlan(work, work / speed, min(1.0, work / speed / seconds))


def contended_runs(trace: Sequence[TraceRequest], plan: LoadPlan, seed: int) -> list[WorkloadRun]:
    """The demo's workload in order of arrival."""
    work, seconds = plan.work, plan.seconds
    flood = flooding_runs(trace, work * (1 - LIGHT_PART), seconds * ARRIVAL_PART, seed)
    light = tenant_runs(trace, SUPPORT.asking(work * LIGHT_PART, seconds * 0.85), seed=seed)
    return sorted((_paced(run, plan.pace) for run in [*flood, *light]), key=lambda run: run.arrival)


def _paced(run: WorkloadRun, pace: float) -> WorkloadRun:
    return replace(run, stages=tuple(replace(stage, delay=stage.delay * pace) for stage in run.stages))
