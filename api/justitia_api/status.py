"""What a pool's sidecar reports of itself, at `/internal/status` and `/internal/queue` of its admin port.

The operator writes it into the status of resources, and the command line shows it. Whoever can run a pod with the
pool's labels can report anything, so the numbers that the operator computes with have limits here.
"""

from enum import StrEnum
from typing import Annotated

from pydantic import Field, model_validator

from justitia_api.conditions import Condition
from justitia_api.config import BoostMode, Digest, Document, ServiceLevelObjective
from justitia_vocabulary.policies import CostModelName, PolicyName
from justitia_vocabulary.waiting import WaitingReason

Count = Annotated[int, Field(ge=0, le=10**12)]
Sum = Annotated[float, Field(ge=0, le=1e15, allow_inf_nan=False)]
Bucket = Annotated[int, Field(ge=-1000, le=1000)]
"""The number of a bucket of a `Sketch`, which has no others."""
MOST_BUCKETS = 2001
LONGEST_FAILURE = 300


class LimitScope(StrEnum):
    """What the limits of tenants count over, as one sidecar applies them."""

    POOL = "Pool"
    """All engines of the pool."""
    PART = "Part"
    """This engine, which has a part of each limit while it does not know what the others use: the limit divided by the
    engines that it knew last.
    """
    ENGINE = "Engine"
    """This engine, which has each limit for itself."""


class Quantiles(Document):
    """Quantiles of recent values, in seconds. None until something was measured."""

    p50: float | None = None
    p99: float | None = None


class TenantReport(Document):
    name: str
    weight: float
    service: float = Field(description="Service charged since the start or the last change of cost model, in its unit")
    share: float | None = Field(description="Share of the pool's service over the window; None if nothing was served")
    entitled_share: float | None = Field(
        description="Share by weight among active tenants, over the same window; None under a policy without weights"
    )
    queued: int
    running: int
    time_to_first_token: Quantiles = Quantiles()


class ApplicationReport(Document):
    """What one sidecar reports of an application's part in its tenant's service. Sums of several pods add up."""

    namespace: str
    name: str
    tenant: str
    weight: float
    priority: int
    service: Sum = Field(description="Service charged since the start or the last change of cost model, in its unit")
    recent: Sum = Field(default=0.0, description="Part of it that was charged in the window")
    tenant_recent: Sum = Field(default=0.0, description="What all its tenant's applications were charged in the window")

    @property
    def share(self) -> float | None:
        """Its share of its tenant's service over the window; None if the tenant got none."""
        return self.recent / self.tenant_recent if self.tenant_recent else None


class GateStatus(Document):
    """How far tenants may drift from their shares under TieredJustitia, in units of the cost model.

    Over any time in which tenants f and g both wait, service per weight differs by at most
    2 * slack + in_engine / weight_f + in_engine / weight_g.
    """

    burst: float = Field(description="The most that slack can be")
    slack: float = Field(description="How far a tenant that waits has let others be ahead of it at most, of late")
    in_engine: float = Field(description="The most that the requests in the engine can still be charged")


class PlugInStatus(Document):
    """What the sidecar knows of the plug-in inside the engine. None: it has not reported since it was started."""

    connected: bool
    vllm: str | None = Field(description="Version of the engine")
    generation: int | None = Field(description="Generation of the configuration that it orders by")
    dismissed: bool = Field(
        description="Whether its policy failed, so that requests are served in the order of arrival"
    )
    failures: int = Field(description="Failures of the policy since the engine's start")
    last_failure: str | None


class SharingStatus(Document):
    """What one sidecar knows of the others of its pool."""

    connected: bool = Field(description="Whether what it knows of them is at most some seconds old")
    others: Count = Field(description="Sidecars that it hears of; 0 while it is not connected")
    failure: str = Field(
        default="", max_length=LONGEST_FAILURE, description="Why the last attempt to hear of them failed, if it did"
    )
    passed_on: Count = Field(default=0, description="Requests that came here and were served by their engines")


class ErrorSums(Document):
    """Sums of errors |ln(predicted / cost)| over runs with two predictions each. Sums of several pods add up."""

    runs: Count = 0
    error: Sum = Field(default=0.0, description="Errors of the model")
    baseline: Sum = Field(default=0.0, description="Errors of what it is compared with, on the same runs")
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
    unusable: bool = Field(
        default=False, description="Whether it never will be loaded: it is damaged, or of other features"
    )
    since_start: ErrorSums = Field(default=ErrorSums(), description="Errors since it came to this pod in this role")
    recent: ErrorSums = Field(default=ErrorSums(), description="Errors over the window in which drift is looked for")


class LearningStatus(Document):
    """What one sidecar learned of an application."""

    namespace: str
    name: str
    samples: Count | None = Field(
        default=None, description="Samples in the store, of all pods; None until they were counted"
    )
    version: ModelStatus | None = None
    candidate: ModelStatus | None = None


