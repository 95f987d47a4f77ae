"""Names that clients, sidecar, operator and engine use between each other."""

from enum import StrEnum
from http import HTTPStatus

APPLICATION_HEADER = "x-justitia-application"
RUN_HEADER = "x-justitia-run"
RUN_END_HEADER = "x-justitia-run-end"
RUN_ALIAS_HEADERS = ("x-llm-d-inference-fairness-id", "x-gateway-inference-fairness-id")
BEYOND_OBJECTIVE_HEADER = "x-justitia-beyond-objective"
"""In an answer whose request was expected to miss an objective when it arrived: the metric, what was expected and the
bound, in seconds, and whether the request was deferred: `TimeToFirstToken; expected=12.3; bound=1.5; deferred`.
"""
TENANT_HEADER = "x-justitia-tenant"
"""Between the sidecars of a pool alone: whose request it is that one passes on to another."""
WAITED_HEADER = "x-justitia-waited"
"""Beside it: how long ago the request came in, in seconds."""
HANDED_BACK_HEADER = "x-justitia-handed-back"
"""In the answer: the request is not begun, and may be served elsewhere."""
PICKED_HEADER = "x-justitia-picked"
"""From an endpoint picker to the pod that it has picked for a request: the bytes of the body, as far as the client has
said. Gateways that show bodies to a picker drop `content-length`. Who makes it up harms its own request alone.
"""
ENGINE_PRIORITY_HEADER = "x-vllm-priority"

PUBLIC_PORT = 8000
ENGINE_PORT = 8001
ADMIN_PORT = 8002
CONTROL_PORT = 8003
"""The port at which the operator sends a pod its documents and asks what is in effect, with TLS and a token."""

PEER_PORT = 8004
"""The port at which a sidecar takes requests from its pool's others, with TLS and certificates on both sides."""

PICKER_PORT = 8005
"""The port at which gateways ask which pod of a pool gets a request: gRPC, with TLS."""

DOCUMENTS_PATH = "/v1/documents"
STATUS_PATH = "/v1/status"
CERTIFICATE_FILE, PRIVATE_KEY_FILE, TOKEN_FILE = "tls.crt", "tls.key", "control-token"
"""The files with which a pod protects its control port, in one folder."""
PEER_CERTIFICATE_FILE, PEER_KEY_FILE, PEERS_FILE = "peer.crt", "peer.key", "peers.crt"
"""A sidecar's certificate for the pool's others, its key, and the certificates that it takes from them."""
PEER_NAME = "peer.justitia.dev"
"""The name in the certificates of sidecars. It is never resolved."""


def authority(host: str, port: int | str) -> str:
    """HOST:PORT as URLs have it: an IPv6 address stands in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class HandedBack(StrEnum):
    """What a sidecar does not serve, of the requests that others pass on to it: the value of `HANDED_BACK_HEADER`."""

    ENGINE = "engine"
    """None, until the sidecar says that it does."""
    REQUEST = "request"
    """This one alone."""


class Refusal(StrEnum):
    """Why a request was refused: `code` of the error body and label of the metric. Each says what a client can do."""

    INVALID_API_KEY = "invalid_api_key"
    """The request has no API key, or one that no tenant of the pool has. Send `Authorization: Bearer KEY`, and ask the
    owner of your tenant which key is valid.
    """
    UNKNOWN_APPLICATION = "unknown_application"
    """The tenant has no application of that name in this pool. Use the endpoint in the status of your LLMApplication,
    or one of the names in the message.
    """
    AMBIGUOUS_APPLICATION = "ambiguous_application"
    """The tenant has several applications in this pool, and the request names none. Name one in the path, or in the
    header `x-justitia-application`.
    """
    MODEL_NOT_FOUND = "model_not_found"
    """The pool does not serve this model to the tenant. Ask for one that `GET /v1/models` lists."""
    INVALID_BODY = "invalid_body"
    """The body is not a valid request to this endpoint. Correct what the message names."""
    UNSUPPORTED = "unsupported"
    """The request asks for something that cannot be ordered or counted, such as beams, or for more at once than a bound
    allows. Change what the message names; several requests of one run often do the same.
    """
    BODY_TOO_LARGE = "body_too_large"
    """The body is larger than the pool accepts. Shorten the prompt."""
    PROMPT_TOO_LONG = "prompt_too_long"
    """Prompt and output together are longer than a request may be in this pool. Shorten the prompt, or lower
    `max_tokens`.
    """
    QUEUE_FULL = "queue_full"
    """The pool's queue or the sidecar's memory is full, and the tenant has used up its share of it. Retry later."""
    TENANT_QUEUE_FULL = "tenant_queue_full"
    """The tenant has as many waiting requests as its limit `queuedRequests` allows. Retry later, or send fewer."""
    RATE_LIMITED = "rate_limited"
    """The tenant has used up its `tokensPerMinute`. Retry later."""
    QUEUE_TIMEOUT = "queue_timeout"
    """The request has waited for as long as the pool's `queue.timeoutSeconds` allows. Retry when the load is lower."""
    BEYOND_OBJECTIVE = "beyond_objective"
    """The request is expected to miss an objective of its application, which asks for a refusal then
    (`spec.beyondObjective`). The message says what is expected, and the bound. Retry after the time in `Retry-After`,
    or send less at a time; if it lasts, see the condition SLOMet of the LLMApplication.
    """
    ENGINE_UNAVAILABLE = "engine_unavailable"
    """The engine does not answer. Retry shortly; if it lasts, see the conditions of the ServingPool."""
    DRAINING = "draining"
    """The pod is shutting down. Retry at once: another pod of the pool takes the request."""
    NOT_CONFIGURED = "not_configured"
    """The sidecar has no valid configuration yet. Retry shortly."""
    RUN_NOT_FOUND = "run_not_found"
    """The application has no open run of that name. It may have ended already, so there is nothing to do."""

    @property
    def status(self) -> HTTPStatus:
        return _STATUS[self]


_STATUS = {
    Refusal.INVALID_API_KEY: HTTPStatus.UNAUTHORIZED,
    Refusal.UNKNOWN_APPLICATION: HTTPStatus.BAD_REQUEST,
    Refusal.AMBIGUOUS_APPLICATION: HTTPStatus.BAD_REQUEST,
    Refusal.MODEL_NOT_FOUND: HTTPStatus.NOT_FOUND,
    Refusal.INVALID_BODY: HTTPStatus.BAD_REQUEST,
    Refusal.UNSUPPORTED: HTTPStatus.BAD_REQUEST,
    Refusal.BODY_TOO_LARGE: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    Refusal.PROMPT_TOO_LONG: HTTPStatus.BAD_REQUEST,
    Refusal.QUEUE_FULL: HTTPStatus.TOO_MANY_REQUESTS,
    Refusal.TENANT_QUEUE_FULL: HTTPStatus.TOO_MANY_REQUESTS,
    Refusal.RATE_LIMITED: HTTPStatus.TOO_MANY_REQUESTS,
    Refusal.QUEUE_TIMEOUT: HTTPStatus.SERVICE_UNAVAILABLE,
    Refusal.BEYOND_OBJECTIVE: HTTPStatus.SERVICE_UNAVAILABLE,
    Refusal.ENGINE_UNAVAILABLE: HTTPStatus.SERVICE_UNAVAILABLE,
    Refusal.DRAINING: HTTPStatus.SERVICE_UNAVAILABLE,
    Refusal.NOT_CONFIGURED: HTTPStatus.SERVICE_UNAVAILABLE,
    Refusal.RUN_NOT_FOUND: HTTPStatus.NOT_FOUND,
}
