"""A ServingPool behind a gateway of the Kubernetes Gateway API."""

from typing import Annotated

from pydantic import Field

from justitia_api.config import Document
from justitia_api.resource import ATOMIC, SET, Label, Name, rules

NAME_AND_PORT = "set both name and port for a picker of your own, or neither for the pool's"
HOSTNAME = r"^(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"


class ParentReference(Document):
    """Names a Gateway."""

    name: Annotated[Name, Field(description="Name of the Gateway.")]
    namespace: Annotated[
        Label | None,
        Field(
            description="Namespace of the Gateway; the pool's own if unset. A Gateway in another namespace must allow "
            "routes from the pool's namespace (listeners[].allowedRoutes)."
        ),
    ] = None
    section_name: Annotated[
        Name | None, Field(description="Name of one of its listeners; all that accept the route if unset.")
    ] = None


class EndpointPicker(Document):
    """An endpoint picker: the pool's own, or the one of a Service."""

    name: Annotated[
        Name | None,
        Field(
            description="Name of the Service of a picker that you run, in the pool's namespace. Unset: each pod of the "
            "pool has a picker, which knows what the pool's engines have to do."
        ),
    ] = None
    port: Annotated[
        int | None, Field(ge=1, le=65535, description="Port of that Service, which the gateway calls (gRPC).")
    ] = None

    @property
    def own(self) -> bool:
        """Whether the pool's own pickers are asked."""
        return self.name is None


class GatewaySpec(Document):
    """How requests reach the pool through a gateway. Several pools may share one address: the model decides."""

    parent_refs: Annotated[
        tuple[ParentReference, ...],
        Field(
            min_length=1,
            max_length=32,
            json_schema_extra=ATOMIC,
            description="Gateways through which requests come. The pool gets an HTTPRoute for the header "
            "X-Gateway-Model-Name, with the model's name and those of its adapters, for every path: the base URL is "
            "http://GATEWAY/applications/NAMESPACE/NAME/v1, or http://GATEWAY/v1 with the header "
            "x-justitia-application. The gateway's body-based router sets X-Gateway-Model-Name from the request's "
            "model. Clients set it themselves if there is no such router, and for requests without a body, such as GET "
            "/v1/models.",
        ),
    ]
    hostnames: Annotated[
        tuple[Annotated[str, Field(min_length=1, max_length=253, pattern=HOSTNAME)], ...],
        Field(
            max_length=16, json_schema_extra=SET, description="Host names of the requests; all host names when empty."
        ),
    ] = ()
    endpoint_picker: Annotated[
        EndpointPicker | None,
        Field(
            json_schema_extra=rules(("has(self.name) == has(self.port)", NAME_AND_PORT)),
            description="Chooses the engine for a request, as in the Gateway API Inference Extension: the pool gets an "
            "InferencePool, to which the HTTPRoute leads instead of the Service. Its endpoints are the sidecars. With "
            "{} the pool's own pickers choose: the gateway sends a request straight to the pod whose engine has least "
            "to do. A picker that you run finds no metrics of vLLM at the sidecars.",
        ),
    ] = None
