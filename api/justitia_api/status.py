"""What a pool's sidecar reports about itself at `/internal/status` and `/internal/queue` on its admin port.

The operator reads these into the status of resources, the command line into its live table. Whoever can run a pod with
the pool's labels can report anything, so the numbers that the operator computes with have limits here.
"""

from typing import Annotated

from pydantic import Field, model_validator

from justitia_api.conditions import Condition
from justitia_api.config import BoostMode, Digest, Document, ObjectiveConfig
from justitia_vocabulary.policies import CostModelName, PolicyName
from justitia_vocabulary.waiting import WaitingReason

Count = Annotated[int, Field(ge=0, le=10**12)]
Sum = Annotated[float, Field(ge=0, le=1e15, allow_inf_nan=False)]
Bucket = Annotated[int, Field(ge=-1000, le=1000)]
"""Of a `Sketch`, which has none beyond."""
MOST_BUCKETS = 2001


class Quantiles(Document):
    """Of the recent past, in seconds; None until something was measured."""

    p50: float | None = None
    p99: float | None = None


class TenantReport(Document):
    name: str
    weight: float
    service: float = Field(description="Charged since the start or the last change of cost model, in its unit")
    share: float | None = Field(description="Of the pool's service over the window; None if nothing was served")
    entitled_share: float | None = Field(
        description="By weight among the active, averaged over the same window; None under a policy without weights"
    )
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


class PlugInStatus(Document):
    """What is known about the plug-in inside the engine. None: it has not reported since it was started."""

    connected: bool
    vllm: str | None = Field(description="The engine's version")
    generation: int | None = Field(description="Of the configuration that it orders by")
    dismissed: bool = Field(description="Its policy has failed, and requests are served in the order of arrival")
    failures: int = Field(description="Of the policy, since the engine's start")
    last_failure: str | None


class ErrorSums(Document):
    """Over runs that two predictions were made of, with errors |ln(predicted / cost)|. Sums of several pods add up."""

    runs: Count = 0
    error: Sum = Field(default=0.0, description="The model's")
    baseline: Sum = Field(default=0.0, description="Of what it is compared with, on the same runs")
    squared_difference: Sum = Field(default=0.0, description="Squares of baseline minus error, run by run")

    def __add__(self, other: "ErrorSums") -> "ErrorSums":
        # The limits are one pod's, not those of a sum.
        return ErrorSums.model_construct(
            runs=self.runs + other.runs,
            error=self.error + other.error,
            baseline=self.baseline + other.baseline,
            squared_difference=self.squared_difference + other.squared_difference,
        )


class ModelStatus(Document):
    """A version that predicts. A version in effect is compared with the running mean, a candidate with the version in
    effect, or with the running mean where there is none.
    """

    version: Digest
    loaded: bool
    problem: str | None = Field(default=None, description="Why it is not loaded")
    unusable: bool = Field(default=False, description="It never will be: it is damaged, or of other features")
    since_start: ErrorSums = Field(default=ErrorSums(), description="Since it came to this pod in this role")
    recent: ErrorSums = Field(default=ErrorSums(), description="Over the window in which drift is looked for")


class LearningStatus(Document):
    """What one sidecar learned of an application."""

    namespace: str
    name: str
    samples: Count | None = Field(default=None, description="In the store, of all pods; None until it was looked at")
    version: ModelStatus | None = None
    candidate: ModelStatus | None = None


class PartCounts(Document):
    """Values of a part of an objective's window, and how many of them miss its bound."""

    total: Count
    missed: Count

    @model_validator(mode="after")
    def _no_more_than_all(self) -> "PartCounts":
        if self.missed > self.total:
            raise ValueError("missed must be at most total")
        return self


class ObjectiveCounts(Document):
    """What one sidecar saw of an objective: counts that add up over pods, and what no gamma can help."""

    namespace: str
    name: str
    objective: ObjectiveConfig
    counted: tuple[PartCounts, ...] = Field(
        description="Over the parts of the window (`attainment.PARTS`), the whole one first"
    )
    values: tuple[tuple[Bucket, Count], ...] = Field(
        max_length=MOST_BUCKETS,
        description="Of the whole window, in seconds: buckets of a sketch, and counts",
    )
    unattainable: bool = Field(default=False, description="It is missed, and no gamma that is allowed meets it")
    opposed: bool = Field(default=False, description="Because another objective asks for the opposite")


class BoostStatus(Document):
    """Gamma, in 1/s."""

    mode: BoostMode
    gamma: float = Field(ge=0, le=1e9, allow_inf_nan=False, description="In effect")
    estimate: float = Field(description="Equation 9's, whatever the bounds")
    floor: float
    ceiling: float
    needed: float | None = Field(
        default=None, description="Engines that the load of this one needs so that its objectives hold; an estimate"
    )
    replicas: int | None = Field(
        default=None,
        ge=1,
        le=10**6,
        description="That would hold what is unattainable here, in the place of this one; an estimate",
    )


class PoolStatus(Document):
    """One sidecar's view of its pool."""

    namespace: str
    name: str
    generation: int = Field(ge=0, lt=2**63, description="Of the configuration in effect")
    documents: Digest | None = Field(
        default=None, description="`digest_of` configuration and key table as they were given; None: not reported"
    )
    not_understood: str = Field(
        default="", description="What of the configuration is of another release, and stays as it was before"
    )
    policy: PolicyName
    cost_model: CostModelName
    cost_unit: str
    engine_ready: bool
    draining: bool
    kv_capacity_tokens: int | None = Field(description="None until the engine has reported it")
    kv_reserved_tokens: int
    open_runs: int
    window_seconds: float = Field(description="Length of the window of the shares below")
    gate: GateStatus | None
    engine_scheduler: PlugInStatus | None = Field(
        default=None, description="None where the order is kept in front of the engine"
    )
    conditions: tuple[Condition, ...] = Field(
        default=(), description="Observed generations are those of the configuration"
    )
    tenants: tuple[TenantReport, ...]
    learning: tuple[LearningStatus, ...] = Field(default=(), description="Of applications that are learned from")
    objectives: tuple[ObjectiveCounts, ...] = Field(default=(), description="Of applications that declare any")
    boost: BoostStatus | None = Field(default=None, description="None until the engine reports a policy with gamma")


class QueuedRequest(Document):
    """A waiting request. `position` counts from 1; prompt tokens may be an estimate.

    Tenant and application are empty where the engine got a request without a ticket, or with one that came too late.
    """

    position: int
    rank: int | None = Field(description="In the policy's order, from 1; None: the policy does not know of it")
    order_key: dict[str, float] = Field(
        description="What decides its rank, most significant part first; the smaller goes first"
    )
    request: str
    tenant: str
    application: str
    run: str
    run_name: str | None = Field(
        default=None, description="As its client gave it; None: it gave none, or no ticket came"
    )
    sequences: int = Field(description="Of the request that wait")
    preemptions: int = Field(description="Times it has lost its KV space")
    waiting_seconds: float = Field(description="Since its arrival")
    prompt_tokens: int
    reserved_tokens: int | None = Field(description="KV tokens; None where nothing is reserved, inside the engine")
    reason: WaitingReason


class QueueStatus(Document):
    waiting: int
    requests: tuple[QueuedRequest, ...] = Field(description="In order; at most the first thousand")
