"""The versioned documents that a pool's pods run by: configuration and key table.

The operator or local mode writes them, and the sidecar reads them. `generation` orders two documents of one pool: the
higher one wins. JSON names are camelCase. A reader of an earlier release leaves out fields that it does not know. A
document that is invalid otherwise does not take effect.
"""

import hashlib
import hmac
import json
from enum import StrEnum
from typing import Annotated, Literal, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from justitia_vocabulary.objectives import BeyondObjective, MetricName
from justitia_vocabulary.policies import (
    HIGHEST_GAMMA,
    HYSTERESIS,
    INSIDE_THE_ENGINE_ONLY,
    LOWEST_GAMMA,
    WITH_GAMMA,
    CostModelName,
    PolicyName,
)
from justitia_vocabulary.units import ApplicationId

MINIMUM_KEY_BYTES = 16


class Document(BaseModel):
    """A document: strict about unknown fields, immutable, camelCase in JSON."""

    model_config = ConfigDict(alias_generator=to_camel, validate_by_name=True, extra="forbid", frozen=True)


ENGINE_ONLY = "works inside the engine only: set enforcement to Engine, or choose another policy"
GAMMA_ONLY = "boost is for policies TieredJustitia and UniBoost only: remove it, or choose one of these"
BURST_ONLY = "burstSeconds is for policy TieredJustitia with cost model EngineTime only: remove it, or choose these"
HEARTBEAT_ONLY = "heartbeatSeconds is for policy TieredJustitia only: remove it, or choose that policy"
STRETCH_ONLY = "stretch is for policy TieredJustitia only: remove it, or choose that policy"
GAMMA_CROSSED = "minimumGamma must not be greater than maximumGamma"
WINDOW_TOO_SHORT = "windowSeconds must be at least ten times the bound: in a shorter window too few requests are known"
GAMMA_FIXED = "gamma goes with mode Fixed, and must be set there: set both, or neither"


class BoostMode(StrEnum):
    """How gamma is chosen."""

    FIXED = "Fixed"
    ADAPTIVE = "Adaptive"
    SLO = "SLO"


class _Boost(Protocol):
    """How a resource or a configuration chooses gamma."""

    @property
    def mode(self) -> BoostMode: ...


class _Scheduling(Protocol):
    """The part that a pool's resource and its pods' configuration have in common."""

    @property
    def policy(self) -> PolicyName: ...

    @property
    def enforcement(self) -> Literal["Engine", "Sidecar"]: ...

    @property
    def cost_model(self) -> CostModelName: ...

    @property
    def boost(self) -> _Boost | None: ...

    @property
    def burst_seconds(self) -> object: ...

    @property
    def heartbeat_seconds(self) -> object: ...

    @property
    def stretch(self) -> object: ...


S = TypeVar("S", bound=_Scheduling)


def possible(scheduling: S) -> S:
    """Check a combination, and return it. Raises ValueError that says why it is not possible, and what to do."""
    policy = scheduling.policy
    if policy in INSIDE_THE_ENGINE_ONLY and scheduling.enforcement != "Engine":
        raise ValueError(f"policy {policy.value} {ENGINE_ONLY}")
    if scheduling.boost is not None and policy not in WITH_GAMMA:
        raise ValueError(GAMMA_ONLY)
    has_burst = policy is PolicyName.TIERED_JUSTITIA and scheduling.cost_model is CostModelName.ENGINE_TIME
    if scheduling.burst_seconds is not None and not has_burst:
        raise ValueError(BURST_ONLY)
    if scheduling.heartbeat_seconds is not None and policy is not PolicyName.TIERED_JUSTITIA:
        raise ValueError(HEARTBEAT_ONLY)
    if scheduling.stretch is not None and policy is not PolicyName.TIERED_JUSTITIA:
        raise ValueError(STRETCH_ONLY)
    return scheduling


def boost_mode(scheduling: _Scheduling) -> BoostMode | None:
    """How gamma is chosen: by objectives, unless the pool says otherwise. None under a policy without gamma."""
    if scheduling.policy not in WITH_GAMMA:
        return None
    return BoostMode.SLO if scheduling.boost is None else scheduling.boost.mode


