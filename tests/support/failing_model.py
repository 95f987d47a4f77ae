"""A model that fails on purpose."""

from justitia_predictor.artifact import Artifact
from justitia_predictor.features import Features
from justitia_vocabulary.units import KVTokenTime
from support.learning_room import trained


class FailingModel(Artifact):
    def __init__(self) -> None:
        made = trained()
        super().__init__(made.model, made.about)

    def predict(self, features: Features) -> KVTokenTime:
        raise FloatingPointError("overflow")
