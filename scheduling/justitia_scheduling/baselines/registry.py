"""All policies and cost models by name: those that a pool may choose, and those of the papers to compare with."""

from justitia_scheduling.baselines.distboost import DistBoost
from justitia_scheduling.baselines.dlpm import DLPM
from justitia_scheduling.baselines.drr import DRR
from justitia_scheduling.baselines.justitia_c import JustitiaC
from justitia_scheduling.baselines.lcf import LCF
from justitia_scheduling.baselines.ltr import LTR
from justitia_scheduling.baselines.mlfq import MLFQ
from justitia_scheduling.baselines.parrot import Parrot
from justitia_scheduling.baselines.rpm import RPM
from justitia_scheduling.baselines.sarathi import Sarathi
from justitia_scheduling.baselines.srjf import SRJF
from justitia_scheduling.baselines.vtc_predicted import OracleVTC, PredictedVTC
from justitia_scheduling.core.cost import CostModel, ProfiledCost, StepTime
from justitia_scheduling.core.policy import Policy
from justitia_scheduling.policies import registry

BASELINES: dict[str, registry.BuildPolicy] = {
    "RPM": RPM,
    "LCF": LCF,
    "DRR": DRR,
    "DLPM": DLPM,
    "Sarathi": Sarathi,
    "VTC-Predicted": PredictedVTC,
    "VTC-Oracle": OracleVTC,
    "Parrot": Parrot,
    "SRJF": SRJF,
    "JustitiaC": JustitiaC,
    "DistBoost": DistBoost,
    "MLFQ": MLFQ,
    "LTR": LTR,
}
POLICIES = registry.POLICIES | BASELINES
COST_MODELS = registry.COST_MODELS | {"Profiled": lambda _: ProfiledCost()}


def build_policy(name: str, cost_model: CostModel) -> Policy:
    """The policy of that name with its defaults. Raises ValueError that lists the names it knows."""
    return registry.build_policy(name, cost_model, POLICIES)


def build_cost_model(name: str, step_time: StepTime) -> CostModel:
    """The cost model of that name; `step_time` is the engine's. Raises ValueError that lists the names it knows."""
    return registry.build_cost_model(name, step_time, COST_MODELS)
