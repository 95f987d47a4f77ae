"""Justitia/C, the paper's ablation: Justitia with compute in place of KV token-time as a run's cost.

Source: Justitia, section V-D. Cost of a request: p + 2d (VTC's weighted tokens), of a run the sum over its
requests. Virtual time advances by the same unit: one for each prompt token processed, two for each token produced,
so that tags and service agree. C_j is `predicted_prompt + 2 predicted_output`, else the application's censored mean
of p + 2d; a prediction in KV token-time says nothing about it. Tokens processed again after a preemption do not count.
"""

from typing import ClassVar

from justitia_scheduling.core.cost import Work
from justitia_scheduling.core.model import Run
from justitia_scheduling.policies.justitia import Justitia
from justitia_vocabulary.units import KVTokenTime

OUTPUT_WEIGHT = 2.0


class JustitiaC(Justitia):
    """The key of a run is its virtual finish time in p + 2d."""

    first_estimate: ClassVar[float] = 2_000.0
    """p + 2d of a short agent run, 4 calls with 400 prompt and 50 output tokens each."""

    def predicted(self, run: Run) -> float | None:
        if run.predicted_prompt is None or run.predicted_output is None:
            return None
        return run.predicted_prompt + OUTPUT_WEIGHT * run.predicted_output

    def run_cost(self, work: Work, kv_token_time: KVTokenTime) -> float:
        return work.progress.prefilled + OUTPUT_WEIGHT * work.progress.produced
