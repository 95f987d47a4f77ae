"""What holds for a whole installation, as its owner configures it."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal


class Grant(StrEnum):
    """A field that the installation may give leave for, as inlinePools.fields of the chart has it."""

    MODEL_URI = "model.uri"
    """pvc:// and oci://, which mount a claim of the namespace or an image; hf:// and file:// are free."""
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
    ALLOWED_NAMESPACES = "allowedNamespaces"


@dataclass(frozen=True)
class InlinePools:
    """What the installation lets the pools of applications set. `images` are those that engines may have besides the
    default one: an entry that ends in `/`, `:` or `@` stands for all that begin with it, another one for itself.
    """

    enabled: bool = True
    images: tuple[str, ...] = ()
    fields: tuple[Grant, ...] = ()


@dataclass(frozen=True)
class Installation:
    """What holds for the whole installation. `root` is a secret, hex, that pools' secrets are derived from;
    `node_cache_path` a folder that every node has for models, if any; `metrics_namespace` where Prometheus runs.
    `sidecar_rollout` tells when a new sidecar image comes to engines that run: with their next change, or at once.
    `inline_pools` is what the pools of applications may ask for; None: anything, as who writes them owns the machine.
    """

    namespace: str
    sidecar_image: str
    root: str = field(repr=False)
    node_cache_path: str | None = None
    metrics_namespace: str | None = None
    sidecar_rollout: Literal["WithEngines", "AtOnce"] = "WithEngines"
    inline_pools: InlinePools | None = field(default_factory=InlinePools)
