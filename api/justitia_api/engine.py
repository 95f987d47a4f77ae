"""The engine's part of a ServingPool: the model, where it is kept, and the pod that runs it."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, model_validator

from justitia_api.config import Document
from justitia_api.prefix_cache import PrefixCache
from justitia_api.resource import (
    ATOMIC,
    DNS_SUBDOMAIN,
    SET,
    LocalReference,
    Name,
    Quantity,
    SecretKeyReference,
    map_by,
    rules,
)

DEFAULT_ENGINE_IMAGE = "vllm/vllm-openai:v0.32.0"
MODEL_DIRECTORY = "/mnt/model"
"""Where a claim or an image with the model is mounted."""

SERVED_NAME = r"^[A-Za-z0-9][-._/:A-Za-z0-9]*$"
HUB = r"hf://[A-Za-z0-9][-._A-Za-z0-9]*/[A-Za-z0-9][-._A-Za-z0-9]*"
CLAIM = r"pvc://[a-z0-9]([-.a-z0-9]*[a-z0-9])?(/[^/]+)*"
IMAGE = r"oci://[a-zA-Z0-9][-._:@/a-zA-Z0-9]*"

NAME_NEEDED = "name must be set with a pvc:// or oci:// uri: clients send it as the model's name"
NAME_TAKEN = "an adapter must not have the model's name: clients choose between them by it"
ONE_VALUE = "exactly one of value and secretRef must be set"
CLAIM_NEEDED = "claimName must be set with type PersistentVolumeClaim, and only then"


def _hub_name_or_path(uri: str) -> str:
    """The name or path that vLLM takes for hf:// and file://."""
    return uri.removeprefix("hf://").removeprefix("file://")


class Adapter(Document):
    """A LoRA adapter, served as a further model."""

    name: Annotated[
        str,
        Field(min_length=1, max_length=253, pattern=SERVED_NAME, description="The model's name as clients send it."),
    ]
    uri: Annotated[
        str,
        Field(
            max_length=1024,
            pattern=rf"^({HUB}|file:///.+)$",
            description="Where the engine loads the adapter from: hf://OWNER/NAME, or file:///PATH on the engine's "
            "file system, for example under /mnt/model.",
        ),
    ]
    tenants: Annotated[
        tuple[Name, ...] | None,
        Field(
            min_length=1,
            max_length=64,
            json_schema_extra=SET,
            description="Names of the tenants that may use the adapter; every tenant of the pool when unset. For other "
            "tenants it does not exist: requests get 404, and GET /v1/models does not list it.",
        ),
    ] = None

    @property
    def location(self) -> str:
        """The adapter as vLLM's --lora-modules takes it."""
        return _hub_name_or_path(self.uri)


class ModelSpec(Document):
    """The model that the pool serves."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            ("has(self.name) || !(self.uri.startsWith('pvc://') || self.uri.startsWith('oci://'))", NAME_NEEDED),
            ("!has(self.name) || !has(self.adapters) || self.adapters.all(a, a.name != self.name)", NAME_TAKEN),
        )
    )

    uri: Annotated[
        str,
        Field(
            max_length=1024,
            pattern=rf"^({HUB}|file:///.+|{CLAIM}|{IMAGE})$",
            description="Where the engine loads the model from: hf://OWNER/NAME on the Hugging Face Hub, "
            "pvc://CLAIM/PATH on a PersistentVolumeClaim of the pool's namespace, oci://IMAGE for an image that holds "
            "the model's files at its root, or file:///PATH on the engine's file system.",
        ),
    ]
    name: Annotated[
        str | None,
        Field(
            min_length=1,
            max_length=253,
            pattern=SERVED_NAME,
            description="The model's name as clients send it; the path of uri when unset.",
        ),
    ] = None
    token_secret_ref: Annotated[
        SecretKeyReference | None,
        Field(description="Secret in the pool's namespace with the token for a model that is not public."),
    ] = None
    adapters: Annotated[
        tuple[Adapter, ...],
        Field(
            max_length=64,
            json_schema_extra=map_by("name"),
            description="LoRA adapters, each served as a further model.",
        ),
    ] = ()

    @property
    def claim(self) -> str | None:
        """The PersistentVolumeClaim that holds the model."""
        return self.uri.removeprefix("pvc://").partition("/")[0] if self.uri.startswith("pvc://") else None

    @property
    def image(self) -> str | None:
        """The image that holds the model."""
        return self.uri.removeprefix("oci://") if self.uri.startswith("oci://") else None

    @property
    def location(self) -> str:
        """The model as vLLM's --model takes it."""
        if self.claim is not None:
            return self.uri.replace(f"pvc://{self.claim}", MODEL_DIRECTORY, 1)
        if self.image is not None:
            return MODEL_DIRECTORY
        return _hub_name_or_path(self.uri)

    @property
    def served_name(self) -> str:
        return self.name or self.location

    @model_validator(mode="after")
    def _named(self) -> "ModelSpec":
        if self.name is None and (self.claim or self.image):
            raise ValueError(NAME_NEEDED)
        if self.served_name in {adapter.name for adapter in self.adapters}:
            raise ValueError(NAME_TAKEN)
        return self


