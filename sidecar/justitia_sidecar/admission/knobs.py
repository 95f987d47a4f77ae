"""The knobs of a pool's policy, as its configuration sets them."""

from justitia_api.config import SchedulingConfig
from justitia_vocabulary.policies import Knob


def configured_knobs(scheduling: SchedulingConfig, gamma: tuple[float, float] | None = None) -> dict[Knob, float]:
    """What the configuration names, and the bounds of gamma, in 1/s, where somebody sets them."""
    knobs: dict[Knob, float] = {}
    if scheduling.burst_seconds is not None:
        knobs[Knob.BURST] = scheduling.burst_seconds
    if scheduling.boost is not None:
        knobs[Knob.HYSTERESIS] = scheduling.boost.hysteresis
    if gamma is not None:
        knobs[Knob.GAMMA_FLOOR], knobs[Knob.GAMMA_CEILING] = gamma
    return knobs
