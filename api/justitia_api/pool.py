"""ServingPool: engines of one model, and how their service is shared."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from justitia_api.config import (
    BURST_ONLY,
    ENGINE_ONLY,
    GAMMA_CROSSED,
    GAMMA_FIXED,
    GAMMA_ONLY,
    HEARTBEAT_ONLY,
    STRETCH_ONLY,
    BoostMode,
    Document,
    possible,
)
from justitia_api.engine import EngineSpec, ModelSpec
from justitia_api.gateway import GatewaySpec
from justitia_api.learning import LearningSpec
from justitia_api.namespaces import NAMESPACES_RULE, NamespaceSelection
from justitia_api.resource import (
    AGE,
    POSITIVE,
    WEIGHT_RANGE,
    WEIGHT_RULE,
    Column,
    Decimal,
    Definition,
    Label,
    Resource,
    ResourceStatus,
    Weight,
    condition_column,
    in_weight_range,
    map_by,
    reason_column,
    rules,
)
from justitia_api.valkey import VALKEY_RULES, ValkeySpec
from justitia_vocabulary.policies import (
    HIGHEST_GAMMA,
    HYSTERESIS,
    INSIDE_THE_ENGINE_ONLY,
    LOWEST_GAMMA,
    WITH_GAMMA,
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
            json_schema_extra=WEIGHT_RULE,
            description="Share of service of each tenant of the tier, relative to other tenants: a decimal number "
            f"{WEIGHT_RANGE}.",
        ),
    ]

    @model_validator(mode="after")
    def _in_range(self) -> "Tier":
        if not in_weight_range(self.weight):
            raise ValueError(f"weight of tier {self.name} must be {WEIGHT_RANGE}")
        return self


class QueueSpec(Document):
    """Bounds of the pool's waiting queue."""

    maximum_requests: Annotated[
        int, Field(ge=1, le=100_000, description="Maximum number of waiting requests in one replica; more get 429.")
    ] = 1000
    timeout_seconds: Annotated[
        int, Field(ge=1, le=86_400, description="Maximum time that a request may wait, in seconds; then it gets 503.")
    ] = 300


class BoostSpec(Document):
    """Gamma, in 1/s: how a request's work is weighed against its time of arrival. A small gamma orders requests mostly
    by their work, a large one mostly by their arrival. Policy UniBoost orders all requests so. Policy TieredJustitia
    orders so the requests of applications that have an objective for single requests, inside their tenants' shares.
    """

    mode: Annotated[
        BoostMode,
        Field(
            description="How gamma is chosen. Adaptive: from the response times that are observed. SLO: the same, "
            "within bounds that move so that the objectives of the pool's applications are met (spec.slo of "
            "LLMApplication). Fixed: the value of gamma, which must be set."
        ),
    ] = BoostMode.SLO
    gamma: Annotated[
        Decimal | None,
        Field(
            json_schema_extra=POSITIVE,
            description="The value with mode Fixed, a decimal number greater than 0, in 1/s.",
        ),
    ] = None
    minimum_gamma: Annotated[
        Decimal,
        Field(
            json_schema_extra=POSITIVE,
            description="Smallest gamma, in 1/s, a decimal number greater than 0. Ignored with mode Fixed.",
        ),
    ] = f"{LOWEST_GAMMA:g}"
    maximum_gamma: Annotated[
        Decimal,
        Field(
            json_schema_extra=POSITIVE,
            description="Largest gamma, in 1/s, at least minimumGamma. Ignored with mode Fixed.",
        ),
    ] = f"{HIGHEST_GAMMA:g}"
    hysteresis: Annotated[
        Decimal,
        Field(
            description="With policy UniBoost: how far a running request must be behind the first waiting one before "
            "it is preempted for it: a decimal number, in units of 1 / gamma. A larger value means fewer preemptions, "
            "each of which costs time for all requests. Policy TieredJustitia ignores it."
        ),
    ] = f"{HYSTERESIS:g}"

    @model_validator(mode="after")
    def _in_order(self) -> "BoostSpec":
        if float(self.minimum_gamma) <= 0:
            raise ValueError("minimumGamma must be greater than 0")
        if float(self.minimum_gamma) > float(self.maximum_gamma):
            raise ValueError(GAMMA_CROSSED)
        if (self.mode is BoostMode.FIXED) != (self.gamma is not None):
            raise ValueError(GAMMA_FIXED)
        if self.gamma is not None and float(self.gamma) <= 0:
            raise ValueError("gamma must be greater than 0")
        return self


