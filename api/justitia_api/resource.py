"""Common parts of the custom resources: group, version, field types and their limits."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema
from pydantic.alias_generators import to_camel

from justitia_api.conditions import Condition
from justitia_api.config import Document

GROUP = "justitia.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"

DNS_LABEL = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
DNS_SUBDOMAIN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"

Name = Annotated[str, Field(min_length=1, max_length=253, pattern=DNS_SUBDOMAIN)]
Label = Annotated[str, Field(min_length=1, max_length=63, pattern=DNS_LABEL)]
Decimal = Annotated[str, Field(min_length=1, max_length=16, pattern=r"^[0-9]{1,6}(\.[0-9]{1,6})?$")]
Weight = Decimal
QUANTITY = r"^[0-9]+(\.[0-9]*)?([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$"
Quantity = Annotated[
    int | Annotated[str, Field(max_length=32, pattern=QUANTITY)],
    WithJsonSchema(
        {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "x-kubernetes-int-or-string": True,
            "maxLength": 32,
            "pattern": QUANTITY,
            "description": "An amount as Kubernetes writes it, for example 1, 500m or 16Gi.",
        }
    ),
]


def rules(*pairs: tuple[str, str]) -> dict[str, Any]:
    """Schema extension for CEL rules, each with the message that a user gets."""
    return {"x-kubernetes-validations": [{"rule": rule, "message": message} for rule, message in pairs]}


def map_by(*keys: str) -> dict[str, Any]:
    """Schema extension for a list whose items are told apart by these fields."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}


ATOMIC: dict[str, Any] = {"x-kubernetes-list-type": "atomic"}
SET: dict[str, Any] = {"x-kubernetes-list-type": "set"}

LEAST_WEIGHT, MOST_WEIGHT = 0.001, 1000.0
"""Between them what tenants are charged is counted exactly, however long an engine runs."""
WEIGHT_RANGE = f"from {LEAST_WEIGHT:g} to {MOST_WEIGHT:g}"
WEIGHT_RULE = rules((f"double(self) >= {LEAST_WEIGHT} && double(self) <= {MOST_WEIGHT}", f"must be {WEIGHT_RANGE}"))
POSITIVE = rules(("double(self) > 0.0", "must be greater than 0"))


def in_weight_range(weight: str) -> bool:
    """Whether a tenant may have that weight, a decimal number."""
    return LEAST_WEIGHT <= float(weight) <= MOST_WEIGHT


Conditions = Annotated[
    tuple[Condition, ...],
    Field(max_length=16, json_schema_extra=map_by("type"), description="Observations about the resource's state."),
]


class LocalReference(Document):
    """Names an object in the same namespace, or a cluster-wide one."""

    name: Annotated[Name, Field(description="Name of the object.")]


class PoolReference(Document):
    """Names a ServingPool."""

    name: Annotated[Name, Field(description="Name of the ServingPool.")]
    namespace: Annotated[
        Label | None,
        Field(
            description="Namespace of the ServingPool; the application's own if unset. A pool in another namespace "
            "must list the application's namespace in its allowedNamespaces."
        ),
    ] = None


class SecretKeyReference(Document):
    """Names one entry of a Secret."""

    name: Annotated[Name, Field(description="Name of the Secret.")]
    key: Annotated[
        str,
        Field(min_length=1, max_length=253, pattern=r"^[-._a-zA-Z0-9]+$", description="Entry of the Secret to use."),
    ] = "token"


class ResourceStatus(Document):
    """What the operator reports about a resource."""

    observed_generation: Annotated[
        int | None, Field(ge=0, description="The metadata.generation that the status was computed from.")
    ] = None
    conditions: Conditions = ()


class ObjectMeta(BaseModel):
    """The part of Kubernetes' metadata that decisions depend on. The rest is ignored."""

    model_config = ConfigDict(alias_generator=to_camel, validate_by_name=True, extra="ignore", frozen=True)

    name: str
    namespace: str = ""
    uid: str = ""
    generation: int = 1
    creation_timestamp: str = ""


class Resource(BaseModel):
    """An object of one of the custom resource types: fields as `kubectl` shows them."""

    model_config = ConfigDict(alias_generator=to_camel, validate_by_name=True, extra="forbid", frozen=True)
    definition: ClassVar["Definition"]

    api_version: Literal["justitia.dev/v1alpha1"]
    kind: str
    metadata: ObjectMeta


@dataclass(frozen=True)
class Column:
    """A column of `kubectl get`."""

    name: str
    type: Literal["string", "integer", "date"]
    path: str
    description: str
    wide: bool = False


@dataclass(frozen=True)
class Definition:
    """How a type is described to Kubernetes."""

    plural: str
    singular: str
    short_names: tuple[str, ...]
    namespaced: bool
    description: str
    columns: tuple[Column, ...]
    scale: bool = False
    object_rules: tuple[tuple[str, str], ...] = ()


AGE = Column("Age", "date", ".metadata.creationTimestamp", "Time since the object was created.")


def condition_column(name: str, type_: str, wide: bool = False) -> Column:
    return Column(name, "string", f'.status.conditions[?(@.type=="{type_}")].status', f"Condition {type_}.", wide)


def reason_column() -> Column:
    path = '.status.conditions[?(@.type=="Ready")].reason'
    return Column("Reason", "string", path, "Reason of the condition Ready.")
