"""The record of an application's predictor in its status, and what its pool's pods get to know of it.

Unlike the rest of a status the record is an input: which version is in effect is stored nowhere else.
"""

from pydantic import ValidationError

from justitia_api.application import LLMApplication
from justitia_api.config import LearningConfig
from justitia_api.learning import PredictorStatus
from justitia_api.pool import ServingPool
from justitia_api.resource import ObjectMeta
from justitia_operator.world.objects import Json


def name_in_store(metadata: ObjectMeta) -> str:
    """The name of an application in the store. No other application ever gets it. Documents of a file have no uids, so
    there the names are used.
    """
    return metadata.uid or f"{metadata.namespace}.{metadata.name}"


def recorded(obj: Json | None) -> PredictorStatus:
    """Reads the record from the status of an application. Empty if somebody damaged it."""
    found = ((obj or {}).get("status") or {}).get("predictor")
    try:
        return PredictorStatus() if found is None else PredictorStatus.model_validate(found)
    except ValidationError:
        return PredictorStatus()


def learning_config(application: LLMApplication, pool: ServingPool, record: PredictorStatus) -> LearningConfig | None:
    """Builds the learning part of the configuration. None if nothing is learned."""
    predictor = application.spec.predictor
    if predictor is None or pool.spec.learning is None:
        return None
    return LearningConfig(
        name=name_in_store(application.metadata),
        keep_text=predictor.text == "Kept",
        version=record.version,
        candidate=record.candidate,
        canary_percent=record.candidate_percent or 0,
    )
