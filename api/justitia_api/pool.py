"""ServingPool: engines of one model, and how their service is shared."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from justitia_api.config import (
    BURST_ONLY,
    ENGINE_ONLY,
    GAMMA_CROSSED,
    GAMMA_FIXED,
    GAMMA_ONLY,
    BoostMode,
    Document,
    possible,
)
from justitia_api.engine import Engine, Model
from justitia_api.gateway import Gateway
from justitia_api.learning import Learning
from justitia_api.namespaces import NAMESPACES_RULE, NamespaceSelection
from justitia_api.resource import (
    AGE,
    POSITIVE,
    Column,
    Decimal,
    Definition,
    Label,
    Resource,
    Status,
    Weight,
    condition_column,
    map_by,
    reason_column,
    rules,
)
from justitia_vocabulary.policies import (
    HIGHEST_GAMMA,
    HYSTERESIS,
    INSIDE_THE_ENGINE_ONLY,
    LOWEST_GAMMA,
    CostModelName,
    PolicyName,
)

REPLICAS_CROSSED = "minimumReplicas must not be greater than maximumReplicas"
PROMETHEUS_NEEDED = (
    "prometheusAddress must be set with scaler KEDA: give the URL of the Prometheus that scrapes the pool's pods, or "
    "use scaler HPA"
)


class Tier(Document):
    """A class of tenants with one weight."""

    name: Annotated[Label, Field(description="Name that a Tenant's tier refers to.")]
    weight: Annotated[
        Weight,
        Field(
            json_schema_extra=POSITIVE,
            description="Share of service relative to other tenants, a decimal number greater than 0.",
        ),
    ]

    @model_validator(mode="after")
    def _positive(self) -> "Tier":
        if float(self.weight) <= 0:
            raise ValueError(f"weight of tier {self.name} must be greater than 0")
        return self


class Queue(Document):
    """Bounds of the pool's waiting queue."""

    maximum_requests: Annotated[
        int, Field(ge=1, le=100_000, description="Most requests that may wait in one replica; more get 429.")
    ] = 1000
    timeout_seconds: Annotated[
        int, Field(ge=1, le=86_400, description="Longest that a request may wait, in seconds; then it gets 503.")
    ] = 300


class Boost(Document):
    """Gamma, with which policy UniBoost weighs a request's work against its time of arrival, in 1/s. The smaller gamma,
    the more the order is that of the work of requests alone; the larger, the more it is that of arrival.
    """

    mode: Annotated[
        BoostMode,
        Field(
            description="What gamma follows. Adaptive: the response times that are seen. SLO: the same, inside bounds "
            "that move so that the objectives of the pool's applications hold (spec.slo of LLMApplication). Fixed: "
            "gamma, which must be set."
        ),
    ] = BoostMode.ADAPTIVE
    gamma: Annotated[
        Decimal | None,
        Field(json_schema_extra=POSITIVE, description="With mode Fixed, a decimal number greater than 0, in 1/s."),
    ] = None
    minimum_gamma: Annotated[
        Decimal,
        Field(
            json_schema_extra=POSITIVE,
            description="Smallest gamma, in 1/s, a decimal number greater than 0. Not looked at with mode Fixed.",
        ),
    ] = f"{LOWEST_GAMMA:g}"
    maximum_gamma: Annotated[
        Decimal,
        Field(
            json_schema_extra=POSITIVE,
            description="Largest gamma, in 1/s, at least minimumGamma. Not looked at with mode Fixed.",
        ),
    ] = f"{HIGHEST_GAMMA:g}"
    hysteresis: Annotated[
        Decimal,
        Field(
            description="How far a running request must be behind the first that waits to make way for it, a decimal "
            "number, in units of 1 / gamma. The larger, the fewer preemptions, each of which is paid for by all."
        ),
    ] = f"{HYSTERESIS:g}"

    @model_validator(mode="after")
    def _in_order(self) -> "Boost":
        if float(self.minimum_gamma) <= 0:
            raise ValueError("minimumGamma must be greater than 0")
        if float(self.minimum_gamma) > float(self.maximum_gamma):
            raise ValueError(GAMMA_CROSSED)
        if (self.mode is BoostMode.FIXED) != (self.gamma is not None):
            raise ValueError(GAMMA_FIXED)
        if self.gamma is not None and float(self.gamma) <= 0:
            raise ValueError("gamma must be greater than 0")
        return self


