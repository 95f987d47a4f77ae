"""The plug-in with the papers' baselines, which are not delivered. vLLM loads it in place of the plug-in itself."""

from justitia_engine.scheduler import JustitiaScheduler
from justitia_scheduling.baselines.registry import BASELINES
from justitia_scheduling.policies.registry import POLICIES

__all__ = ["JustitiaScheduler", "WithoutKeeping"]

POLICIES.update(BASELINES)


class WithoutKeeping(JustitiaScheduler):
    """The same, but KV of runs that pause is not kept."""

    keeps_paused = False
