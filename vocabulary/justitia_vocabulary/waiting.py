"""Why a request waits."""

from enum import StrEnum


class WaitingReason(StrEnum):
    """Why a request waits, in front of the engine or inside it."""

    TENANT_LIMIT = "TenantLimit"
    """Its tenant runs as many requests as its limit allows."""
    TENANT_NOT_BEGUN = "TenantNotBegun"
    """The engine takes long to begin with its tenant's last requests, and is given no more of them meanwhile."""
    ENGINE_UNAVAILABLE = "EngineUnavailable"
    """The engine does not answer."""
    ENGINE_BUSY = "EngineBusy"
    """It is next; the engine has not begun the last requests it was given, its batch is full, or its last step had no
    tokens left for it.
    """
    NO_KV_SPACE = "NoKVSpace"
    """It is next; it does not fit into the KV space that is free in the engine."""
    TENANT_GATED = "TenantGated"
    """Its tenant is ahead of its share; others catch up first."""
    APPLICATION_HELD_BACK = "ApplicationHeldBack"
    """Another application of its tenant goes first: one of a higher priority, one that waited for long, or one that has
    had less than its part.
    """
    BEHIND_OTHERS = "BehindOthers"
    """Others come first in the policy's order."""
    BEING_PREPARED = "BeingPrepared"
    """The engine compiles the grammar that its output is to follow."""
    NOT_TOLD = "NotTold"
    """It is on its way: the engine has not said yet that it has it."""
