"""How long an engine's steps take. Seconds and tokens.

`a10g-llama2-7b`: Llama-2-7B on an A10G as measured for VTC (Sheng et al. 2024) with its S-LoRA engine: separate prefill
steps, ten decode steps between looks at the queue, admission by the peak of the batch's KV, M = 10,000 tokens. It is
the only profile that was checked end to end against measured runs (tests/unit/simulator/test_validation.py).
"""

from dataclasses import dataclass

from justitia_scheduling.cost import StepTime
from justitia_scheduling.model import Seconds, Tokens
from justitia_simulator.occupancy import Admission


@dataclass(frozen=True, slots=True)
class EngineProfile:
    """Step times of one model on one accelerator, and how the engine's loop looks at the queue.

    A decode step takes `decode.per_step + decode.per_token * batch + decode.per_kv_token * KV tokens read`, a prefill
    step `prefill.per_step + prefill.per_token * prompt tokens`, both `overhead` more. New requests are considered every
    `decode_steps_per_admission` decode steps and when nothing runs.
    """

    name: str
    decode: StepTime
    prefill: StepTime
    overhead: Seconds
    kv_tokens: Tokens
    admission: Admission = Admission.RESERVE
    decode_steps_per_admission: int = 1

    def prefill_time(self, tokens: Tokens) -> Seconds:
        return self.overhead + self.prefill.per_step + self.prefill.per_token * tokens

    def decode_time(self, batch: int, kv_tokens: Tokens, steps: int) -> Seconds:
        """Duration of `steps` decode steps of an unchanged batch that holds `kv_tokens` before the first."""
        read = kv_tokens * steps + batch * steps * (steps - 1) // 2
        per_step = self.overhead + self.decode.per_step + self.decode.per_token * batch
        return per_step * steps + self.decode.per_kv_token * read

    @property
    def charge(self) -> StepTime:
        """Coefficients for splitting a step's duration over its requests."""
        return StepTime(self.decode.per_step + self.overhead, self.decode.per_token, self.decode.per_kv_token)


PROFILES = {
    "a10g-llama2-7b": EngineProfile(
        name="a10g-llama2-7b",
        decode=StepTime(per_step=16.3e-3, per_token=0.244e-3, per_kv_token=0.00202e-3),
        prefill=StepTime(per_step=52e-3, per_token=0.2115e-3, per_kv_token=0.0),
        overhead=3e-3,
        kv_tokens=10_000,
        admission=Admission.PEAK,
        decode_steps_per_admission=10,
    )
}


def find_profile(name: str) -> EngineProfile:
    """The profile of that name. Raises ValueError that lists the names it knows."""
    try:
        return PROFILES[name]
    except KeyError:
        raise ValueError(f"unknown engine {name!r}: choose one of {', '.join(sorted(PROFILES))}") from None
