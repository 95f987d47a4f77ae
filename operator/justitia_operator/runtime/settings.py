"""How the operator is configured: environment variables with the prefix JUSTITIA_."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from justitia_operator.world.installation import Grant, InlinePools


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


class Settings(BaseSettings):
    """JUSTITIA_NAMESPACE is `namespace`, and so on."""

    model_config = SettingsConfigDict(env_prefix="JUSTITIA_", frozen=True)

    namespace: str = Field(
        default="justitia-system",
        description="Where key Secrets are read, and where the root and the Lease are",
    )
    watch_namespaces: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_names)] = Field(
        default=(),
        validate_default=False,
        description="Whose pools and applications are served, separated by commas; all without it",
    )
    sidecar_image: str = Field(default="justitia:0.1.0", description="Image of the scheduler beside each engine")
    sidecar_rollout: Literal["WithEngines", "AtOnce"] = Field(
        default="WithEngines", description="When a new sidecar image comes to engines that run"
    )
    inline_pools: bool = Field(default=True, description="Whether pools are made for applications that bring their own")
    inline_pool_images: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_names)] = Field(
        default=(), validate_default=False, description="Images that their engines may have, separated by commas"
    )
    inline_pool_fields: Annotated[tuple[Grant, ...], NoDecode, BeforeValidator(_names)] = Field(
        default=(), validate_default=False, description="Further fields that they may set, separated by commas"
    )
    node_cache_path: str | None = Field(
        default=None, description="Folder of every node for models, offered to pools as modelCache.type Node"
    )
    metrics_namespace: str | None = Field(
        default=None, description="Namespace from which metrics of pools are scraped, besides the operator's own"
    )
    resync_seconds: Annotated[float, Field(gt=0)] = Field(
        default=300, description="How often everything is listed anew, and what is not watched is applied anew"
    )
    workers: Annotated[int, Field(ge=1, le=64)] = 4
    http_port: Annotated[int, Field(ge=1, le=65535)] | None = Field(
        default=None, description="Where /healthz, /readyz and /metrics answer; nowhere without it"
    )
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"

    @property
    def inline(self) -> InlinePools:
        """What the pools of applications may ask for."""
        return InlinePools(self.inline_pools, self.inline_pool_images, self.inline_pool_fields)
