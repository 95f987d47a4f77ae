"""Keeps a model in a file: safetensors, which holds arrays and text, and nothing that can run.

The text is a JSON document about the model. The same model gives the same bytes, and so the same digest, which names
the version.
"""

import hashlib
from dataclasses import fields, is_dataclass
from typing import Any, Self, get_type_hints

import msgspec
import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from justitia_predictor.encoding import Encoding
from justitia_predictor.features import FEATURES_VERSION, Features
from justitia_predictor.models import MODELS, Array, Model
from justitia_vocabulary.units import KVTokenTime

MOST_BYTES = 32 * 2**20
"""The most bytes of an artifact that are read."""

LARGEST = 100.0
"""ln C of a run that costs more than any real one."""

_KEY = "justitia"


class ArtifactError(Exception):
    """The content is no artifact of ours, or one of another version."""


class Errors(msgspec.Struct, frozen=True, rename="camel"):
    """The errors of a kind of model on runs that it was not trained with: the mean of |predicted - cost| / cost, the
    rank correlation (Spearman) of both, and the mean of |ln(predicted / cost)|.
    """

    relative: float
    rank: float
    log: float


class Provenance(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Where a model comes from. `errors` has the errors of all kinds that were tried. ln C of the training runs was
    from `lowest` to `highest`.
    """

    kind: str
    application: str
    samples: int
    data: str
    lowest: float
    highest: float
    errors: dict[str, Errors]
    features: int = FEATURES_VERSION


class Artifact:
    """A trained model, and where it comes from."""

    def __init__(self, model: Model, about: Provenance) -> None:
        self.model = model
        self.about = about

    def predict(self, features: Features) -> KVTokenTime:
        """Predict the cost of a run: at most a factor of e beyond the costs of the training runs."""
        lowest, highest = self.about.lowest, self.about.highest
        with np.errstate(all="ignore"):
            log_cost = np.nan_to_num(self.model.log_cost(features), nan=(lowest + highest) / 2)
        return float(np.exp(np.clip(log_cost, lowest - 1, highest + 1)))

    def to_bytes(self) -> bytes:
        about = msgspec.json.encode(self.about, order="deterministic").decode()
        return save(_flat(self.model), {_KEY: about})

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """Read an artifact. Raises ArtifactError."""
        if len(content) > MOST_BYTES:
            raise ArtifactError(f"the artifact has {len(content)} bytes: at most {MOST_BYTES} are read")
        try:
            about = msgspec.json.decode(_about(content), type=Provenance)
            if about.features != FEATURES_VERSION:
                raise ArtifactError(f"the artifact is for features of version {about.features}: train it again")
            if about.kind not in MODELS:
                raise ArtifactError(f"the artifact holds a model of the unknown kind {about.kind!r}")
            if not 0 <= about.lowest <= about.highest <= LARGEST:
                raise ValueError(f"costs from exp({about.lowest}) to exp({about.highest})")
            model = _built(MODELS[about.kind], load(content))
            model.check()
        except (SafetensorError, msgspec.DecodeError, ValueError, KeyError, TypeError) as error:
            raise ArtifactError(f"the artifact is damaged: {error}") from error
        return cls(model, about)

    @classmethod
    def of_version(cls, version: str, content: bytes) -> Self:
        """Read the artifact that was stored under a digest. Raises ArtifactError."""
        if digest(content) != version:
            raise ArtifactError(f"the artifact {version[:12]} is damaged: its content has another digest")
        return cls.from_bytes(content)


def digest(content: bytes) -> str:
    """The name of an artifact: hex SHA-256."""
    return hashlib.sha256(content).hexdigest()


def _about(content: bytes) -> str:
    """The text in the format's header, a JSON object after its length in 8 bytes. Raises ValueError and the like."""
    size = int.from_bytes(content[:8], "little")
    header = msgspec.json.decode(content[8 : 8 + size], type=dict[str, Any])
    return str(header["__metadata__"][_KEY])


def _flat(value: Any, name: str = "") -> dict[str, Array]:
    """The arrays in a model, by the path to each."""
    if isinstance(value, np.ndarray):
        return {name: np.ascontiguousarray(value)}
    if is_dataclass(value):
        parts = [(field.name, getattr(value, field.name)) for field in fields(value)]
    else:
        parts = [(str(place), each) for place, each in enumerate(value)]
    found: dict[str, Array] = {}
    for part, each in parts:
        found |= _flat(each, f"{name}.{part}" if name else part)
    return found


def _built(kind: type[Any], arrays: dict[str, Any], name: str = "") -> Any:
    """Build a model from the arrays of `_flat`. Raises KeyError, or ValueError if an array has no plain numbers."""
    hints = get_type_hints(kind)
    values: dict[str, Any] = {}
    for field in fields(kind):
        path = f"{name}.{field.name}" if name else field.name
        if hints[field.name] is Encoding:
            values[field.name] = _built(Encoding, arrays, path)
        elif path in arrays:
            values[field.name] = _numbers(arrays[path], path)
        else:
            several: list[Array] = []
            while f"{path}.{len(several)}" in arrays:
                several.append(_numbers(arrays[f"{path}.{len(several)}"], path))
            if not several:
                raise ValueError(f"{path} is missing")
            values[field.name] = tuple(several)
    return kind(**values)


def _numbers(array: Any, path: str) -> Array:
    if array.dtype not in (np.float32, np.int32) or not np.all(np.isfinite(array)):
        raise ValueError(f"{path} does not hold plain numbers")
    return array  # type: ignore[no-any-return]
