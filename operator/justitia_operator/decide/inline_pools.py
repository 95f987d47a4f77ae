"""What an LLMApplication may set in the pool that it brings along.

Whoever may write LLMApplications need not be allowed to run pods. By default such a pool chooses a public model and how
many engines serve it; the installation's owner has to allow anything else.
"""

from collections.abc import Iterator

from justitia_api.config import Document
from justitia_api.engine import DEFAULT_ENGINE_IMAGE
from justitia_api.pool import ServingPoolSpec
from justitia_operator.world.installation import Grant, InlinePools

ASK = "ask the installation's owner to add {} in the chart's values, or refer to a ServingPool by poolRef"
OFF = (
    "spec.pool is not allowed: the operator makes no pools for LLMApplications; refer to a ServingPool by poolRef, or "
    "ask the installation's owner to set inlinePools.enabled in the chart's values"
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
"""Fields that give access to nothing, and are always allowed. Any other field, also a new one, must be allowed."""


def inline_pool_refusal(leave: InlinePools, spec: ServingPoolSpec) -> str | None:
    """Explains which settings of the pool are not allowed, and what to do. None if all are."""
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
    return "the operator does not allow an LLMApplication's pool to set " + "; ".join(problems)


def _allows_image(leave: InlinePools, image: str) -> bool:
    return image == DEFAULT_ENGINE_IMAGE or any(
        image.startswith(entry) if entry.endswith(("/", ":", "@")) else image == entry for entry in leave.images
    )


def fields_set(spec: ServingPoolSpec) -> Iterator[str]:
    """Fields of a pool that differ from their defaults, if they have to be allowed by name. The image is checked apart,
    and the model's uri counts only if it mounts something.
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
        if name not in apart and getattr(document, name) != field.default:
            yield f"{prefix}{field.alias or name}"
