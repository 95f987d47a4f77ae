"""Policies and cost models by name: those that a pool may choose. `baselines.registry` adds those of the papers."""

from collections.abc import Callable, Mapping
from typing import TypeVar

from justitia_scheduling.core.cost import CostModel, EngineTime, KVTokenTimeCost, StepTime, WeightedTokens
from justitia_scheduling.core.policy import Policy
from justitia_scheduling.policies.fcfs import FCFS
from justitia_scheduling.policies.justitia import Justitia
from justitia_scheduling.policies.sjf import SJF
from justitia_scheduling.policies.srpt import SRPT
from justitia_scheduling.policies.tiered import TieredJustitia
from justitia_scheduling.policies.uniboost import UniBoost
from justitia_scheduling.policies.vtc import VTC
from justitia_vocabulary.policies import CostModelName, PolicyName

Build = TypeVar("Build")
BuildPolicy = Callable[[CostModel], Policy]
BuildCostModel = Callable[[StepTime], CostModel]

POLICIES: dict[str, BuildPolicy] = {
    PolicyName.TIERED_JUSTITIA: TieredJustitia,
    PolicyName.FCFS: FCFS,
    PolicyName.VTC: VTC,
    PolicyName.JUSTITIA: Justitia,
    PolicyName.UNIBOOST: UniBoost,
    PolicyName.SRPT: SRPT,
    PolicyName.SJF: SJF,
}
"""The default first."""

COST_MODELS: dict[str, BuildCostModel] = {
    CostModelName.ENGINE_TIME: EngineTime,
    CostModelName.KV_TOKEN_TIME: lambda _: KVTokenTimeCost(),
    CostModelName.WEIGHTED_TOKENS: lambda _: WeightedTokens(),
}


def build_policy(name: str, cost_model: CostModel, among: Mapping[str, BuildPolicy] = POLICIES) -> Policy:
    """The policy of that name with its defaults. Raises ValueError that lists the names it knows."""
    return find(name, among, "policy")(cost_model)


def build_cost_model(name: str, step_time: StepTime, among: Mapping[str, BuildCostModel] = COST_MODELS) -> CostModel:
    """The cost model of that name; `step_time` is the engine's. Raises ValueError that lists the names it knows."""
    return find(name, among, "cost model")(step_time)


def find(name: str, among: Mapping[str, Build], what: str) -> Build:
    """The entry of that name; case and dashes do not count (`tiered-justitia`). Raises ValueError."""
    for known, build in among.items():
        if folded(known) == folded(name):
            return build
    raise ValueError(f"unknown {what} {name!r}: choose one of {', '.join(sorted(among, key=folded))}")


def folded(name: str) -> str:
    return name.replace("-", "").lower()
