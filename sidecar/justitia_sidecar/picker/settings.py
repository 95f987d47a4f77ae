"""The picker's settings: its sidecar, its port. From the environment, with the prefix JUSTITIA_PICKER_."""

from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from justitia_api import wire


class PickerSettings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="JUSTITIA_PICKER_", frozen=True)

    socket: Path = Field(description="Where the sidecar listens for its picker")
    host: str = "0.0.0.0"
    port: int = wire.PICKER_PORT
    drain_seconds: float = Field(default=30.0, ge=0, description="How long requests under way may take when it ends")
