"""What the plug-in inside the engine is told of a pool's configuration."""

from justitia_api.config import PoolConfig
from justitia_channel.messages import Configure


def engine_configuration(config: PoolConfig, gamma: tuple[float, float] | None) -> Configure:
    """`gamma`: its bounds, in 1/s."""
    scheduling = config.scheduling
    return Configure(
        config.generation,
        scheduling.policy,
        scheduling.cost_model,
        {tenant.name: tenant.weight for tenant in config.tenants},
        None if gamma is None else list(gamma),
        None if scheduling.boost is None else scheduling.boost.hysteresis,
        scheduling.burst_seconds,
    )