class PartCounts(Document):
    """Values in a part of an objective's window, and how many of them miss its bound."""

    total: Count
    missed: Count

    @model_validator(mode="after")
    def _no_more_than_all(self) -> "PartCounts":
        if self.missed > self.total:
            raise ValueError("missed must be at most total")
        return self


class ObjectiveCounts(Document):
    """What one sidecar counted of an objective. Counts of several pods add up (`objectives.tally`)."""

    namespace: str
    name: str
    objective: ServiceLevelObjective
    counted: tuple[PartCounts, ...] = Field(
        description="Counts over the parts of the window (`attainment.PARTS`), the whole window first"
    )
    values: tuple[tuple[Bucket, Count], ...] = Field(
        max_length=MOST_BUCKETS,
        description="Values of the whole window, in seconds: buckets of a sketch, and their counts",
    )
    unattainable: bool = Field(default=False, description="Whether it is missed, and no gamma that is allowed meets it")
    opposed: bool = Field(default=False, description="Whether that is because another objective asks for the opposite")


class BoostStatus(Document):
    """Gamma and its bounds, in 1/s."""

    mode: BoostMode
    gamma: float = Field(ge=0, le=1e9, allow_inf_nan=False, description="Gamma in effect")
    estimate: float = Field(description="The estimate by equation 9, whatever the bounds")
    floor: float
    ceiling: float
    needed: float | None = Field(
        default=None, description="Engines that the load of this one needs to meet its objectives; an estimate"
    )
    replicas: int | None = Field(
        default=None,
        ge=1,
        le=10**6,
        description="Engines in place of this one that would meet what is unattainable; an estimate",
    )


class PoolStatus(Document):
    """What one sidecar reports of its pool."""

    namespace: str
    name: str
    generation: int = Field(ge=0, lt=2**63, description="Generation of the configuration in effect")
    documents: Digest | None = Field(
        default=None,
        description="`digest_of` the configuration and the key table as they were given; None: not reported",
    )
    not_understood: str = Field(
        default="",
        description="Why a part of the configuration, of another release, is not understood and stays as it was",
    )
    policy: PolicyName
    cost_model: CostModelName
    cost_unit: str
    engine_ready: bool
    draining: bool
    kv_capacity_tokens: int | None = Field(description="None until the engine has reported it")
    kv_held_tokens: int
    open_runs: int
    window_seconds: float = Field(description="Length of the window of the shares below")
    gate: GateStatus | None
    plug_in: PlugInStatus | None = Field(
        default=None, description="None where the order is kept in front of the engine"
    )
    sharing: SharingStatus | None = Field(
        default=None, description="None where the engine shares by itself, as configured"
    )
    limits_over: LimitScope = Field(
        default=LimitScope.ENGINE,
        description="What tenants' limits count over. Pool: all engines, which tell each other what they use. Part: "
        "this engine has a part of each limit, because it does not know at the moment what the others use. Engine: "
        "this engine has each limit for itself",
    )
    conditions: tuple[Condition, ...] = Field(
        default=(), description="Conditions; their observed generation is that of the configuration"
    )
    tenants: tuple[TenantReport, ...]
    applications: tuple[ApplicationReport, ...] = Field(default=(), description="The applications of the configuration")
    learning: tuple[LearningStatus, ...] = Field(
        default=(), description="Predictors of applications that are learned from"
    )
    objectives: tuple[ObjectiveCounts, ...] = Field(
        default=(), description="Counts for applications that declare objectives"
    )
    boost: BoostStatus | None = Field(default=None, description="None until the engine reports a policy with gamma")


class QueuedRequest(Document):
    """A waiting request. `position` counts from 1. Prompt tokens may be an estimate. Tenant and application are empty
    if the engine got the request without a ticket, or with one that came too late.
    """

    position: int
    rank: int | None = Field(
        description="Place in the policy's order, from 1; None: the policy does not know the request"
    )
    order_key: dict[str, float] = Field(
        description="What decides its rank, most significant part first; the smaller goes first"
    )
    request: str
    tenant: str
    application: str
    run: str
    run_name: str | None = Field(
        default=None, description="The run's id, as its client gave it; None: it gave none, or no ticket came"
    )
    sequences: int = Field(description="Sequences of the request that wait")
    preemptions: int = Field(description="How often it has lost its KV space")
    waiting_seconds: float = Field(description="Time since its arrival")
    prompt_tokens: int
    expected_tokens: int | None = Field(
        description="KV tokens that it is expected to hold at its end; None if the order is kept inside the engine"
    )
    reason: WaitingReason


class QueueStatus(Document):
    waiting: int
    requests: tuple[QueuedRequest, ...] = Field(description="Requests in order, at most the first thousand")