class Scheduling(Document):
    """How service is shared between tenants and ordered between runs."""

    policy: Annotated[
        PolicyName,
        Field(
            description="Order of service. FCFS: as requests arrive. VTC: fair between tenants by weight. Justitia: "
            "runs by virtual finish time. TieredJustitia: tenants by weight, the runs of each by virtual finish time. "
            "With enforcement Engine only, and without regard to tenants and runs: UniBoost, for the tail of response "
            "times of single requests: by arrival, those of little work sooner, preempting. SRPT and SJF are baselines "
            "for comparisons: SRPT: least remaining work first, preempting. SJF: shortest output first, taken to be "
            "the mean output of the application's finished requests."
        ),
    ] = PolicyName.TIERED_JUSTITIA
    enforcement: Annotated[
        Literal["Engine", "Sidecar"],
        Field(
            description="Where the order is kept. Engine: inside vLLM, by a scheduler that it loads, token for token. "
            "In a vLLM that the scheduler is not made for it is kept as with Sidecar, and condition PolicyInForce "
            "says so. Sidecar: in front of an unchanged vLLM, which has at most two requests waiting."
        ),
    ] = "Engine"
    cost_model: Annotated[
        CostModelName,
        Field(
            json_schema_extra=rules(
                (
                    "self == oldSelf",
                    "costModel cannot be changed: what tenants were charged has its unit; create a new pool",
                )
            ),
            description="What tenants are charged. EngineTime: their part of the engine's time. KVTokenTime: KV memory "
            "held over time. WeightedTokens: tokens read and, at twice the price, produced.",
        ),
    ] = CostModelName.ENGINE_TIME
    boost: Annotated[
        Boost | None,
        Field(
            json_schema_extra=rules(
                ("double(self.minimumGamma) <= double(self.maximumGamma)", GAMMA_CROSSED),
                ("(self.mode == 'Fixed') == has(self.gamma)", GAMMA_FIXED),
            ),
            description="Gamma of policy UniBoost; Adaptive when unset. Takes effect without a restart.",
        ),
    ] = None
    burst_seconds: Annotated[
        int | None,
        Field(
            ge=0,
            le=3600,
            description="With policy TieredJustitia and cost model EngineTime: most engine time, in seconds for each "
            "unit of weight, that a tenant may be served ahead of another one that waits. The smaller, the sooner "
            "shares are what weights say; the larger, the more whole runs finish early. 20 when unset, and in any case "
            "at most a quarter of what the requests in the engine can take. Takes effect without a restart.",
        ),
    ] = None
    tiers: Annotated[
        tuple[Tier, ...],
        Field(max_length=64, json_schema_extra=map_by("name"), description="Tiers that Tenants may be in."),
    ] = ()
    queue: Annotated[Queue, Field(description="Bounds of the waiting queue.")] = Queue()

    def weight_of(self, tier: str) -> str | None:
        """The tier's weight, or None when the pool has no such tier."""
        return next((t.weight for t in self.tiers if t.name == tier), None)

    _possible = model_validator(mode="after")(possible)

    @model_validator(mode="after")
    def _tiers_once(self) -> "Scheduling":
        names = [tier.name for tier in self.tiers]
        if len(set(names)) < len(names):
            raise ValueError("tiers must have different names")
        return self


SCHEDULING_RULES = rules(
    *(
        (
            f"!has(self.policy) || self.policy != '{policy.value}' || self.enforcement == 'Engine'",
            f"policy {policy.value} {ENGINE_ONLY}",
        )
        for policy in INSIDE_THE_ENGINE_ONLY
    ),
    (f"!has(self.boost) || self.policy == '{PolicyName.UNIBOOST.value}'", GAMMA_ONLY),
    (
        f"!has(self.burstSeconds) || (!has(self.policy) || self.policy == '{PolicyName.TIERED_JUSTITIA.value}') && "
        f"(!has(self.costModel) || self.costModel == '{CostModelName.ENGINE_TIME.value}')",
        BURST_ONLY,
    ),
)
"""A definition's defaults are checked before those of their fields are filled in: `has(self.policy)`."""


class Autoscaling(Document):
    """An autoscaler for the pool's number of engines, by how many requests wait."""

    scaler: Annotated[
        Literal["HPA", "KEDA"],
        Field(
            description="HPA: a HorizontalPodAutoscaler, for which the cluster must serve the pods' metric "
            "justitia_queued_requests under custom.metrics.k8s.io, for example by prometheus-adapter, and with "
            "boost.mode SLO justitia_slo_replicas_needed, which asks for the engines that the objectives need. KEDA: a "
            "ScaledObject of KEDA, which asks Prometheus itself."
        ),
    ] = "HPA"
    prometheus_address: Annotated[
        str | None,
        Field(
            max_length=1024,
            pattern=r"^https?://[^\s]+$",
            description="URL of the Prometheus that scrapes the pool's pods, with scaler KEDA. It must know them by "
            "the labels namespace and justitia_dev_pool, as through the chart's PodMonitor (metrics.podMonitors).",
        ),
    ] = None
    minimum_replicas: Annotated[int, Field(ge=1, le=1000, description="Fewest engines.")] = 1
    maximum_replicas: Annotated[int, Field(ge=1, le=1000, description="Most engines, at least minimumReplicas.")]
    queued_requests: Annotated[
        int,
        Field(
            ge=1,
            le=100_000,
            description="Waiting requests for each engine, on average, beyond which another engine is added.",
        ),
    ] = 10
    stabilization_seconds: Annotated[
        int,
        Field(ge=0, le=3600, description="How long fewer engines must have been enough before one is taken away."),
    ] = 300

    @model_validator(mode="after")
    def _in_order(self) -> "Autoscaling":
        if self.minimum_replicas > self.maximum_replicas:
            raise ValueError(REPLICAS_CROSSED)
        return self

    @model_validator(mode="after")
    def _measurable(self) -> "Autoscaling":
        if self.scaler == "KEDA" and self.prometheus_address is None:
            raise ValueError(PROMETHEUS_NEEDED)
        return self


