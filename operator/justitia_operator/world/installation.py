"""Settings of an installation, as its owner configures it."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from justitia_api.config import ValkeyServer


class Grant(StrEnum):
    """A field of an inline pool that the owner may allow, as inlinePools.fields of the chart names it."""

    MODEL_URI = "model.uri"
    """pvc:// and oci:// URIs, which mount a claim of the namespace or an image. hf:// and file:// are always allowed.
    """
    MODEL_TOKEN = "model.tokenSecretRef"
    IMAGE_PULL_SECRETS = "engine.imagePullSecrets"
    ARGS = "engine.args"
    ENV = "engine.env"
    """Plain values only."""
    ENV_SECRETS = "engine.env.secretRef"
    MEDIA_DOMAINS = "engine.mediaDomains"
    PREFIX_CACHE = "engine.prefixCache"
    NODES = "engine.nodes"
    MODEL_CACHE = "engine.modelCache"
    NODE_SELECTOR = "engine.nodeSelector"
    TOLERATIONS = "engine.tolerations"
    PRIORITY_CLASS = "engine.priorityClassName"
    RUNTIME_CLASS = "engine.runtimeClassName"
    AUTOSCALING = "autoscaling"
    GATEWAY = "gateway"
    LEARNING = "learning"
    VALKEY = "valkey"
    ALLOWED_NAMESPACES = "allowedNamespaces"


@dataclass(frozen=True)
class InlinePools:
    """What an LLMApplication may set in the pool that it brings along. `images` are allowed besides the default engine
    image: an entry that ends in `/`, `:` or `@` allows all images that begin with it.
    """

    enabled: bool = True
    images: tuple[str, ...] = ()
    fields: tuple[Grant, ...] = ()


@dataclass(frozen=True)
class InstalledValkey:
    """The Valkey for pools that name none of their own. `authority` (PEM) signed its certificate; None: a public one
    did.
    """

    server: ValkeyServer
    authority: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Installation:
    """The operator's settings that decisions depend on. Secrets of pools are derived from `root` (hex).
    `node_cache_path` is a folder for models that every node has. Prometheus runs in `metrics_namespace`.
    `sidecar_rollout` says when running engines get a new sidecar image: with their next change, or at once.
    `inline_pools` limits the pools of applications; None allows anything, where whoever writes them owns the machine.
    """

    namespace: str
    sidecar_image: str
    root: str = field(repr=False)
    node_cache_path: str | None = None
    metrics_namespace: str | None = None
    sidecar_rollout: Literal["WithEngines", "AtOnce"] = "WithEngines"
    inline_pools: InlinePools | None = field(default_factory=InlinePools)
    valkey: InstalledValkey | None = None
