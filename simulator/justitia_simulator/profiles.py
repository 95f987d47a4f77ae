"""Engines by name or from a file: how long steps take, how much KV there is, and how the loop looks at its queue.

Only `a10g-llama2-7b` was checked end to end against measured runs (tests/unit/simulator/test_validation.py): it is the
engine of VTC's authors (Sheng et al. 2024, on S-LoRA) with separate prefill steps, ten decode steps after an admission
before the queue is looked at again, admission by the peak of the batch's KV, and M = 10,000 tokens. Its step times are
a least-squares fit to the measured pace of decoding of 7,941 requests in seven of those runs, with 2 to 25 requests
decoding at once: each request's pace comes out within about 1 %. They are plausible: an A10G (600 GB/s) cannot read
13.5 GB of weights in less than 22.5 ms, nor a token's 0.524 MB of KV in less than 0.87 microseconds.
`a10g-llama2-7b-vllm` has its step times and vLLM's habits. The others are put together from measured parts: the linear
layers of Llama-2-7B on one GPU (the profiling data of Vidur, Agrawal et al. 2024), and KV reads and overhead per step
that are inferred, not measured.

KV space of those: Llama-2-7B in fp16 has 2 (K and V) * 32 layers * 4,096 * 2 bytes = 0.524 MB of KV a token and 13.5 GB
of weights. Of 90 % of the GPU's memory (vLLM's default), less weights and about 1 GB for activations:
40 GB: (36 - 14.5) / 0.000524 = 41,000 tokens; 80 GB: (72 - 14.5) / 0.000524 = 109,700. Rounded down to blocks of 16.

`a100-80g-llama3-8b` is for long contexts: Llama-3-8B shares K and V among four heads, so a token takes a quarter of the
space, 0.131 MB, and of the time to read it; (72 - 16.1 - 1) / 0.000131 = 419,000 tokens. Its linear layers are from the
same data. Attention, which prompts of 100,000 tokens spend more on than on the layers, takes 4 * 4,096 * 32 operations
for each token before a token; at 180 TFLOPS, about what FlashAttention-2 gets of an A100 (inferred), that is 2.9 ns.
It has a prefix cache; to simulate another engine with one, write its profile to a file.
"""

from enum import Enum
from pathlib import Path
from typing import Annotated

import msgspec

from justitia_scheduling.core.cost import StepTime
from justitia_simulator.files import write_bytes
from justitia_simulator.occupancy import AdmissionRule
from justitia_simulator.timing import Coefficients, LayerTiming, SeparateTiming, Time, Timing
from justitia_vocabulary.units import Tokens

Count = Annotated[int, msgspec.Meta(ge=1)]


class ProfileError(ValueError):
    """A profile's file cannot be used. The text is `file: what is wrong and in which field`."""


class Preemption(Enum):
    """What becomes of a preempted request's KV."""

    RECOMPUTE = "recompute"
    """It is dropped: prompt and output so far are prefilled again."""
    SWAP = "swap"
    """It is moved to the host's memory and back, at `swap_per_token` each way."""


