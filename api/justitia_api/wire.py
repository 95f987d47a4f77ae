"""Names on the wire between clients, sidecar and engine."""

from enum import StrEnum
from http import HTTPStatus

APPLICATION_HEADER = "x-justitia-application"
RUN_HEADER = "x-justitia-run"
RUN_END_HEADER = "x-justitia-run-end"
RUN_ALIAS_HEADERS = ("x-llm-d-inference-fairness-id", "x-gateway-inference-fairness-id")
ENGINE_PRIORITY_HEADER = "x-vllm-priority"

PUBLIC_PORT = 8000
ENGINE_PORT = 8001
ADMIN_PORT = 8002
CONTROL_PORT = 8003
"""Where the operator tells a pod its documents and asks what is in force: TLS, and a token."""

DOCUMENTS_PATH = "/v1/documents"
STATUS_PATH = "/v1/status"
CERTIFICATE_FILE, PRIVATE_KEY_FILE, TOKEN_FILE = "tls.crt", "tls.key", "control-token"
"""What a pod protects its control port with, in one folder."""


class Refusal(StrEnum):
    """Why a request was refused: `code` of the error body and label of the metric."""

    INVALID_API_KEY = "invalid_api_key"
    UNKNOWN_APPLICATION = "unknown_application"
    AMBIGUOUS_APPLICATION = "ambiguous_application"
    MODEL_NOT_FOUND = "model_not_found"
    INVALID_BODY = "invalid_body"
    UNSUPPORTED = "unsupported"
    BODY_TOO_LARGE = "body_too_large"
    PROMPT_TOO_LONG = "prompt_too_long"
    QUEUE_FULL = "queue_full"
    TENANT_QUEUE_FULL = "tenant_queue_full"
    RATE_LIMITED = "rate_limited"
    QUEUE_TIMEOUT = "queue_timeout"
    ENGINE_UNAVAILABLE = "engine_unavailable"
    DRAINING = "draining"
    NOT_CONFIGURED = "not_configured"
    RUN_NOT_FOUND = "run_not_found"

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
    Refusal.ENGINE_UNAVAILABLE: HTTPStatus.SERVICE_UNAVAILABLE,
    Refusal.DRAINING: HTTPStatus.SERVICE_UNAVAILABLE,
    Refusal.NOT_CONFIGURED: HTTPStatus.SERVICE_UNAVAILABLE,
    Refusal.RUN_NOT_FOUND: HTTPStatus.NOT_FOUND,
}
