"""Which other namespaces may refer to a Tenant or a ServingPool."""

from typing import Annotated

from pydantic import Field, model_validator

from justitia_api.config import Document
from justitia_api.resource import SET, Label, rules

ONE_OF_THEM = "exactly one of names and selector must be set"
NAMESPACES_RULE = rules(("has(self.names) != has(self.selector)", ONE_OF_THEM))

LabelValue = Annotated[str, Field(max_length=63, description="Value that the label must have.")]


class LabelSelector(Document):
    """Chooses namespaces by their labels; all given labels must match."""

    match_labels: Annotated[
        dict[str, LabelValue],
        Field(min_length=1, max_length=16, description="Labels that a namespace must have, with their values."),
    ]


class NamespaceSelection(Document):
    """Namespaces by name or by label."""

    names: Annotated[
        tuple[Label, ...] | None,
        Field(min_length=1, max_length=256, json_schema_extra=SET, description="Names of the namespaces."),
    ] = None
    selector: Annotated[LabelSelector | None, Field(description="Labels of the namespaces.")] = None

    @model_validator(mode="after")
    def _exactly_one(self) -> "NamespaceSelection":
        if (self.names is None) == (self.selector is None):
            raise ValueError(ONE_OF_THEM)
        return self