class ServingPoolSpec(Document):
    """What is served, by how many engines, in which order."""

    model: Annotated[Model, Field(description="The model that the pool serves.")]
    engine: Annotated[Engine, Field(description="How one engine runs.")] = Engine()
    replicas: Annotated[
        int,
        Field(
            ge=1,
            le=1000,
            description="Number of engines. With more than one, each shares by itself. With autoscaling, leave it "
            "unset: the autoscaler writes it.",
        ),
    ] = 1
    autoscaling: Annotated[
        Autoscaling | None,
        Field(
            json_schema_extra=rules(
                ("self.minimumReplicas <= self.maximumReplicas", REPLICAS_CROSSED),
                ("self.scaler != 'KEDA' || has(self.prometheusAddress)", PROMETHEUS_NEEDED),
            ),
            description="Lets the number of engines follow the waiting requests.",
        ),
    ] = None
    gateway: Annotated[
        Gateway | None,
        Field(description="Lets requests come to the pool through a gateway as well, by the model that they ask for."),
    ] = None
    scheduling: Annotated[
        Scheduling,
        Field(json_schema_extra=SCHEDULING_RULES, description="How service is shared and ordered."),
    ] = Scheduling()
    learning: Annotated[
        Learning | None,
        Field(
            description="Lets applications with a predictor learn from their runs. Setting it or changing it restarts "
            "the pool's pods."
        ),
    ] = None
    allowed_namespaces: Annotated[
        NamespaceSelection | None,
        Field(
            json_schema_extra=NAMESPACES_RULE,
            description="Namespaces besides the pool's own whose applications may refer to it; none if unset.",
        ),
    ] = None
    paused: Annotated[
        bool,
        Field(
            description="Leaves what exists for the pool as it is until it is unset. "
            "Keys and rights are taken away meanwhile."
        ),
    ] = False


class GammaRange(Document):
    """Each engine has a gamma of its own."""

    lowest: Annotated[str, Field(max_length=16, description="Of all engines, in 1/s.")]
    highest: Annotated[str, Field(max_length=16, description="Of all engines, in 1/s.")]


class ServingPoolStatus(Status):
    """What the operator observed of the pool."""

    replicas: Annotated[int | None, Field(ge=0, description="Engines that exist, ready or not.")] = None
    ready_replicas: Annotated[int | None, Field(ge=0, description="Engines that take requests.")] = None
    selector: Annotated[
        str | None, Field(max_length=512, description="Label selector of the pool's pods, for the scale subresource.")
    ] = None
    endpoint: Annotated[
        str | None, Field(max_length=512, description="Base URL of the pool's OpenAI API inside the cluster.")
    ] = None
    configuration_generation: Annotated[
        int | None, Field(ge=0, description="Generation of the configuration last written for the pool's pods.")
    ] = None
    applications: Annotated[int | None, Field(ge=0, description="Applications that the pool serves.")] = None
    gamma: Annotated[
        GammaRange | None, Field(description="Gamma in effect, in 1/s, rounded to one digit; of policy UniBoost.")
    ] = None


class ServingPool(Resource):
    kind: Literal["ServingPool"]
    spec: ServingPoolSpec

    definition: ClassVar[Definition] = Definition(
        plural="servingpools",
        singular="servingpool",
        short_names=("spool",),
        namespaced=True,
        description="ServingPool is a set of equal engines of one model, shared by the applications that refer to it.",
        columns=(
            Column("Model", "string", ".spec.model.uri", "Where the model is taken from."),
            Column("Policy", "string", ".spec.scheduling.policy", "Order of service."),
            Column("Replicas", "integer", ".spec.replicas", "Engines wanted."),
            Column("Available", "integer", ".status.readyReplicas", "Engines that take requests."),
            condition_column("Ready", "Ready"),
            reason_column(),
            condition_column("Fair", "PoolFairness", wide=True),
            Column("Gamma", "string", ".status.gamma.lowest", "Smallest gamma in effect, in 1/s.", wide=True),
            AGE,
        ),
        scale=True,
        object_rules=(
            (
                "self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$') && self.metadata.name.size() <= 50",
                "metadata.name must be at most 50 lower case letters, digits and dashes: Services are named after it",
            ),
            (
                "self.metadata.name.size() <= 38 || !has(self.spec.engine) || !has(self.spec.engine.nodes) || "
                "self.spec.engine.nodes == 1",
                "metadata.name must be at most 38 characters where engine.nodes is more than 1: labels of pods hold it",
            ),
        ),
    )
