"""What the pool of an LLMApplication may ask for. Who may write LLMApplications need not be somebody who may run pods:
without leave of the installation such a pool chooses a public model and how much of it, and nothing else of its pods.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from justitia_api.config import Document
from justitia_api.engine import DEFAULT_ENGINE_IMAGE
from justitia_api.pool import ServingPoolSpec

ASK = "ask the installation's owner to add {} in the chart's values, or for a ServingPool to refer to by poolRef"
OFF = (
    "spec.pool: this installation makes no pools for LLMApplications: refer to a ServingPool by poolRef, or ask the "
    "installation's owner to set inlinePools.enabled in the chart's values"
)
FREE = frozenset(
    {
        "model.name",
        "model.adapters",
        "engine.resources",
        "engine.sharedMemory",
        "engine.topologySpread",
        "engine.rollout",
        "engine.startupSeconds",
        "engine.hangSeconds",
        "engine.drainSeconds",
        "replicas",
        "scheduling",
        "paused",
    }
)
"""Fields that give no access to anything. Whatever else is set needs leave: a field that is not here included."""


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
    """What the installation gives leave for. `images` are those that engines may have besides the one that is the
    default: an entry that ends in `/`, `:` or `@` stands for all that begin with it, another one for itself.
    """

    enabled: bool = True
    images: tuple[str, ...] = ()
    fields: tuple[Grant, ...] = ()

    def refusal(self, spec: ServingPoolSpec) -> str | None:
        """What to tell about the pool of an application that asks for more; None where it may have all it asks for."""
        if not self.enabled:
            return OFF
        problems, image = [], spec.engine.image
        if not self._allows_image(image):
            problems.append(f"spec.pool.engine.image {image}: " + ASK.format("it to inlinePools.images"))
        wanted = [field for field in fields_set(spec) if field not in FREE and field not in self.fields]
        if wanted:
            named = ", ".join(f"spec.pool.{field}" for field in wanted)
            problems.append(f"{named}: " + ASK.format(f"{', '.join(wanted)} to inlinePools.fields"))
        if not problems:
            return None
        return "this installation does not let an LLMApplication's pool set " + "; ".join(problems)

    def _allows_image(self, image: str) -> bool:
        return image == DEFAULT_ENGINE_IMAGE or any(
            image.startswith(entry) if entry.endswith(("/", ":", "@")) else image == entry for entry in self.images
        )


def fields_set(spec: ServingPoolSpec) -> Iterator[str]:
    """Fields of a pool that are not as by default, as far as leave is needed for them by name. The image is not among
    them, and the model's uri only where it mounts something.
    """
    if spec.model.claim is not None or spec.model.image is not None:
        yield Grant.MODEL_URI
    yield from _changed(spec.model, "model.", apart=("uri",))
    yield from _changed(spec.engine, "engine.", apart=("image", "env"))
    if any(variable.value is not None for variable in spec.engine.env):
        yield Grant.ENV
    if any(variable.secret_ref is not None for variable in spec.engine.env):
        yield Grant.ENV_SECRETS
    yield from _changed(spec, "", apart=("model", "engine"))


def _changed(document: Document, prefix: str, *, apart: tuple[str, ...]) -> Iterator[str]:
    for name, field in type(document).model_fields.items():
        if name not in apart and getattr(document, name) != field.get_default(call_default_factory=True):
            yield f"{prefix}{field.alias or name}"