class TenantLimits(Document):
    """Limits of one tenant in a pool: over its engines where they share, else in each of them. None is no limit."""

    queued_requests: int | None = Field(
        default=None,
        ge=1,
        le=100_000,
        description="Maximum number of the tenant's requests that may wait; more get 429. Over several engines each "
        "may accept up to so many until it hears of the others', half a second later.",
    )
    running_requests: int | None = Field(
        default=None,
        ge=1,
        le=100_000,
        description="Maximum number of the tenant's requests that are worked on at a time.",
    )
    tokens_per_minute: int | None = Field(
        default=None,
        ge=1,
        le=2**53,
        description="Maximum number of tokens, read and produced, in a minute; further requests get 429. Over several "
        "engines each may accept what is left until it hears of the others', half a second later; that is made up for "
        "afterwards.",
    )


class TenantConfig(Document):
    name: str
    weight: float = Field(gt=0, allow_inf_nan=False)
    tier: str | None = None
    limits: TenantLimits = TenantLimits()
    prefix_group: str | None = Field(
        default=None, description="The group whose cached prefixes the tenant shares; None: its own requests' alone"
    )


class RunConfig(Document):
    """How an application's runs end when the client does not say so. A later request begins a new run."""

    idle_timeout_seconds: float = Field(default=60, gt=0)
    maximum_age_seconds: float = Field(default=3600, gt=0)
    maximum_cost: int | None = Field(default=None, ge=1, description="KV token-time")


Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
"""SHA-256, hex."""


class LearningConfig(Document):
    """How an application's runs are learned from, and which models predict them, by their digests."""

    name: Annotated[str, Field(pattern="^[A-Za-z0-9][A-Za-z0-9.-]{0,252}$")] = Field(
        description="The application's name in the store. No other application ever has it"
    )
    keep_text: bool = Field(default=False, description="Keep the text of first requests, not only hashed terms of it")
    version: Digest | None = Field(
        default=None, description="The model whose predictions count; None: the running mean"
    )
    candidate: Digest | None = Field(
        default=None, description="The model that is compared with the version, on the same runs"
    )
    canary_percent: int = Field(
        default=0, ge=0, le=100, description="Percentage of runs that use the candidate's prediction"
    )


class ServiceLevelObjective(Document):
    """The percentage of the values in a window that must be within a bound."""

    metric: Annotated[
        MetricName,
        Field(
            description="What is measured. TimeToFirstToken: from a request's arrival to its first token, of streamed "
            "requests. TimePerOutputToken: from its first token to its last, for each token after the first, of "
            "streamed requests. RequestCompletion: from a request's arrival to its last token. RunCompletion: from the "
            "arrival of a run's first request to the last token of its last one."
        ),
    ]
    percentile: Annotated[
        int, Field(ge=1, le=99, description="Percentage of the values that must be within the bound.")
    ]
    bound_milliseconds: Annotated[
        int, Field(ge=1, le=86_400_000, description="Largest value that is within the objective, in milliseconds.")
    ]
    window_seconds: Annotated[
        int,
        Field(
            ge=60,
            le=2_592_000,
            description="Length of the window, which ends now, in seconds. Alerts look at parts of it: a twelfth and a "
            "sixtieth, a half and a twelfth.",
        ),
    ] = 3600

    @model_validator(mode="after")
    def _long_enough(self) -> "ServiceLevelObjective":
        if self.window_seconds * 100 < self.bound_milliseconds:
            raise ValueError(WINDOW_TOO_SHORT)
        return self

    @property
    def name(self) -> str:
        """For people: `P90 of time to first token`."""
        return f"P{self.percentile} of {self.metric.name.replace('_', ' ').lower()}"


class ApplicationConfig(Document):
    namespace: str
    name: str
    tenant: str
    weight: float = Field(default=1.0, gt=0, allow_inf_nan=False, description="Among its tenant's of its priority")
    priority: int = Field(default=0, ge=-10, le=10)
    run: RunConfig = RunConfig()
    objectives: tuple[ServiceLevelObjective, ...] = ()
    beyond_objective: BeyondObjective = BeyondObjective.SAY
    learning: LearningConfig | None = Field(default=None, description="None: nothing is learned from its runs")

    @property
    def id(self) -> ApplicationId:
        return ApplicationId(f"{self.namespace}/{self.name}")


class AdapterConfig(Document):
    """A further model that the engine serves, and who may use it."""

    name: str = Field(description="The model's name as clients send it and as vLLM serves it")
    tenants: tuple[str, ...] | None = Field(default=None, description="None: every tenant of the pool")


class QueueConfig(Document):
    """Bounds of the pool's waiting queue and of what a client may send."""

    maximum_requests: int = Field(default=1000, ge=1)
    timeout_seconds: float = Field(default=300, gt=0)
    maximum_body_bytes: int = Field(default=4 * 2**20, ge=1024)


