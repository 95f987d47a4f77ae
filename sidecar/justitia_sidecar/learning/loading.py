"""Loads models: from the image that brought some, else from the store.

Models are asked for in the order of the table (`model_table.py`). A store that is away is asked once in a round, and
the models that were not asked for say why.
"""

from functools import partial
from pathlib import Path

import structlog

from justitia_predictor.artifact import Artifact, ArtifactError
from justitia_predictor.shipped import shipped_artifact
from justitia_predictor.store import Store
from justitia_sidecar.learning.attempts import Attempt, Attempts, FailedAttempt
from justitia_sidecar.learning.model_table import ModelTable

NO_STORE = "there is no store"

log = structlog.get_logger("justitia.sidecar")


class Loading:
    """`shipped` is a folder of models that came with an image."""

    def __init__(self, models: ModelTable, store: Store | None, shipped: Path | None, attempts: Attempts) -> None:
        self._models = models
        self._store = store
        self._shipped = shipped
        self._attempts = attempts

    async def load(self) -> None:
        """Ask once for each model that is missing."""
        away = NO_STORE if self._store is None else None
        for name, version in self._models.missing():
            if (model := await self._from_image(name, version)) is not None:
                self._loaded(name, version, model)
            elif away is not None:
                self._models.not_asked_for((name, version), away)
            else:
                away = await self._load_from_store(name, version)

    async def _from_image(self, name: str, version: str) -> Artifact | None:
        if self._shipped is None:
            return None
        model = await self._attempts.run(
            Attempt.LOAD,
            partial(shipped_artifact, self._shipped, version),
            failed="model not loaded from the image: looked for in the store instead",
            application=name,
            version=version,
        )
        return None if isinstance(model, FailedAttempt) else model

    async def _load_from_store(self, name: str, version: str) -> str | None:
        """Why the store is away; None where it answered."""
        assert self._store is not None
        model = await self._attempts.run(
            Attempt.LOAD,
            partial(self._store.artifact, name, version),
            failed="model not loaded from the store: tried again in the next round",
            application=name,
            version=version,
        )
        if not isinstance(model, FailedAttempt):
            self._loaded(name, version, model)
            return None
        self._models.failed((name, version), model.reason, unusable=isinstance(model.error, ArtifactError))
        return model.reason if model.store_is_away else None

    def _loaded(self, name: str, version: str, model: Artifact) -> None:
        self._models.loaded((name, version), model)
        log.info("model loaded", application=name, version=version, kind=model.about.kind)
