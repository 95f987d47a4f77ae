"""Refusals of requests. One refusal gives the status code, the error body, the metric's label and Retry-After.

The body is OpenAI's: `{"error": {"message", "type", "param", "code"}}`; `code` is the machine-readable reason.
"""

import math
from http import HTTPStatus

import msgspec

from justitia_api.wire import Refusal
from justitia_vocabulary.units import Seconds

_TYPES = {
    HTTPStatus.UNAUTHORIZED: "authentication_error",
    HTTPStatus.TOO_MANY_REQUESTS: "rate_limit_error",
    HTTPStatus.SERVICE_UNAVAILABLE: "service_unavailable_error",
}

Headers = list[tuple[bytes, bytes]]


MOST_SHOWN = 100
"""The most characters of what a client sent that a message repeats."""


def shown(value: str) -> str:
    """What a client sent, quoted and cut for a message."""
    quoted = repr(value[: MOST_SHOWN + 1])
    return quoted if len(quoted) <= MOST_SHOWN + 2 else quoted[:MOST_SHOWN] + "..."


class RefusalError(Exception):
    """Raised to refuse a request, before the first byte of an answer. `message` says what to do. `elsewhere` says that
    another engine of the pool may serve the request, which this one has not begun.
    """

    def __init__(
        self,
        refusal: Refusal,
        message: str,
        *,
        param: str | None = None,
        retry_after: Seconds | None = None,
        elsewhere: bool = False,
    ) -> None:
        super().__init__(message)
        self.refusal = refusal
        self.message = message
        self.param = param
        self.retry_after = retry_after
        self.elsewhere = elsewhere

    @property
    def body(self) -> bytes:
        return error_body(self.refusal, self.message, self.param)

    @property
    def headers(self) -> Headers:
        headers = [(b"content-type", b"application/json")]
        status = self.refusal.status
        if status is HTTPStatus.UNAUTHORIZED:
            headers.append((b"www-authenticate", b"Bearer"))
        if status in (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE):
            headers.append((b"retry-after", b"%d" % max(1, math.ceil(self.retry_after or 1))))
        return headers


def error_body(refusal: Refusal, message: str, param: str | None = None) -> bytes:
    kind = _TYPES.get(refusal.status, "invalid_request_error")
    return msgspec.json.encode({"error": {"message": message, "type": kind, "param": param, "code": refusal.value}})


def broken_off() -> bytes:
    """The event that ends a stream whose engine failed."""
    message = "The engine failed while it produced this answer: send the request again."
    return b"data: " + error_body(Refusal.ENGINE_UNAVAILABLE, message) + b"\n\n"


def not_configured() -> RefusalError:
    return RefusalError(
        Refusal.NOT_CONFIGURED,
        "This server has no valid configuration yet: retry shortly.",
        retry_after=2,
        elsewhere=True,
    )


def too_many_open() -> RefusalError:
    return RefusalError(Refusal.QUEUE_FULL, "Your tenant has too many requests open here: retry later.", retry_after=5)


def draining() -> RefusalError:
    return RefusalError(
        Refusal.DRAINING,
        "This server is shutting down: retry, and another one will take the request.",
        retry_after=1,
        elsewhere=True,
    )


def engine_unavailable(*, begun: bool = False) -> RefusalError:
    """`begun` says that the engine may have begun the request. Such a one goes to no other engine by itself: it may be
    what this one failed of.
    """
    return RefusalError(
        Refusal.ENGINE_UNAVAILABLE,
        "The engine does not answer at the moment: retry shortly.",
        retry_after=2,
        elsewhere=not begun,
    )
