"""Tenant: who is served, with what weight, under which API keys, from which namespaces."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from justitia_api.config import Document, TenantLimits
from justitia_api.namespaces import NAMESPACES_RULE, NamespaceSelection
from justitia_api.resource import (
    AGE,
    ATOMIC,
    WEIGHT_RANGE,
    WEIGHT_RULE,
    Column,
    Definition,
    Label,
    Resource,
    ResourceStatus,
    SecretKeyReference,
    Weight,
    condition_column,
    in_weight_range,
    map_by,
    reason_column,
    rules,
)

LONGEST_LIST = 1024


class ApiKey(Document):
    """One API key of the tenant."""

    secret_ref: Annotated[
        SecretKeyReference,
        Field(
            description="The Secret that holds the key, in the namespace where the operator reads key Secrets (its own "
            "unless configured otherwise). The key must have at least 16 bytes; white space around it is ignored."
        ),
    ]


class TenantSpec(Document):
    """What the tenant is entitled to."""

    tier: Annotated[
        Label | None,
        Field(
            description="Name of a tier in the pool's scheduling.tiers, which gives the weight. Must not be set "
            "together with weight."
        ),
    ] = None
    weight: Annotated[
        Weight | None,
        Field(
            json_schema_extra=WEIGHT_RULE,
            description="The tenant's share of service relative to other tenants, in every pool: a decimal number "
            f"{WEIGHT_RANGE}. Must not be set together with tier; 1 when neither is set.",
        ),
    ] = None
    namespaces: Annotated[
        NamespaceSelection,
        Field(
            json_schema_extra=NAMESPACES_RULE,
            description="Namespaces whose applications may be served as this tenant.",
        ),
    ]
    api_keys: Annotated[
        tuple[ApiKey, ...],
        Field(
            min_length=1,
            max_length=16,
            json_schema_extra=ATOMIC,
            description="Keys with which clients authenticate as this tenant. Several keys make rotation possible.",
        ),
    ]
    limits: Annotated[
        TenantLimits | None,
        Field(
            description="Limits of the tenant in each pool; no limits if unset. They count over all engines of a pool "
            "where these share: with a Valkey, enforcement Engine and several replicas. Else they count in each engine."
        ),
    ] = None

    @model_validator(mode="after")
    def _tier_or_weight(self) -> "TenantSpec":
        if self.tier is not None and self.weight is not None:
            raise ValueError("tier and weight cannot both be set: remove one")
        if self.weight is not None and not in_weight_range(self.weight):
            raise ValueError(f"weight must be {WEIGHT_RANGE}")
        return self


class WeightInPool(Document):
    """The tenant's weight in one pool."""

    pool: Annotated[str, Field(max_length=320, description="The pool as namespace/name.")]
    weight: Annotated[str, Field(max_length=16, description="The weight in effect in that pool.")]


class TenantStatus(ResourceStatus):
    """What the operator observed of the tenant."""

    applications: Annotated[int | None, Field(ge=0, description="Applications that are served as the tenant.")] = None
    weights: Annotated[
        tuple[WeightInPool, ...],
        Field(
            max_length=LONGEST_LIST,
            json_schema_extra=map_by("pool"),
            description="The weight in effect in each pool where the tenant has an application and the policy has "
            "weights.",
        ),
    ] = ()


class Tenant(Resource):
    kind: Literal["Tenant"]
    spec: TenantSpec

    definition: ClassVar[Definition] = Definition(
        plural="tenants",
        singular="tenant",
        short_names=("tn",),
        namespaced=False,
        description="A Tenant is somebody whose requests are served, with a weight, API keys and limits, through the "
        "applications of given namespaces.",
        columns=(
            Column("Tier", "string", ".spec.tier", "Tier of the tenant."),
            Column("Weight", "string", ".spec.weight", "Weight given instead of a tier."),
            Column("Applications", "integer", ".status.applications", "Applications served as the tenant."),
            condition_column("Ready", "Ready"),
            reason_column(),
            AGE,
        ),
    )


SPEC_RULES = rules(("!(has(self.tier) && has(self.weight))", "tier and weight cannot both be set: remove one"))
