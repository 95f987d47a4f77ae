"""The part of a ServingPool that says who shares the engine's prefix cache."""

from typing import Annotated

from pydantic import Field, model_validator

from justitia_api.config import Document
from justitia_api.resource import Label, Name, map_by


class PrefixTenant(Document):
    """A tenant that shares cached prefixes with the other tenants of its group."""

    name: Annotated[Name, Field(description="Name of the Tenant.")]
    group: Annotated[Label, Field(description="Name of the group. All tenants with the same group share.")]


class PrefixCache(Document):
    """Which tenants share cached prefixes with each other."""

    tenants: Annotated[
        tuple[PrefixTenant, ...],
        Field(
            max_length=1024,
            json_schema_extra=map_by("name"),
            description="Tenants that are in a group. A prompt that begins like an earlier one of the same group is "
            "served sooner, so each tenant of a group can find out from the time to the first token how prompts of the "
            "others begin. The requests of a tenant that is not listed share only with each other. A change takes "
            "effect for requests that come after it, without a restart.",
        ),
    ] = ()

    @property
    def groups(self) -> dict[str, str]:
        """Names of groups, by the names of their tenants."""
        return {tenant.name: tenant.group for tenant in self.tenants}

    @model_validator(mode="after")
    def _tenants_once(self) -> "PrefixCache":
        if len(self.groups) < len(self.tenants):
            raise ValueError("tenants of prefixCache must have different names: a tenant is in one group")
        return self