class SchedulingSpec(Document):
    """How service is shared between tenants and ordered between runs."""

    policy: Annotated[
        PolicyName,
        Field(
            description="Order of service. FCFS: in the order of arrival. VTC: fair between tenants, by weight. "
            "Justitia: runs by virtual finish time. TieredJustitia: tenants by weight, and each tenant's runs by "
            "virtual finish time, except that inside a tenant's share requests whose application has an objective "
            "for them go where it is met. The others need enforcement Engine, and ignore tenants and runs. UniBoost: "
            "by arrival, with requests of little work earlier and with preemption, for the tail of response times of "
            "single requests. SRPT and SJF are baselines for comparison. SRPT: least remaining work first, with "
            "preemption. SJF: shortest output first, which is taken to be the mean output of the application's "
            "finished requests."
        ),
    ] = PolicyName.TIERED_JUSTITIA
    enforcement: Annotated[
        Literal["Engine", "Sidecar"],
        Field(
            description="Where the order is kept. Engine: inside vLLM, by a plug-in that it loads, token for token. In "
            "a vLLM that the plug-in does not support, the order is kept as with Sidecar, and the condition "
            "PolicyInEffect says so. Sidecar: in front of an unchanged vLLM, which has at most two waiting requests."
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
            description="What tenants are charged for. EngineTime: their part of the engine's time. KVTokenTime: KV "
            "memory held over time. WeightedTokens: tokens read and, at twice the price, tokens produced.",
        ),
    ] = CostModelName.ENGINE_TIME
    boost: Annotated[
        BoostSpec | None,
        Field(
            json_schema_extra=rules(
                ("double(self.minimumGamma) <= double(self.maximumGamma)", GAMMA_CROSSED),
                ("(self.mode == 'Fixed') == has(self.gamma)", GAMMA_FIXED),
            ),
            description="How gamma is chosen, with policy TieredJustitia or UniBoost: by the objectives of the pool's "
            "applications when unset. Changes take effect without a restart.",
        ),
    ] = None
    burst_seconds: Annotated[
        int | None,
        Field(
            ge=0,
            le=3600,
            description="With policy TieredJustitia and cost model EngineTime: how far a tenant may be ahead of "
            "another tenant that waits and still be served, in seconds of engine time for each unit of weight. Less "
            "counts where two and a half times what the other's first run is expected to take is less. With a small "
            "value a tenant with long runs has its share in each minute; with a large one more runs finish early. 400 "
            "when unset. Changes take effect without a restart.",
        ),
    ] = None
    heartbeat_seconds: Annotated[
        int | None,
        Field(
            ge=1,
            le=3600,
            description="With policy TieredJustitia: a tenant that waits, is not too far ahead of its share, and has "
            "had no request admitted for so many seconds goes first, once. With a small value tenants whose runs are "
            "long are served more steadily; with a large one more short runs finish early. 60 when unset. Changes "
            "take effect without a restart.",
        ),
    ] = None
    stretch: Annotated[
        int | None,
        Field(
            ge=1,
            le=100,
            description="With policy TieredJustitia: how many times a run's expected cost counts in the order of runs. "
            "1 is the order in which fair sharing would finish them. With a larger value short runs pass more of the "
            "long runs that came before them: a run that proves larger than expected delays others less, and the "
            "longest waits are longer. When unset, 2 where a run's cost is predicted and 3 where it is its "
            "application's mean. A change counts for runs that begin after it, without a restart.",
        ),
    ] = None
    tiers: Annotated[
        tuple[Tier, ...],
        Field(max_length=64, json_schema_extra=map_by("name"), description="Tiers that a Tenant may name."),
    ] = ()
    queue: Annotated[QueueSpec, Field(description="Bounds of the waiting queue.")] = QueueSpec()

    def weight_of(self, tier: str) -> str | None:
        """The tier's weight, or None when the pool has no such tier."""
        return next((t.weight for t in self.tiers if t.name == tier), None)

    _possible = model_validator(mode="after")(possible)

    @model_validator(mode="after")
    def _tiers_once(self) -> "SchedulingSpec":
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
    (
        "!has(self.boost) || !has(self.policy) || "
        + " || ".join(f"self.policy == '{policy.value}'" for policy in WITH_GAMMA),
        GAMMA_ONLY,
    ),
    (
        f"!has(self.burstSeconds) || (!has(self.policy) || self.policy == '{PolicyName.TIERED_JUSTITIA.value}') && "
        f"(!has(self.costModel) || self.costModel == '{CostModelName.ENGINE_TIME.value}')",
        BURST_ONLY,
    ),
    (
        f"!has(self.heartbeatSeconds) || !has(self.policy) || self.policy == '{PolicyName.TIERED_JUSTITIA.value}'",
        HEARTBEAT_ONLY,
    ),
    (
        f"!has(self.stretch) || !has(self.policy) || self.policy == '{PolicyName.TIERED_JUSTITIA.value}'",
        STRETCH_ONLY,
    ),
)
"""A definition's defaults are checked before those of their fields are filled in: `has(self.policy)`."""


