"""What a policy says of itself."""

from dataclasses import dataclass

from justitia_vocabulary.units import KVTokenTime, Seconds


@dataclass(frozen=True, slots=True)
class PolicyReport:
    """A field is None if the policy has no such thing. `burst` (B), `slack`, the largest that a waiting tenant has
    allowed of late, and `in_engine` (U) are in the cost model's unit; gamma and its estimate in 1/s; `prefill_time` and
    `decode_time` are engine seconds per token.
    """

    virtual_time: KVTokenTime | None = None
    burst: float | None = None
    slack: float | None = None
    in_engine: float | None = None
    gamma: float | None = None
    gamma_estimate: float | None = None
    prefill_time: Seconds | None = None
    decode_time: Seconds | None = None
