"""The Valkey over which a pool's engines share what they know."""

from typing import Annotated

from pydantic import Field, model_validator

from justitia_api.config import SERVER_ADDRESS, Document, ServerKind
from justitia_api.resource import SET, LocalReference, rules

PRIMARY_NAME = "primaryName goes with kind Sentinel, and must be set there: set both, or neither"

VALKEY_RULES = rules(("(self.kind == 'Sentinel') == has(self.primaryName)", PRIMARY_NAME))


class ValkeySpec(Document):
    """A Valkey, or another server of the Redis 7 protocol."""

    addresses: Annotated[
        tuple[Annotated[str, Field(max_length=261, pattern=SERVER_ADDRESS)], ...],
        Field(
            min_length=1,
            max_length=16,
            json_schema_extra=SET,
            description="HOST:PORT of the server, of its sentinels, or of some nodes of its cluster.",
        ),
    ]
    kind: Annotated[
        ServerKind,
        Field(
            description="What answers at the addresses. Server: the server itself; more addresses than one are "
            "ignored. Sentinel: sentinels, which say where the primary is. Cluster: nodes of a cluster."
        ),
    ] = ServerKind.SERVER
    primary_name: Annotated[
        str | None,
        Field(
            min_length=1,
            max_length=256,
            description="With kind Sentinel: the name under which the sentinels know the primary.",
        ),
    ] = None
    tls: Annotated[bool, Field(description="Whether connections are encrypted, and the server's name is checked.")] = (
        False
    )
    secret_ref: Annotated[
        LocalReference | None,
        Field(
            description="Secret in the pool's namespace with entries username and password for a user that the server "
            "knows, and ca.crt if the authority that signed the server's certificate is not a public one. A change of "
            "it takes effect without a restart. Give each pool a user of its own, confined to the keys "
            "justitia:{NAMESPACE/NAME of the pool}:*, or a pool's pods can write for another pool."
        ),
    ] = None

    @model_validator(mode="after")
    def _primary_of_sentinels(self) -> "ValkeySpec":
        if (self.kind is ServerKind.SENTINEL) != (self.primary_name is not None):
            raise ValueError(PRIMARY_NAME)
        return self
