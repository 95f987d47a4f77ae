"""What the demo sends, sized to the engine it finds.

`research` (weight 1) and `batch` (weight 2) flood with many short requests of agents; `support` (weight 4) is light:
now and then a single question about a long text. Lengths and arrival pattern come from a production trace
(`examples/traces`), the grouping into runs is ours.

How much the flooders ask follows from the engine's speed, so that both have requests waiting for the wanted time
whatever the machine: at weights 1 and 2 each is sent its share of that time's work.
"""

from collections.abc import Sequence
from dataclasses import replace

from justitia_simulator.traces import Scale, TenantLoad, TraceRequest, tenant_runs
from justitia_simulator.workload import WorkloadRun

AGENT_LENGTHS = Scale(prompt=0.1, output=0.08, maximum_prompt=400, maximum_output=30)
QUESTION_LENGTHS = Scale(prompt=1.0, output=0.1, minimum_prompt=1200, maximum_prompt=1700, maximum_output=24)

RESEARCH = TenantLoad("research", ("map-reduce-summary", "self-consistency"), 0.0, 0.0, AGENT_LENGTHS)
BATCH = TenantLoad("batch", ("code-checking", "fact-verification"), 0.0, 0.0, AGENT_LENGTHS)
SUPPORT = TenantLoad("support", ("chat",), 0.0, 0.0, QUESTION_LENGTHS)

ARRIVAL_PART = 0.3
"""The flooders' runs arrive in the first part of the time, and wait through the rest of it."""

LIGHT_PART = 0.12
"""What support asks of the engine."""

LIGHT_ALONE, LIGHT_PAUSE = 8, 1.2
"""How many of its questions are measured alone, and how many seconds apart."""


def flooding_runs(trace: Sequence[TraceRequest], work: float, window: float, seed: int) -> list[WorkloadRun]:
    """Runs of the two flooders with work 1 : 2, arriving within the window (seconds)."""
    return [
        run
        for load, part in ((RESEARCH, 1 / 3), (BATCH, 2 / 3))
        for run in tenant_runs(trace, load.asking(work * part, window), seed=seed)
    ]


def light_runs_alone(runs: Sequence[WorkloadRun]) -> list[WorkloadRun]:
    """The light tenant's runs of a workload, so far apart that they do not meet."""
    light = [run for run in runs if run.tenant == SUPPORT.tenant][:LIGHT_ALONE]
    return [replace(run, arrival=number * LIGHT_PAUSE) for number, run in enumerate(light)]


def contended_runs(trace: Sequence[TraceRequest], speed: float, seconds: float, seed: int) -> list[WorkloadRun]:
    """The demo's workload in order of arrival: about `seconds` of work for an engine of that speed.

    `speed` is in weighted tokens (prompt + 2 * output) per second.
    """
    flood = flooding_runs(trace, speed * seconds * (1 - LIGHT_PART), seconds * ARRIVAL_PART, seed)
    light = tenant_runs(trace, SUPPORT.asking(speed * seconds * LIGHT_PART, seconds * 0.85), seed=seed)
    return sorted([*flood, *light], key=lambda run: run.arrival)
