"""What the experiments with agent runs share: in what their offered load is stated, and when runs complete.

An iteration of a full engine is taken as one decode step that reads all of its M tokens of KV and decodes as many
requests as fill them on average, `M * sum(d) / sum(C)`. Prefill is not in it.
"""

from collections.abc import Sequence

from justitia_simulator.profiles import EngineProfile
from justitia_simulator.records import PolicyResults
from justitia_simulator.workload import WorkloadRun
from justitia_vocabulary.units import Seconds


def full_iteration(workload: Sequence[WorkloadRun], profile: EngineProfile) -> Seconds:
    """The iteration of the full engine that serves the workload."""
    outputs = sum(request.output_tokens for run in workload for request in run.requests)
    decoding = profile.kv_tokens * outputs / sum(run.cost for run in workload)
    return profile.timing.step(0, decoding, profile.kv_tokens)


def jcts(results: PolicyResults) -> dict[str, Seconds]:
    """Completion time of each run that finished, in the workload's order."""
    return {run.run: run.jct for run in results.runs if run.jct is not None}