class ResourceRequirements(Document):
    """Compute resources, as of a Kubernetes container."""

    limits: Annotated[
        dict[str, Quantity],
        Field(
            max_length=16,
            description="Maximum amount that the engine may use of each resource, for example nvidia.com/gpu.",
        ),
    ] = Field(default={})
    requests: Annotated[
        dict[str, Quantity],
        Field(max_length=16, description="Amount of each resource that is reserved for the engine."),
    ] = Field(default={})


class Toleration(Document):
    """Lets the engine's pods run on nodes with a matching taint, as a toleration of a Kubernetes pod does."""

    key: Annotated[str | None, Field(max_length=316, description="Key of the taint; every taint when unset.")] = None
    operator: Annotated[Literal["Exists", "Equal"], Field(description="How value is compared.")] = "Equal"
    value: Annotated[str | None, Field(max_length=63, description="Value of the taint, with operator Equal.")] = None
    effect: Annotated[
        Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None,
        Field(description="Effect of the taint; every effect when unset."),
    ] = None
    toleration_seconds: Annotated[
        int | None, Field(ge=0, le=2**31 - 1, description="How long a NoExecute taint is tolerated, in seconds.")
    ] = None


class TopologySpread(Document):
    """Spreads the pool's engines over domains, as a topology spread constraint of Kubernetes does."""

    topology_key: Annotated[
        str, Field(min_length=1, max_length=316, description="Node label whose value names the domain.")
    ]
    max_skew: Annotated[
        int, Field(ge=1, le=1000, description="Maximum difference between the numbers of engines in two domains.")
    ] = 1
    when_unsatisfiable: Annotated[
        Literal["DoNotSchedule", "ScheduleAnyway"],
        Field(description="What happens to an engine that cannot be placed within maxSkew."),
    ] = "ScheduleAnyway"


OURS = (
    "HOME",
    "USER",
    "HF_HOME",
    "HF_TOKEN",
    "PYTHONPATH",
    "VLLM_API_KEY",
    "VLLM_HOST_IP",
    "VLLM_NO_USAGE_STATS",
)
OUR_PREFIX = "JUSTITIA_"
NOT_YOURS = "this variable is set by the operator: choose another (the Hub's token is model.tokenSecretRef)"


def is_ours(variable: str) -> bool:
    """Whether users may not set this environment variable of the engine."""
    return variable in OURS or variable.startswith(OUR_PREFIX)


