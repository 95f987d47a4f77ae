"""What the policies of UniBoost's tail are on an engine whose requests are `SIZE` of the recorded ones.

TRAIL+ and SJF know each output. A ticket says what a run costs; of a run with one request of p prompt tokens that is

    C = p d + d (d + 1) / 2        KV token-time

so the output d is the positive root, exact if C is the true cost. UniBoost knows nothing. Its quantum shrinks with the
lengths: a request has as many keys as one of the recorded length has.

vLLM loads this module, so it imports nothing but `scheduling` and `vocabulary`.
"""

import math
from collections.abc import Mapping

from justitia_scheduling.core.cost import CostModel
from justitia_scheduling.core.lengths import OutputLengths
from justitia_scheduling.core.opened import OpenRequest
from justitia_scheduling.policies.fcfs import FCFS
from justitia_scheduling.policies.registry import BuildPolicy
from justitia_scheduling.policies.sjf import SJF
from justitia_scheduling.policies.srpt import SRPT
from justitia_scheduling.policies.uniboost import QUANTUM, UniBoost
from justitia_vocabulary.units import KVTokenTime, Tokens

SIZE = 0.1
QUANTUM_HERE: Tokens = round(QUANTUM * SIZE)


def output_of_cost(cost: KVTokenTime, prompt_tokens: Tokens) -> float:
    """The output tokens d of a request with that cost."""
    b = prompt_tokens + 0.5
    return math.sqrt(b * b + 2 * cost) - b


class LengthsOfCosts(OutputLengths):
    """Outputs as the costs of runs with one request tell them."""

    def predicted(self, request: OpenRequest) -> float:
        cost = request.run.run.predicted_cost
        return super().predicted(request) if cost is None else output_of_cost(cost, request.request.prompt_tokens)


class TrailPlus(SRPT):
    def __init__(self, cost_model: CostModel) -> None:
        super().__init__(cost_model)
        self._lengths = LengthsOfCosts()


class ToldSJF(SJF):
    def __init__(self, cost_model: CostModel) -> None:
        super().__init__(cost_model)
        self._lengths = LengthsOfCosts()


class SmallUniBoost(UniBoost):
    def __init__(self, cost_model: CostModel) -> None:
        super().__init__(cost_model, quantum=QUANTUM_HERE)


TRAIL_PLUS, TOLD_SJF, UNIBOOST, BY_ARRIVAL = "TrailPlus", "ToldSJF", "SmallUniBoost", "FCFS"
TAIL_POLICIES: Mapping[str, BuildPolicy] = {
    BY_ARRIVAL: FCFS,
    TOLD_SJF: ToldSJF,
    TRAIL_PLUS: TrailPlus,
    UNIBOOST: SmallUniBoost,
}
