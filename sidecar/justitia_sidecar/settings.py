"""The sidecar's settings: its documents, its engine, its ports. From the environment, with the prefix JUSTITIA_."""

import sys
from pathlib import Path
from typing import TypeVar

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from justitia_api import wire
from justitia_sidecar.engine.hang import HANG_SECONDS

Settings = TypeVar("Settings", bound=BaseSettings)


def read_settings(kind: type[Settings]) -> Settings:
    """The process's settings. If they cannot be used, it says what is wrong with which variable, and exits with 2."""
    try:
        return kind()
    except ValidationError as error:
        for problem in error.errors(include_input=False):
            name = kind.model_config["env_prefix"] + "_".join(str(part) for part in problem["loc"]).upper()
            print(f"{name}: {problem['msg']}", file=sys.stderr)  # noqa: T201
        sys.exit(2)


class SidecarSettings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="JUSTITIA_", frozen=True)

    config_file: Path = Field(description="PoolConfig, JSON")
    keys_file: Path = Field(description="KeyTable, JSON")
    engine_url: str = f"http://127.0.0.1:{wire.ENGINE_PORT}"
    engine_socket: Path | None = Field(
        default=None, description="Where the plug-in inside the engine connects, if it keeps the order"
    )
    host: str = "0.0.0.0"
    port: int = wire.PUBLIC_PORT
    admin_host: str = "0.0.0.0"
    admin_port: int = wire.ADMIN_PORT
    control_host: str = "0.0.0.0"
    control_port: int = wire.CONTROL_PORT
    control_folder: Path | None = Field(
        default=None, description="Certificate, key and token of the control port; without them there is none"
    )
    peer_host: str = "0.0.0.0"
    peer_port: int = wire.PEER_PORT
    peer_address: str = Field(
        default="", description="This pod's address, for the pool's other sidecars; without it there is no such port"
    )
    peer_folder: Path | None = Field(
        default=None, description="Certificate and key for the pool's other sidecars, and the certificates of those"
    )
    picker_socket: Path | None = Field(
        default=None, description="Where the endpoint picker beside this sidecar connects, if gateways ask it"
    )
    public_address: str = Field(
        default="", description="This pod's address, for gateways that ask which pod gets a request"
    )
    valkey_folder: Path | None = Field(
        default=None, description="User's name, password and authority for the Valkey that the pool's engines share"
    )
    hang_seconds: float = Field(default=HANG_SECONDS, gt=0, description="How long an engine with work may make no step")
    hang_file: Path | None = Field(default=None, description="Exists while the engine hangs, for its liveness probe")
    samples_file: Path | None = Field(default=None, description="SQLite, with the runs that predictors learn from")
    store_url: str | None = Field(
        default=None, description="Where samples and models outlive the pod: file:///folder or s3://bucket/prefix"
    )
    artifacts_folder: Path | None = Field(default=None, description="Models that came with an image; only read")
    log_level: str = "info"
