"""What the pool of an LLMApplication may ask for. Who may write LLMApplications need not be somebody who may run pods:
without leave of the installation such a pool chooses a public model and how much of it, and nothing else of its pods.
"""

from collections.abc import Iterator

from justitia_api.config import Document
from justitia_api.engine import DEFAULT_ENGINE_IMAGE
from justitia_api.pool import ServingPoolSpec
from justitia_operator.world.installation import Grant, InlinePools

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


def inline_pool_refusal(leave: InlinePools, spec: ServingPoolSpec) -> str | None:
    """What to tell about the pool of an application that asks for more; None where it may have all it asks for."""
    if not leave.enabled:
        return OFF
    problems, image = [], spec.engine.image
    if not _allows_image(leave, image):
        problems.append(f"spec.pool.engine.image {image}: " + ASK.format("it to inlinePools.images"))
    wanted = [field for field in fields_set(spec) if field not in FREE and field not in leave.fields]
    if wanted:
        named = ", ".join(f"spec.pool.{field}" for field in wanted)
        problems.append(f"{named}: " + ASK.format(f"{', '.join(wanted)} to inlinePools.fields"))
    if not problems:
        return None
    return "this installation does not let an LLMApplication's pool set " + "; ".join(problems)


def _allows_image(leave: InlinePools, image: str) -> bool:
    return image == DEFAULT_ENGINE_IMAGE or any(
        image.startswith(entry) if entry.endswith(("/", ":", "@")) else image == entry for entry in leave.images
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
