"""LLMApplication: whose requests belong together, who pays for them, and which pool serves them."""

from typing import Annotated, ClassVar, Literal

from pydantic import AwareDatetime, Field, model_validator

from justitia_api.config import Document, ServiceLevelObjective
from justitia_api.learning import PredictorSpec, PredictorStatus
from justitia_api.pool import ServingPoolSpec
from justitia_api.resource import (
    AGE,
    WEIGHT_RANGE,
    WEIGHT_RULE,
    Column,
    Definition,
    LocalReference,
    PoolReference,
    Resource,
    ResourceStatus,
    Weight,
    condition_column,
    in_weight_range,
    reason_column,
    rules,
)
from justitia_api.slo import MOST_OBJECTIVES, OBJECTIVE_RULES, OBJECTIVES, SLOStatus
from justitia_vocabulary.objectives import BeyondObjective


class RunSpec(Document):
    """When a run of the application ends without the client saying so; a later request begins a new run."""

    idle_timeout_seconds: Annotated[
        int, Field(ge=1, le=86_400, description="Time without requests after which a run ends, in seconds.")
    ] = 60
    maximum_age_seconds: Annotated[
        int, Field(ge=1, le=604_800, description="Age at which a run ends, whatever it is doing, in seconds.")
    ] = 3600
    maximum_cost: Annotated[
        int | None,
        Field(ge=1, le=2**53, description="Cost at which a run ends, in KV token-time; unlimited if unset."),
    ] = None


class ShareSpec(Document):
    """How the application shares its tenant's service with the tenant's other applications in the pool."""

    weight: Annotated[
        Weight,
        Field(
            json_schema_extra=WEIGHT_RULE,
            description="The application's share of its tenant's service relative to the tenant's other applications "
            f"of the same priority: a decimal number {WEIGHT_RANGE}. Where all of a tenant's applications have the "
            "same weight, one may be ahead of another by the pool's burstSeconds if its runs are smaller.",
        ),
    ] = "1"
    priority: Annotated[
        int,
        Field(
            ge=-10,
            le=10,
            description="The tenant's applications of a higher priority go before those of a lower one. In each "
            "heartbeat of the pool, the one of these that has waited longest for an admission goes first once.",
        ),
    ] = 0

    @model_validator(mode="after")
    def _in_range(self) -> "ShareSpec":
        if not in_weight_range(self.weight):
            raise ValueError(f"share.weight must be {WEIGHT_RANGE}")
        return self


class LLMApplicationSpec(Document):
    """Whom the application is served for, which pool serves it, and when its runs end."""

    tenant_ref: Annotated[
        LocalReference,
        Field(
            json_schema_extra=rules(
                ("self == oldSelf", "tenantRef cannot be changed: create a new LLMApplication for another tenant")
            ),
            description="The Tenant that the application's requests are charged to.",
        ),
    ]
    pool_ref: Annotated[
        PoolReference | None,
        Field(description="The ServingPool that serves the application. Must not be set together with pool."),
    ] = None
    pool: Annotated[
        ServingPoolSpec | None,
        Field(
            description="A ServingPool that belongs to the application and gets its name. Must not be set together "
            "with poolRef."
        ),
    ] = None
    share: Annotated[
        ShareSpec,
        Field(
            description="How the application shares its tenant's service with the tenant's other applications in the "
            "pool. It counts under policy TieredJustitia only, and takes nothing from other tenants."
        ),
    ] = ShareSpec()
    run: Annotated[RunSpec, Field(description="When runs end.")] = RunSpec()
    predictor: Annotated[
        PredictorSpec | None,
        Field(
            description="Learns what the application's runs cost, and predicts the cost at a run's first request. The "
            "pool must have a store (learning.store). When unset, the mean cost of finished runs is expected."
        ),
    ] = None
    slo: Annotated[
        tuple[Annotated[ServiceLevelObjective, Field(json_schema_extra=OBJECTIVE_RULES)], ...],
        Field(
            max_length=MOST_OBJECTIVES,
            json_schema_extra=OBJECTIVES,
            description="Objectives for the application's latency. In a pool with policy TieredJustitia requests are "
            "ordered so that objectives for single requests are met, inside the tenant's share; with policy UniBoost "
            "without regard to tenants. Under other policies objectives are counted, and change nothing.",
        ),
    ] = ()
    beyond_objective: Annotated[
        BeyondObjective,
        Field(
            description="What becomes of a request that is expected to miss an objective for first tokens or for its "
            "completion when it arrives, in a pool with policy TieredJustitia. Say: it is served as any other, and its "
            "answer has the header x-justitia-beyond-objective, which says what is expected. Defer: the same, but it "
            "takes no place from requests that can still meet the objective. Refuse: it gets 503 with Retry-After, and "
            "counts as one that missed the objective. Of several bounds for one metric the largest counts. Nothing is "
            "expected before requests of the application have finished."
        ),
    ] = BeyondObjective.SAY
    paused: Annotated[bool, Field(description="While true, what exists for the application stays as it is.")] = False

    @model_validator(mode="after")
    def _exactly_one_pool(self) -> "LLMApplicationSpec":
        if (self.pool is None) == (self.pool_ref is None):
            raise ValueError("exactly one of poolRef and pool must be set")
        return self

    @model_validator(mode="after")
    def _objectives_once(self) -> "LLMApplicationSpec":
        if len({(each.metric, each.percentile) for each in self.slo}) < len(self.slo):
            raise ValueError("slo must not have two objectives of one metric and percentile")
        return self


