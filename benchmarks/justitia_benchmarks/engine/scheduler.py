"""The plug-in with the papers' baselines and the bench's policies. vLLM loads it in place of the plug-in itself."""

from justitia_benchmarks.engine.tail_policies import TAIL_POLICIES
from justitia_engine.scheduler import JustitiaScheduler
from justitia_scheduling.baselines.registry import BASELINES
from justitia_scheduling.policies.registry import POLICIES

__all__ = ["JustitiaScheduler", "WithoutKeeping"]

POLICIES.update(BASELINES)
POLICIES.update(TAIL_POLICIES)


class WithoutKeeping(JustitiaScheduler):
    """The same, but KV of runs that pause is not kept."""

    keeps_paused = False
