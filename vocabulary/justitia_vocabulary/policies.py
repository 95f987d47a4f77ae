"""Policies and cost models by name, and what tunes them."""

from enum import StrEnum


class PolicyName(StrEnum):
    """Order of service, as resources spell it."""

    FCFS = "FCFS"
    VTC = "VTC"
    JUSTITIA = "Justitia"
    TIERED_JUSTITIA = "TieredJustitia"
    UNIBOOST = "UniBoost"
    SRPT = "SRPT"
    SJF = "SJF"


WITHOUT_WEIGHTS = (PolicyName.FCFS, PolicyName.UNIBOOST, PolicyName.SRPT, PolicyName.SJF)
"""Policies that give tenants no shares."""

INSIDE_THE_ENGINE_ONLY = (PolicyName.UNIBOOST, PolicyName.SRPT, PolicyName.SJF)
"""Policies that order single requests, token for token or preempting: the sidecar can do neither."""


WITH_GAMMA = (PolicyName.TIERED_JUSTITIA, PolicyName.UNIBOOST)
"""Policies that have gamma, which may follow objectives."""


class CostModelName(StrEnum):
    """What tenants are charged."""

    ENGINE_TIME = "EngineTime"
    KV_TOKEN_TIME = "KVTokenTime"
    WEIGHTED_TOKENS = "WeightedTokens"


class Knob(StrEnum):
    """What tunes a policy. A policy that has no such knob refuses it."""

    BURST = "burst"
    """How far a tenant may run ahead of its share at most, in the cost model's unit per unit of weight."""
    HEARTBEAT = "heartbeat"
    """How long a tenant may wait without an admission before it goes first, in seconds."""
    STRETCH = "stretch"
    """How many times its expected cost a run counts in the order of runs. It counts for runs that arrive later."""
    GAMMA_FLOOR = "gammaFloor"
    GAMMA_CEILING = "gammaCeiling"
    """Bounds of gamma, in 1/s."""
    HYSTERESIS = "hysteresis"
    """How far behind the head a running request must be to make way for it, in 1/gamma."""


LOWEST_GAMMA, HIGHEST_GAMMA = 0.001, 10.0
"""Bounds of gamma where none are given, in 1/s."""
HYSTERESIS = 2.0
"""Where none is given, in 1/gamma."""