class Front(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A gateway that keeps the queue in front of an engine, as the sidecar does (`front.py`).

    It looks at its queue whenever a request comes, begins or ends, also in the middle of a step. What it hands over can
    take part in steps that begin `latency` seconds later: all that a request passes outside the engine, there and back.
    """

    latency: Time = 0.0


class EngineProfile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One model on one accelerator.

    `kv_tokens` is the KV space M in tokens, handed out in blocks of `block_size` tokens. With a `token_budget`, a step
    mixes one token for each decoding request with prompt tokens up to that many; without, prompts are prefilled whole,
    in steps of their own. New requests are considered when nothing runs, and from `decode_steps_per_admission` decode
    steps after the last admission on before every step; at most `max_requests` run at once. The step after a request
    is first admitted takes `per_request` longer: what a request costs outside the engine that others must wait for.
    Each prompt token takes `per_attended` longer for every token of its prompt before it: what attention adds to a
    timing that is linear in prompt tokens. With a `front`, that one keeps the policy's order. Only where admission is
    OPTIMISTIC are requests ever preempted. With `prefix_cache`, prefixes that nobody holds stay until their blocks are
    needed. With `keep_paused`, a run's context is kept for its next request (`KeptContexts`).
    `validated`: the profile was checked end to end against measured runs.
    """

    name: str
    timing: Timing
    kv_tokens: Count
    block_size: Count = 1
    admission: AdmissionRule = AdmissionRule.RESERVE
    token_budget: Count | None = None
    max_requests: Count | None = None
    preemption: Preemption = Preemption.RECOMPUTE
    swap_per_token: Time = 0.0
    per_request: Time = 0.0
    per_attended: Time = 0.0
    front: Front | None = None
    prefix_cache: bool = False
    keep_paused: bool = False
    decode_steps_per_admission: Count = 1
    validated: bool = False

    def __post_init__(self) -> None:
        if self.admission is AdmissionRule.PEAK and (self.block_size > 1 or self.token_budget is not None):
            raise ValueError("admission 'peak' needs block_size 1 and no token_budget: it counts on steps in unison")
        if self.token_budget is not None and self.decode_steps_per_admission > 1:
            raise ValueError("decode_steps_per_admission must be 1 with a token_budget: every step may admit")
        if self.front is not None and (self.token_budget is None or self.admission is not AdmissionRule.OPTIMISTIC):
            raise ValueError(
                "a front needs a token_budget and admission 'optimistic': it leaves KV space to the engine"
            )
        if self.keep_paused and (self.admission is not AdmissionRule.OPTIMISTIC or not self.prefix_cache):
            raise ValueError("keep_paused needs a prefix_cache and admission 'optimistic': it keeps what that finds")
        if self.keep_paused and self.front is not None:
            raise ValueError("keep_paused needs the order inside the engine: a front cannot keep KV")

    def rereading(self, tokens: Tokens, kv_tokens: Tokens) -> float:
        """In how many iterations of a full engine of that KV space a token of so long a context is read again."""
        charge = self.charge
        seconds = charge.per_token + self.per_attended * tokens / 2
        return seconds / charge.per_kv_token_time(kv_tokens)

    @property
    def charge(self) -> StepTime:
        """Coefficients for splitting a step's duration over its requests."""
        return self.timing.charge


_A10G = SeparateTiming(
    decode=Coefficients(per_step=30e-3, per_token=0.08e-3, per_kv_token=0.00107e-3),
    prefill=Coefficients(per_step=40e-3, per_token=0.25e-3),
)
_A100_LAYERS = (
    (64, 9.3e-3), (128, 12.2e-3), (256, 17.8e-3), (512, 33.4e-3), (1024, 67.9e-3), (2048, 133.4e-3), (4096, 258.4e-3),
)  # fmt: skip
_A100_LLAMA3_LAYERS = (
    (64, 11.2e-3), (128, 13.2e-3), (256, 19.5e-3), (512, 34.6e-3), (1024, 75.1e-3), (2048, 141.8e-3), (4096, 272.9e-3),
)  # fmt: skip
_H100_LAYERS = (
    (64, 5.7e-3), (128, 6.4e-3), (256, 9.2e-3), (512, 12.0e-3), (1024, 21.0e-3), (2048, 40.3e-3), (4096, 83.5e-3),
)  # fmt: skip


def _vllm(name: str, timing: Timing, kv_tokens: Tokens, swap_per_token: float = 0.0) -> EngineProfile:
    """A profile with vLLM V1's habits and defaults, but for the prefix cache."""
    return EngineProfile(
        name,
        timing,
        kv_tokens,
        block_size=16,
        admission=AdmissionRule.OPTIMISTIC,
        token_budget=2048,
        max_requests=256,
        swap_per_token=swap_per_token,
    )


PROFILES = {
    p.name: p
    for p in (
        EngineProfile(
            "a10g-llama2-7b", _A10G, 10_000, admission=AdmissionRule.PEAK, decode_steps_per_admission=10, validated=True
        ),
        EngineProfile(
            "a10g-llama2-7b-vllm", _A10G, 7_344, block_size=16, admission=AdmissionRule.OPTIMISTIC, max_requests=256
        ),
        _vllm("a100-40g-llama2-7b", LayerTiming(_A100_LAYERS, 3.8e-7, 7.5e-3), 41_008, swap_per_token=0.04e-3),
        _vllm("a100-80g-llama2-7b", LayerTiming(_A100_LAYERS, 3.0e-7, 7.5e-3), 109_696),
        msgspec.structs.replace(
            _vllm("a100-80g-llama3-8b", LayerTiming(_A100_LLAMA3_LAYERS, 0.75e-7, 7.5e-3), 419_152),
            per_attended=2.9e-9,
            prefix_cache=True,
        ),
        _vllm("h100-llama2-7b", LayerTiming(_H100_LAYERS, 1.8e-7, 7.5e-3), 109_696),
    )
}


def in_chunks(profile: EngineProfile, token_budget: Tokens) -> EngineProfile:
    """The same engine mixing prompts with decoding. It looks at its queue before every step then; where it admitted by
    the peak, which counts on steps in unison, it reserves."""
    admission = AdmissionRule.RESERVE if profile.admission is AdmissionRule.PEAK else profile.admission
    return msgspec.structs.replace(
        profile, token_budget=token_budget, admission=admission, decode_steps_per_admission=1, validated=False
    )


def find_profile(name: str) -> EngineProfile:
    """The profile of that name, or of the file if it ends in `.json`.

    Raises ValueError that lists the names it knows, ProfileError for a file's content, OSError for the file.
    """
    if name.endswith(".json"):
        return read_profile(Path(name))
    try:
        return PROFILES[name]
    except KeyError:
        known = ", ".join(sorted(PROFILES))
        raise ValueError(f"unknown engine {name!r}: choose one of {known}, or a profile's file (.json)") from None


def read_profile(path: Path) -> EngineProfile:
    """The profile that the file holds. Raises ProfileError or OSError."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=EngineProfile)
    except msgspec.DecodeError as error:
        raise ProfileError(f"{path}: {error}") from None


def write_profile(profile: EngineProfile, path: Path) -> None:
    """Replace the file at once."""
    write_bytes(path, msgspec.json.format(msgspec.json.encode(profile), indent=2) + b"\n")
