"""What is expected of a request before it is read: by its size, and by what its application's requests were like."""

from justitia_sidecar.admission.pool_runs import name_of
from justitia_sidecar.identity import recognition
from justitia_sidecar.identity.recognition import RequestHeaders
from justitia_sidecar.pool.peers import Expected
from justitia_sidecar.request.parts import Parts
from justitia_vocabulary.units import ApplicationId, TenantId

_MOST_DIGITS = 20


def expected_unread(
    parts: Parts, tenant: TenantId, application: ApplicationId, headers: RequestHeaders, size: int
) -> Expected:
    """`size` is what the client says of its body, in bytes. Raises a refusal if the run's id is too long."""
    in_effect = parts.current.configured()
    run = recognition.run_id(headers, None)
    return Expected(
        parts.tokens_per_byte.estimate(application, min(size, in_effect.config.queue.maximum_body_bytes)),
        in_effect.admission.books.outputs.expect(application, None),
        None if run is None else parts.peers.prefix(name_of((tenant, application, run))),
    )


def declared_size(headers: RequestHeaders) -> int:
    """The bytes of its body, as far as the client has said; 0 where that is no number of bytes."""
    declared = headers.get(b"content-length", b"")
    return int(declared) if declared.isdigit() and len(declared) < _MOST_DIGITS else 0
