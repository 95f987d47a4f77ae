"""The scheduler of the engine with a policy that misbehaves on purpose in the place of `justitia`.

Loaded by vLLM in place of `justitia_engine.scheduler.JustitiaScheduler`.
"""

from justitia_scheduling.policies import registry
from justitia_vocabulary.policies import PolicyName
from support.braked_scheduler import JustitiaScheduler
from support.raising_policy import RaisesAtTheThirdStep

__all__ = ["JustitiaScheduler"]

registry.POLICIES[PolicyName.JUSTITIA] = RaisesAtTheThirdStep
