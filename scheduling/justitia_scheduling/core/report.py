"""What a policy says of itself."""

from dataclasses import dataclass

from justitia_vocabulary.units import KVTokenTime, Seconds


@dataclass(frozen=True, slots=True)
class PolicyReport:
    """None: the policy has no such thing. Burst, and what the engine can hold, are in the cost model's unit, gamma in
    1/s; prefill and decode are engine seconds for each token.
    """

    virtual_time: KVTokenTime | None = None
    burst: float | None = None
    in_engine: float | None = None
    gamma: float | None = None
    gamma_estimate: float | None = None
    prefill_time: Seconds | None = None
    decode_time: Seconds | None = None