class BoostConfig(Document):
    """Bounds of gamma, in 1/s, which are equal with mode Fixed; and how far behind the head a preempted request must
    be.
    """

    mode: BoostMode = BoostMode.SLO
    minimum_gamma: float = Field(default=float(LOWEST_GAMMA), gt=0, allow_inf_nan=False)
    maximum_gamma: float = Field(default=float(HIGHEST_GAMMA), gt=0, allow_inf_nan=False)
    hysteresis: float = Field(default=float(HYSTERESIS), ge=0, allow_inf_nan=False, description="In 1/gamma")

    @model_validator(mode="after")
    def _in_order(self) -> "BoostConfig":
        if self.minimum_gamma > self.maximum_gamma:
            raise ValueError(GAMMA_CROSSED)
        return self


class SchedulingConfig(Document):
    policy: PolicyName = PolicyName.TIERED_JUSTITIA
    cost_model: CostModelName = CostModelName.ENGINE_TIME
    enforcement: Literal["Engine", "Sidecar"] = "Sidecar"
    boost: BoostConfig | None = None
    burst_seconds: float | None = Field(
        default=None, ge=0, allow_inf_nan=False, description="None: the policy's own burst"
    )
    heartbeat_seconds: float | None = Field(
        default=None, gt=0, allow_inf_nan=False, description="None: the policy's own heartbeat"
    )
    stretch: float | None = Field(default=None, gt=0, allow_inf_nan=False, description="None: the policy's own stretch")

    _possible = model_validator(mode="after")(possible)


SERVER_ADDRESS = r"^([^\s:\[\]]+|\[[0-9a-fA-F:.]+\]):[0-9]{1,5}$"


class ServerKind(StrEnum):
    """What answers at the addresses of a Valkey."""

    SERVER = "Server"
    SENTINEL = "Sentinel"
    CLUSTER = "Cluster"


class ValkeyServer(Document):
    """A Valkey, or another server of the Redis 7 protocol. User, password and authority are kept elsewhere."""

    addresses: tuple[Annotated[str, Field(pattern=SERVER_ADDRESS)], ...] = Field(
        min_length=1, description="HOST:PORT of the server, of its sentinels, or of some nodes of its cluster"
    )
    kind: ServerKind = ServerKind.SERVER
    primary: str = Field(default="", description="The name under which sentinels know the primary")
    tls: bool = False


class ValkeyConfig(ValkeyServer):
    """A server that a pool's engines share, and what the pool is called there."""

    pool: str = Field(description="Begins the names of the pool's keys")


class PoolConfig(Document):
    """All that a sidecar needs to know about its pool, without secrets."""

    version: Literal["v1"] = "v1"
    generation: int = Field(ge=0, lt=2**63)
    namespace: str
    name: str
    model: str = Field(description="The model's name as clients send it and as vLLM serves it")
    adapters: tuple[AdapterConfig, ...] = ()
    scheduling: SchedulingConfig = SchedulingConfig()
    queue: QueueConfig = QueueConfig()
    tenants: tuple[TenantConfig, ...] = ()
    applications: tuple[ApplicationConfig, ...] = ()
    valkey: ValkeyConfig | None = Field(
        default=None, description="Where the pool's engines share what they know; None: each shares by itself"
    )
    learned_from: tuple[str, ...] = Field(
        default=(),
        description="Names in the store of all applications that refer to the pool, whether or not they are served",
    )
    key_digests: str = Field(default="", description="Digest of the entries of this generation's key table")


class KeyEntry(Document):
    digest: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    tenant: str


class KeyTable(Document):
    """Digests of the API keys of the pool's tenants. `pepper` is the pool's, hex; it is a secret."""

    version: Literal["v1"] = "v1"
    generation: int = Field(
        default=0, ge=0, lt=2**63, description="The generation of the configuration that it belongs to"
    )
    pepper: Annotated[str, Field(pattern="^[0-9a-f]{32,128}$", repr=False)]
    keys: tuple[KeyEntry, ...] = ()


class PoolDocuments(Document):
    """Both documents of a pod, of one generation."""

    configuration: PoolConfig
    keys: KeyTable


def digest_of(*documents: object) -> str:
    """The digest of JSON as it was written, whatever a reader understands of it: hex SHA-256. Order of names and white
    space do not matter.
    """
    text = json.dumps(documents, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def key_digest(pepper: str, api_key: bytes) -> str:
    """The digest of an API key under the pool's pepper (hex): hex HMAC-SHA256."""
    return hmac.new(bytes.fromhex(pepper), api_key, hashlib.sha256).hexdigest()
