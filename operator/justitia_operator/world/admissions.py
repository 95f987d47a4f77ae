"""Results of resolving references: who is admitted to which pool, and with which keys."""

from dataclasses import dataclass, field

from justitia_api.application import LLMApplication
from justitia_api.config import LearningConfig
from justitia_api.pool import ServingPool
from justitia_api.tenant import Tenant
from justitia_operator.world.verdicts import Refused


@dataclass(frozen=True)
class AdmittedApplication:
    """An application that is admitted to its pool."""

    application: LLMApplication
    tenant: Tenant
    pool: ServingPool
    weight: str
    learning: LearningConfig | None


@dataclass(frozen=True)
class TenantKeys:
    """A tenant's usable keys, which are secret, and what is wrong with the others."""

    values: tuple[bytes, ...] = field(repr=False)
    problems: tuple[Refused, ...]
