"""Policies and cost models by name. Files and the command line use these names, resources the same in CamelCase."""

from collections.abc import Callable

from justitia_scheduling.baselines.distboost import DistBoost
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
from justitia_scheduling.core.cost import CostModel, EngineTime, KVTokenTimeCost, ProfiledCost, StepTime, WeightedTokens
from justitia_scheduling.core.policy import Policy
from justitia_scheduling.policies.fcfs import FCFS
from justitia_scheduling.policies.justitia import Justitia
from justitia_scheduling.policies.sjf import SJF
from justitia_scheduling.policies.srpt import SRPT
from justitia_scheduling.policies.tiered import TieredJustitia
from justitia_scheduling.policies.uniboost import UniBoost
from justitia_scheduling.policies.vtc import VTC

DEFAULT_POLICY = "tiered-justitia"

POLICIES: dict[str, Callable[[CostModel], Policy]] = {
    "fcfs": FCFS,
    "rpm": RPM,
    "sjf": SJF,
    "lcf": LCF,
    "drr": DRR,
    "sarathi": Sarathi,
    "vtc": VTC,
    "vtc-predicted": PredictedVTC,
    "vtc-oracle": OracleVTC,
    "parrot": Parrot,
    "srjf": SRJF,
    "justitia": Justitia,
    "justitia-c": JustitiaC,
    "tiered-justitia": TieredJustitia,
    "distboost": DistBoost,
    "uniboost": UniBoost,
    "mlfq": MLFQ,
    "srpt": SRPT,
    "ltr": LTR,
}


def build_policy(name: str, cost_model: CostModel) -> Policy:
    """The policy of that name with its defaults. Raises ValueError that lists the names it knows."""
    try:
        return POLICIES[name](cost_model)
    except KeyError:
        raise ValueError(f"unknown policy {name!r}: choose one of {', '.join(sorted(POLICIES))}") from None


COST_MODELS: dict[str, Callable[[StepTime], CostModel]] = {
    "engine-time": EngineTime,
    "kv-token-time": lambda _: KVTokenTimeCost(),
    "weighted-tokens": lambda _: WeightedTokens(),
    "profiled": lambda _: ProfiledCost(),
}


def build_cost_model(name: str, step_time: StepTime) -> CostModel:
    """The cost model of that name; `step_time` is the engine's. Raises ValueError that lists the names it knows."""
    try:
        return COST_MODELS[name](step_time)
    except KeyError:
        raise ValueError(f"unknown cost model {name!r}: choose one of {', '.join(COST_MODELS)}") from None