class AutoscalingSpec(Document):
    """An autoscaler that sets the number of engines by the number of waiting requests."""

    scaler: Annotated[
        Literal["HPA", "KEDA"],
        Field(
            description="HPA: a HorizontalPodAutoscaler. The cluster must serve the pods' metric "
            "justitia_queued_requests under custom.metrics.k8s.io, for example with prometheus-adapter; where "
            "scheduling.boost is set with mode SLO also justitia_slo_replicas_needed, the number of engines that the "
            "objectives need. KEDA: a ScaledObject of KEDA, which queries Prometheus itself."
        ),
    ] = "HPA"
    prometheus_address: Annotated[
        str | None,
        Field(
            max_length=1024,
            pattern=r"^https?://[^\s]+$",
            description="With scaler KEDA: URL of the Prometheus that scrapes the pool's pods. Its series must have "
            "the labels namespace and justitia_dev_pool, which the chart's PodMonitor sets (metrics.podMonitors).",
        ),
    ] = None
    minimum_replicas: Annotated[int, Field(ge=1, le=1000, description="Minimum number of engines.")] = 1
    maximum_replicas: Annotated[
        int, Field(ge=1, le=1000, description="Maximum number of engines, at least minimumReplicas.")
    ]
    queued_requests: Annotated[
        int,
        Field(
            ge=1,
            le=100_000,
            description="Average number of waiting requests for each engine above which an engine is added.",
        ),
    ] = 10
    stabilization_seconds: Annotated[
        int,
        Field(
            ge=0,
            le=3600,
            description="Time for which fewer engines must have been enough before one is removed, in seconds.",
        ),
    ] = 300

    @model_validator(mode="after")
    def _in_order(self) -> "AutoscalingSpec":
        if self.minimum_replicas > self.maximum_replicas:
            raise ValueError(REPLICAS_CROSSED)
        return self

    @model_validator(mode="after")
    def _measurable(self) -> "AutoscalingSpec":
        if self.scaler == "KEDA" and self.prometheus_address is None:
            raise ValueError(PROMETHEUS_NEEDED)
        return self


class ServingPoolSpec(Document):
    """What is served, by how many engines, in which order."""

    model: Annotated[ModelSpec, Field(description="The model that the pool serves.")]
    engine: Annotated[EngineSpec, Field(description="How one engine runs.")] = EngineSpec()
    replicas: Annotated[
        int,
        Field(
            ge=1,
            le=1000,
            description="Number of engines. With more than one, each shares only its own time between tenants, unless "
            "there is a Valkey between them (valkey). With autoscaling, leave it unset: the autoscaler writes it.",
        ),
    ] = 1
    autoscaling: Annotated[
        AutoscalingSpec | None,
        Field(
            json_schema_extra=rules(
                ("self.minimumReplicas <= self.maximumReplicas", REPLICAS_CROSSED),
                ("self.scaler != 'KEDA' || has(self.prometheusAddress)", PROMETHEUS_NEEDED),
            ),
            description="Sets the number of engines by the number of waiting requests.",
        ),
    ] = None
    gateway: Annotated[
        GatewaySpec | None,
        Field(description="Makes the pool reachable through a gateway as well, by the model that a request asks for."),
    ] = None
    scheduling: Annotated[
        SchedulingSpec,
        Field(json_schema_extra=SCHEDULING_RULES, description="How service is shared and ordered."),
    ] = SchedulingSpec()
    valkey: Annotated[
        ValkeySpec | None,
        Field(
            json_schema_extra=VALKEY_RULES,
            description="The Valkey over which the pool's engines tell each other what they served, so that they share "
            "as one engine would; they keep nothing there. When unset, it is the installation's, if that has one. It "
            "needs enforcement Engine. While it is not reached, each engine shares by itself. Setting it restarts the "
            "pool's pods.",
        ),
    ] = None
    learning: Annotated[
        LearningSpec | None,
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
            description="While true, what exists for the pool stays as it is. Only keys and rights that are removed "
            "are taken away from its pods."
        ),
    ] = False


class GammaRange(Document):
    """Gamma of the pool's engines, each of which has its own."""

    lowest: Annotated[str, Field(max_length=16, description="Smallest gamma of all engines, in 1/s.")]
    highest: Annotated[str, Field(max_length=16, description="Largest gamma of all engines, in 1/s.")]


class ServingPoolStatus(ResourceStatus):
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
    gamma: Annotated[GammaRange | None, Field(description="Gamma in effect, in 1/s, rounded to one digit.")] = None


class ServingPool(Resource):
    kind: Literal["ServingPool"]
    spec: ServingPoolSpec

    definition: ClassVar[Definition] = Definition(
        plural="servingpools",
        singular="servingpool",
        short_names=("spool",),
        namespaced=True,
        description="A ServingPool is a set of equal engines that serve one model, shared by the applications that "
        "refer to it.",
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
