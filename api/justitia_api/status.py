"""What a pool's sidecar reports about itself at `/internal/status` and `/internal/queue` on its admin port.

The operator reads these into the status of resources, the command line into its live table.
"""

from enum import StrEnum

from pydantic import Field

from justitia_api.config import CostModelName, Document, PolicyName


class WaitingReason(StrEnum):
    """Why a request waits."""

    TENANT_LIMIT = "TenantLimit"
    """Its tenant runs as many requests as its limit allows."""
    ENGINE_UNAVAILABLE = "EngineUnavailable"
    """The engine does not answer."""
    ENGINE_BUSY = "EngineBusy"
    """It is next; the engine has not begun the last requests it was given."""
    NO_KV_SPACE = "NoKVSpace"
    """It is next; its prompt and predicted output do not fit into the KV space that is free."""
    TENANT_GATED = "TenantGated"
    """Its tenant is ahead of its share; others catch up first."""
    BEHIND_OTHERS = "BehindOthers"
    """Others come first in the policy's order."""


class Quantiles(Document):
    """Of the recent past, in seconds; None until something was measured."""

    p50: float | None = None
    p99: float | None = None


class TenantStatus(Document):
    name: str
    weight: float
    service: float = Field(description="Charged since the start or the last change of cost model, in its unit")
    share: float | None = Field(description="Of the pool's service over the window; None if nothing was served")
    entitled_share: float | None = Field(description="By weight among the active, averaged over the same window")
    queued: int
    running: int
    time_to_first_token: Quantiles = Quantiles()


class GateStatus(Document):
    """How far tenants may drift from their shares under TieredJustitia, in units of the cost model.

    Over any time in which tenants f and g both wait, service per weight differs by at most
    2 * burst + in_engine / weight_f + in_engine / weight_g.
    """

    burst: float
    in_engine: float


class PoolStatus(Document):
    """One sidecar's view of its pool."""

    namespace: str
    name: str
    generation: int = Field(description="Of the configuration in force")
    policy: PolicyName
    cost_model: CostModelName
    cost_unit: str
    engine_ready: bool
    draining: bool
    kv_capacity_tokens: int | None = Field(description="None until the engine has told it")
    kv_reserved_tokens: int
    open_runs: int
    window_seconds: float = Field(description="Length of the window of the shares below")
    gate: GateStatus | None
    tenants: tuple[TenantStatus, ...]


class QueuedRequest(Document):
    """A waiting request. `position` counts from 1; prompt tokens may be an estimate."""

    position: int
    request: str
    tenant: str
    application: str
    waiting_seconds: float
    prompt_tokens: int
    reserved_tokens: int
    reason: WaitingReason


class QueueStatus(Document):
    waiting: int
    requests: tuple[QueuedRequest, ...] = Field(description="In order; at most the first thousand")
