"""The operator's settings: environment variables with the prefix JUSTITIA_."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from justitia_api.config import ServerKind, ValkeyServer
from justitia_operator.world.installation import Grant, InlinePools


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


class Settings(BaseSettings):
    """JUSTITIA_NAMESPACE is `namespace`, and so on."""

    model_config = SettingsConfigDict(env_prefix="JUSTITIA_", frozen=True)

    namespace: str = Field(
        default="justitia-system",
        description="The operator's namespace, with the Secrets of keys, the root and the Lease",
    )
    watch_namespaces: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_names)] = Field(
        default=(),
        validate_default=False,
        description="Namespaces to serve, separated by commas; all if it is not set",
    )
    sidecar_image: str = Field(default="justitia:0.1.0", description="Image of the sidecar beside each engine")
    sidecar_rollout: Literal["WithEngines", "AtOnce"] = Field(
        default="WithEngines", description="When running engines get a new sidecar image"
    )
    inline_pools: bool = Field(default=True, description="Whether applications may bring their own pools")
    inline_pool_images: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_names)] = Field(
        default=(),
        validate_default=False,
        description="Images that engines of such pools may have, separated by commas",
    )
    inline_pool_fields: Annotated[tuple[Grant, ...], NoDecode, BeforeValidator(_names)] = Field(
        default=(), validate_default=False, description="Further fields that such pools may set, separated by commas"
    )
    node_cache_path: str | None = Field(
        default=None, description="Folder of every node for models, offered to pools as modelCache.type Node"
    )
    metrics_namespace: str | None = Field(
        default=None, description="Namespace from which metrics of pools are scraped, besides the operator's own"
    )
    valkey_addresses: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_names)] = Field(
        default=(),
        validate_default=False,
        description="HOST:PORT of a Valkey for pools that name none, of its sentinels or nodes, separated by commas",
    )
    valkey_kind: ServerKind = Field(default=ServerKind.SERVER, description="What answers there")
    valkey_primary: str = Field(default="", description="The name under which sentinels know the primary")
    valkey_tls: bool = Field(default=False, description="Whether connections to it are encrypted")
    valkey_secret: str = Field(
        default="valkey.justitia.dev",
        description="Secret of the operator's namespace with the login of its administrator",
    )
    valkey_own: bool = Field(default=False, description="Whether it is the chart's, so that the Secret is made here")
    resync_seconds: Annotated[float, Field(gt=0)] = Field(
        default=300,
        description="How often everything is listed again, and objects that are not watched are applied again",
    )
    workers: Annotated[int, Field(ge=1, le=64)] = 4
    http_port: Annotated[int, Field(ge=1, le=65535)] | None = Field(
        default=None, description="Port of /healthz, /readyz and /metrics; none if it is not set"
    )
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"

    @property
    def valkey(self) -> ValkeyServer | None:
        """The Valkey for pools that name none. Raises ValidationError for what cannot be an address."""
        if not self.valkey_addresses:
            return None
        return ValkeyServer(
            addresses=self.valkey_addresses,
            kind=self.valkey_kind,
            primary=self.valkey_primary,
            tls=self.valkey_tls,
        )

    @property
    def inline(self) -> InlinePools:
        """What the pools of applications may set."""
        return InlinePools(self.inline_pools, self.inline_pool_images, self.inline_pool_fields)
