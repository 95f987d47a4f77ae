"""What a pool's configuration makes of a policy, for the plug-in inside the engine and for the order in front of it."""

from justitia_api.config import PoolConfig, SchedulingConfig
from justitia_channel.messages import Configure, Share
from justitia_scheduling.core.cost import KVTokenTimeCost
from justitia_scheduling.policies.registry import build_policy
from justitia_vocabulary.policies import Knob


def configured_knobs(scheduling: SchedulingConfig, gamma: tuple[float, float] | None = None) -> dict[Knob, float]:
    """The knobs of the configured policy that are set: by the configuration, and to the bounds of gamma, in 1/s, where
    there are any.
    """
    knobs: dict[Knob, float] = {}
    if scheduling.burst_seconds is not None:
        knobs[Knob.BURST] = scheduling.burst_seconds
    if scheduling.heartbeat_seconds is not None:
        knobs[Knob.HEARTBEAT] = scheduling.heartbeat_seconds
    if scheduling.stretch is not None:
        knobs[Knob.STRETCH] = scheduling.stretch
    if scheduling.boost is not None:
        knobs[Knob.HYSTERESIS] = scheduling.boost.hysteresis
    if gamma is not None:
        knobs[Knob.GAMMA_FLOOR], knobs[Knob.GAMMA_CEILING] = gamma
    known = build_policy(scheduling.policy, KVTokenTimeCost()).knobs
    return {knob: value for knob, value in knobs.items() if knob in known}


def engine_configuration(config: PoolConfig, gamma: tuple[float, float] | None) -> Configure:
    """What the plug-in gets. `gamma` are the bounds of gamma, in 1/s."""
    scheduling = config.scheduling
    return Configure(
        config.generation,
        scheduling.policy,
        scheduling.cost_model,
        {tenant.name: tenant.weight for tenant in config.tenants},
        {knob.value: value for knob, value in configured_knobs(scheduling, gamma).items()},
        {application.id: Share(application.weight, application.priority) for application in config.applications},
        pooled=config.valkey is not None,
    )
