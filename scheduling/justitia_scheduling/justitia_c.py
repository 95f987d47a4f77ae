"""Justitia/C, the paper's ablation: Justitia with compute in place of KV token-time as a run's cost.

Source: Justitia, section V-D. Cost of a request: p + 2d (VTC's weighted tokens), of a run the sum over its
requests. Virtual time advances by the same unit: one for each prompt token processed, two for each token produced,
so that tags and service agree. C_j is `Run.predicted_compute`, else the application's censored mean of p + 2d;
a prediction in KV token-time says nothing about it. Tokens processed again after a preemption do not count.
"""

from typing import ClassVar

from justitia_scheduling.justitia import Justitia
from justitia_scheduling.model import KVTokenTime, Run, RunId, Seconds, Step

OUTPUT_WEIGHT = 2.0


class JustitiaC(Justitia):
    """Order key: (preempted first, virtual finish time in p + 2d, arrival of the run)."""

    first_estimate: ClassVar[float] = 2_000.0
    """p + 2d of a short agent run, 4 calls with 400 prompt and 50 output tokens each."""

    def predicted(self, run: Run) -> float | None:
        return run.predicted_compute

    def stepped(self, step: Step, now: Seconds) -> None:
        super().stepped(step, now)
        delivered: dict[RunId, float] = {}
        for progress in step.progress:
            run = self.requests[progress.request].run.id
            compute = progress.prefilled + OUTPUT_WEIGHT * progress.produced
            delivered[run] = delivered.get(run, 0.0) + compute
        super().on_delivered(delivered, now)

    def on_delivered(self, delivered: dict[RunId, KVTokenTime], now: Seconds) -> None:
        """KV token-time moves nothing here."""