class EnvironmentVariable(Document):
    """An environment variable of the engine."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            ("has(self.value) != has(self.secretRef)", ONE_VALUE),
            (f"!(self.name.startsWith('{OUR_PREFIX}') || self.name in {list(OURS)})", NOT_YOURS),
        )
    )

    name: Annotated[
        str,
        Field(min_length=1, max_length=253, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", description="Name of the variable."),
    ]
    value: Annotated[str | None, Field(max_length=4096, description="Value of the variable.")] = None
    secret_ref: Annotated[
        SecretKeyReference | None, Field(description="Secret in the pool's namespace that holds the value.")
    ] = None

    @model_validator(mode="after")
    def _possible(self) -> "EnvironmentVariable":
        if (self.value is None) == (self.secret_ref is None):
            raise ValueError(ONE_VALUE)
        if is_ours(self.name):
            raise ValueError(NOT_YOURS)
        return self


class ModelCache(Document):
    """Where weights from a hub are kept, so that new engines do not download them again."""

    model_config = ConfigDict(
        json_schema_extra=rules(("(self.type == 'PersistentVolumeClaim') == has(self.claimName)", CLAIM_NEEDED))
    )

    type: Annotated[
        Literal["PersistentVolumeClaim", "Node"],
        Field(
            description="PersistentVolumeClaim: a claim in the pool's namespace, which all engines must be able to "
            "mount. Node: the folder on the node that the installation offers (modelCache.nodePath of the chart)."
        ),
    ]
    claim_name: Annotated[Name | None, Field(description="Name of the claim, with type PersistentVolumeClaim.")] = None

    @model_validator(mode="after")
    def _claimed(self) -> "ModelCache":
        if (self.type == "PersistentVolumeClaim") != (self.claim_name is not None):
            raise ValueError(CLAIM_NEEDED)
        return self


class EngineSpec(Document):
    """How one engine runs. It is one pod, vLLM with the sidecar beside it, or one pod on each of several nodes."""

    image: Annotated[
        str, Field(min_length=1, max_length=1024, description="Container image with vLLM's OpenAI server.")
    ] = DEFAULT_ENGINE_IMAGE
    image_pull_secrets: Annotated[
        tuple[LocalReference, ...],
        Field(
            max_length=16,
            json_schema_extra=map_by("name"),
            description="Secrets in the pool's namespace with credentials for the images' registries.",
        ),
    ] = ()
    args: Annotated[
        tuple[Annotated[str, Field(min_length=1, max_length=4096)], ...],
        Field(
            max_length=128,
            json_schema_extra=ATOMIC,
            description="Additional arguments of vLLM, for example --max-model-len=8192 or --tensor-parallel-size=2. "
            "Arguments that the operator sets itself (model, address, scheduling policy) are refused.",
        ),
    ] = ()
    media_domains: Annotated[
        tuple[Annotated[str, Field(min_length=1, max_length=253, pattern=DNS_SUBDOMAIN)], ...],
        Field(
            max_length=32,
            json_schema_extra=SET,
            description="Domains from which the engine may fetch images, audio and video that a request names by URL; "
            "each domain must be spelled out. None by default, because anybody with a key could make the engine query "
            "any address that it can reach. Media within the request, as data: URLs, are always allowed.",
        ),
    ] = ()
    env: Annotated[
        tuple[EnvironmentVariable, ...],
        Field(max_length=64, json_schema_extra=map_by("name"), description="Additional environment variables of vLLM."),
    ] = ()
    prefix_cache: Annotated[
        PrefixCache,
        Field(description="Which tenants share the engine's prefix cache; none when unset."),
    ] = PrefixCache()
    nodes: Annotated[
        int,
        Field(
            ge=1,
            le=64,
            description="Number of nodes that one engine spans, with a pod on each, for a model that does not fit on "
            "one node. With more than one, engines are a LeaderWorkerSet (lws.sigs.k8s.io, 0.9 or newer), which the "
            "cluster must have. Set in args how the model is divided, for example --tensor-parallel-size=8 and "
            "--pipeline-parallel-size=2, whose product must be divisible by nodes.",
        ),
    ] = 1
    resources: Annotated[
        ResourceRequirements,
        Field(
            description="Compute resources of one engine, including GPUs. With nodes greater than 1, the resources of "
            "each of its pods."
        ),
    ] = ResourceRequirements()
    shared_memory: Annotated[
        Quantity | None,
        Field(
            description="Maximum size of /dev/shm, which counts as memory of the engine; half of the node's memory "
            "when unset. Tensor parallel engines need a few GiB."
        ),
    ] = None
    model_cache: Annotated[
        ModelCache | None,
        Field(description="Where weights from a hub are kept; when unset, in the pod, for as long as it lives."),
    ] = None
    node_selector: Annotated[
        dict[str, Annotated[str, Field(max_length=63, description="Value that the node's label must have.")]],
        Field(max_length=32, description="Labels that a node must have to run an engine."),
    ] = Field(default={})
    tolerations: Annotated[
        tuple[Toleration, ...],
        Field(max_length=32, json_schema_extra=ATOMIC, description="Taints of nodes that engines tolerate."),
    ] = ()
    topology_spread: Annotated[
        tuple[TopologySpread, ...],
        Field(max_length=8, json_schema_extra=map_by("topologyKey"), description="How engines are spread over nodes."),
    ] = ()
    priority_class_name: Annotated[
        Name | None, Field(description="PriorityClass of the pods; the cluster's default when unset.")
    ] = None
    runtime_class_name: Annotated[
        Name | None, Field(description="RuntimeClass of the pods, for example nvidia; the node's default when unset.")
    ] = None
    rollout: Annotated[
        Literal["Surge", "Recreate"],
        Field(
            description="How changed engines are rolled out. Surge: a new engine serves before an old one is removed, "
            "which needs spare accelerators. Recreate: the old engines are removed first, and nothing is served "
            "meanwhile."
        ),
    ] = "Surge"
    startup_seconds: Annotated[
        int, Field(ge=60, le=86_400, description="Maximum time that an engine may take to load its model, in seconds.")
    ] = 3600
    hang_seconds: Annotated[
        int,
        Field(
            ge=10,
            le=86_400,
            description="Time without a step after which an engine that has requests is ended and started again, in "
            "seconds.",
        ),
    ] = 120
    drain_seconds: Annotated[
        int,
        Field(
            ge=10,
            le=86_400,
            description="Maximum time that an engine may take to finish what it has begun before it is removed, in "
            "seconds. It should be at least as long as the longest request.",
        ),
    ] = 600
