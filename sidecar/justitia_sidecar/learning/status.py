"""What a sidecar reports of its predictors: for each application that is learned from, samples, models and errors."""

from justitia_api.config import ApplicationConfig, LearningConfig, PoolConfig
from justitia_api.status import LearningStatus
from justitia_sidecar.learning.application_table import ApplicationTable
from justitia_sidecar.learning.model_table import ModelTable


def learning_status(
    config: PoolConfig, applications: ApplicationTable, models: ModelTable
) -> tuple[LearningStatus, ...]:
    """`config` is the configuration in effect, with which both tables were configured."""
    return tuple(
        _status(application, application.learning, applications, models)
        for application in config.applications
        if application.learning is not None
    )


def _status(
    application: ApplicationConfig, learning: LearningConfig, applications: ApplicationTable, models: ModelTable
) -> LearningStatus:
    learned = applications.learned(learning.name)
    assert learned is not None
    evidence = learned.evidence
    return LearningStatus(
        namespace=application.namespace,
        name=application.name,
        samples=learned.stored,
        version=models.status(learning.name, learning.version, evidence.version_errors),
        candidate=models.status(learning.name, learning.candidate, evidence.candidate_errors),
    )