SPEC_RULES = rules(
    ("has(self.pool) != has(self.poolRef)", "exactly one of poolRef and pool must be set"),
    (
        "has(self.pool) == has(oldSelf.pool)",
        "poolRef and pool cannot be exchanged for each other: create a new LLMApplication",
    ),
)


class ServiceStatus(Document):
    """What the application got."""

    observed_time: Annotated[
        AwareDatetime, Field(description="When this was observed. It is updated every five minutes at most.")
    ]
    charged: Annotated[
        str,
        Field(
            max_length=24,
            pattern=r"^[0-9]+\.[0-9]$",
            description="Service that the pool's present pods have charged the application, each since its start or "
            "its last change of cost model.",
        ),
    ]
    unit: Annotated[str, Field(max_length=64, description="Unit of the service: that of the pool's cost model.")]
    share_percent: Annotated[
        int | None,
        Field(
            ge=0,
            le=100,
            description="Percentage of its tenant's service in the pool over the minute before; unset if the tenant "
            "got none.",
        ),
    ] = None


class LLMApplicationStatus(ResourceStatus):
    """What the operator observed of the application."""

    endpoint: Annotated[
        str | None,
        Field(max_length=1024, description="Base URL for OpenAI clients of the application inside the cluster."),
    ] = None
    pool: Annotated[
        str | None,
        Field(
            max_length=320,
            description="The ServingPool that serves the application, with its namespace if that is not the "
            "application's.",
        ),
    ] = None
    service: Annotated[ServiceStatus | None, Field(description="What the application got of its tenant's service.")] = (
        None
    )
    predictor: Annotated[PredictorStatus | None, Field(description="State of the application's predictor.")] = None
    slo: Annotated[SLOStatus | None, Field(description="State of the application's objectives.")] = None


class LLMApplication(Resource):
    kind: Literal["LLMApplication"]
    spec: LLMApplicationSpec

    @property
    def pool_name(self) -> str:
        return self.spec.pool_ref.name if self.spec.pool_ref else self.metadata.name

    @property
    def pool_namespace(self) -> str:
        return (self.spec.pool_ref and self.spec.pool_ref.namespace) or self.metadata.namespace

    definition: ClassVar[Definition] = Definition(
        plural="llmapplications",
        singular="llmapplication",
        short_names=("llmapp",),
        namespaced=True,
        description="An LLMApplication is a program that sends requests to a pool in runs. A run is the requests that "
        "belong to one piece of work and are finished together.",
        columns=(
            Column("Tenant", "string", ".spec.tenantRef.name", "Tenant that is charged."),
            Column("Pool", "string", ".status.pool", "Pool that serves the application."),
            condition_column("Ready", "Ready"),
            reason_column(),
            condition_column("Predictor", "PredictorReady", wide=True),
            condition_column("SLO", "SLOMet", wide=True),
            Column("Endpoint", "string", ".status.endpoint", "Base URL for OpenAI clients."),
            AGE,
        ),
        object_rules=(
            (
                "!has(self.spec.pool) || (self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$') && "
                "self.metadata.name.size() <= 50)",
                "metadata.name must be at most 50 lower case letters, digits and dashes: the pool is named after it",
            ),
        ),
    )
