"""Decides what is predicted of a run by its first request, and which of the predictions counts.

Every loaded model predicts every run, so that models are compared on the same runs. A model that fails takes no
prediction from the others. In a canary the candidate's prediction counts, elsewhere the version's, and in the canary
too where the candidate has none.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from justitia_api.config import LearningConfig
from justitia_predictor.artifact import Artifact
from justitia_predictor.features import Features, FirstRequest
from justitia_sidecar.learning.evidence import Begun, CostByVersion, in_canary
from justitia_vocabulary.units import KVTokenTime

MOST_FEATURE_BYTES = 2**15


@dataclass(frozen=True, slots=True)
class FirstLook:
    """What a first request shows: its features, packed, what models predict by them, and why other models do not."""

    features: bytes
    by_version: CostByVersion
    errors: tuple[Exception, ...]


def look_at(request: FirstRequest, models: Mapping[str, Artifact]) -> FirstLook:
    """Make the features and have each model predict. Takes up to milliseconds."""
    features = Features.of(request)
    by_version: dict[str, KVTokenTime] = {}
    errors: list[Exception] = []
    for version, model in models.items():
        try:
            by_version[version] = model.predict(features)
        except Exception as error:
            errors.append(error)
    return FirstLook(features.packed, by_version, tuple(errors))


@dataclass(slots=True, eq=False)
class RunPrediction:
    """What is known of a run from its first request. `features`, packed, and the predictions `by_version` come from a
    first look, maybe after the request has gone on without them. `begun` is None where the application has just left
    the configuration.
    """

    learning: LearningConfig
    text: bytes | None
    canary: bool
    begun: Begun | None
    features: bytes | None = None
    by_version: CostByVersion = field(default_factory=dict)

    def complete(self, look: FirstLook) -> None:
        self.features, self.by_version = look.features, look.by_version

    @property
    def size(self) -> int:
        """Bytes that are kept until the run is over; for features that are not made yet, the most they can take."""
        features = MOST_FEATURE_BYTES if self.features is None else len(self.features)
        return features + len(self.text or b"")

    @property
    def predicted_cost(self) -> KVTokenTime | None:
        """The prediction that counts."""
        asked = (self.learning.candidate if self.canary else None, self.learning.version)
        return next((self.by_version[version] for version in asked if version and version in self.by_version), None)


def run_prediction(learning: LearningConfig, request: FirstRequest, run: str, begun: Begun | None) -> RunPrediction:
    """What is known of a run before the first look at its first request."""
    return RunPrediction(learning, request.text if learning.keep_text else None, in_canary(learning, run), begun)
