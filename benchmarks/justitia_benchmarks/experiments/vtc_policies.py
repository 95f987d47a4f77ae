"""The policies that the VTC paper compares, by the names of its tables, and the cost of its section B.2."""

from collections.abc import Sequence
from dataclasses import dataclass

from justitia_scheduling.cost import CostModel, Work
from justitia_scheduling.model import Seconds, Tokens
from justitia_scheduling.policy import Policy
from justitia_scheduling.registry import build_policy
from justitia_simulator.fairness import profiled_cost
from justitia_simulator.prediction import MEAN, Prediction


@dataclass(frozen=True)
class Contender:
    """A policy and what it is told."""

    policy: Policy
    prediction: Prediction = MEAN


def contender(name: str, cost_model: CostModel, seed: int) -> Contender:
    return Contender(build_policy("vtc" if name == "vtc-weighted" else name, cost_model))


class ProfiledCost:
    """Charges h(p, 0) at admission and h's increment for every output token (section 4.2)."""

    unit = "profiled cost"
    largest_burst = float("inf")

    def in_engine(self, capacity: Tokens, longest_output: Tokens) -> float:
        return capacity * max(profiled_cost(1, 0), profiled_cost(0, longest_output) / longest_output)

    def admission(self, prompt_tokens: Tokens) -> float:
        return profiled_cost(prompt_tokens, 0)

    def step(self, work: Sequence[Work], duration: Seconds | None, running: int) -> list[float]:
        return [
            profiled_cost(w.prompt_tokens, w.produced_before + w.progress.produced)
            - profiled_cost(w.prompt_tokens, w.produced_before)
            for w in work
        ]
