"""What an application's status records of its predictor, and what its pool's pods are told of it.

The record is an input here, other than the rest of a status: which version is in force is written nowhere else.
"""

from pydantic import ValidationError

from justitia_api.application import LLMApplication
from justitia_api.config import LearningConfig
from justitia_api.learning import PredictorStatus
from justitia_api.pool import ServingPool
from justitia_api.resource import ObjectMeta
from justitia_operator.world.objects import Json


def name_in_store(metadata: ObjectMeta) -> str:
    """An application's. No other ever has it. In a file, where there are no uids, names have to do."""
    return metadata.uid or f"{metadata.namespace}.{metadata.name}"


def recorded(obj: Json | None) -> PredictorStatus:
    """What the status of an application's object says; nothing where somebody spoilt it."""
    found = ((obj or {}).get("status") or {}).get("predictor")
    try:
        return PredictorStatus() if found is None else PredictorStatus.model_validate(found)
    except ValidationError:
        return PredictorStatus()


def learning_config(application: LLMApplication, pool: ServingPool, record: PredictorStatus) -> LearningConfig | None:
    """None where nothing is learned."""
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
