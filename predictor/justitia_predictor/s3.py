"""Opens buckets, bounds the time of their calls, and words their errors.

A sidecar that ends has 10 s to bring its last samples to the store, in a thread that may be busy with another call. So
each call is over in `LONGEST_CALL`, even if the service is away, is silent, or sends a byte now and then.
"""

import os
import re
from datetime import timedelta
from typing import Any

from obstore.store import from_url

from justitia_vocabulary.units import Seconds

CONNECT_SECONDS, TRY_SECONDS = 2.0, 3.0
"""Timeouts for the connection, and for the whole answer."""
RETRIES = 2
RETRY_SECONDS = 1.0
"""The time after the first try in which others may begin. A service that was silent in the first is not tried again."""
LONGEST_CALL: Seconds = RETRY_SECONDS + TRY_SECONDS
LONGEST_REASON = 300
"""The most characters of a reason."""

_ENDPOINTS = ("AWS_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3")
_FAILED_REQUEST = re.compile(r"Error performing ([A-Z]+ \S+) in .*? - (.*)")
_REFUSED = re.compile(r"status code: (\d{3}[A-Za-z ]*)")
_CODE = re.compile(r"<Code>(\w+)</Code>")
_SECRETS = re.compile(r"(?<=://)[^/\s@]*@|\?\S*")
"""Matches user names in addresses, and queries, one of which may have a token for temporary keys."""


def open_bucket(url: str) -> Any:
    """Open a bucket, without a connection. Raises what obstore raises."""
    # Options given here replace those of the environment: an endpoint without TLS must begin with http://.
    plain = any(os.environ.get(name, "").startswith("http://") for name in _ENDPOINTS)
    return from_url(
        url,
        client_options={
            "connect_timeout": timedelta(seconds=CONNECT_SECONDS),
            "timeout": timedelta(seconds=TRY_SECONDS),
            "allow_http": plain,
        },
        retry_config={
            "max_retries": RETRIES,
            "retry_timeout": timedelta(seconds=RETRY_SECONDS),
            "backoff": {
                "init_backoff": timedelta(seconds=RETRY_SECONDS / 10),
                "max_backoff": timedelta(seconds=RETRY_SECONDS / 2),
                "base": 2,
            },
        },
    )


def lacks_object(error: FileNotFoundError) -> bool:
    """Whether the object is missing. A bucket may be missing too, and gateways answer 404 for other reasons."""
    by_a_service = "Error performing" in str(error)
    return not by_a_service or _code_of(error) == "NoSuchKey"


def reason_of(error: BaseException) -> str:
    """The reason in one line, without the service's long message: that contains the key's name and what was signed."""
    message = str(error)
    line = _SECRETS.sub("", message.partition("\n")[0].removeprefix("Generic S3 error: "))
    if request := _FAILED_REQUEST.search(line):
        if refused := _REFUSED.search(request[2]):
            why = ": ".join(filter(None, (refused[1].strip(), _code_of(error))))
        elif "kind: Timeout" in message:
            why = "no answer in time"
        else:
            why = request[2]
        line = f"{request[1]}: {why}"
    return line[:LONGEST_REASON]


def _code_of(error: BaseException) -> str | None:
    """The code of the service's refusal, if it has one."""
    code = _CODE.search(str(error))
    return code[1] if code else None
