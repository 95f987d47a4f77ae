"""How buckets are spoken to: for how long, and what is told of it when it fails.

A scheduler that ends brings its last samples away and has 10 s for that, in a thread that may be busy with another
call. So each call is over in `LONGEST_CALL`, whether the service is away, is silent, or sends a byte now and then.
"""

import os
import re
from datetime import timedelta
from typing import Any

from obstore.store import from_url

from justitia_vocabulary.units import Seconds

CONNECT_SECONDS, TRY_SECONDS = 2.0, 3.0
"""To be connected; to have the whole answer."""
RETRIES = 2
RETRY_SECONDS = 1.0
"""After the first try, when no other is begun any more. A service that was silent in the first is not tried again."""
LONGEST_CALL: Seconds = RETRY_SECONDS + TRY_SECONDS
LONGEST_REASON = 300
"""Characters."""

_ENDPOINTS = ("AWS_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3")
_FAILED_REQUEST = re.compile(r"Error performing ([A-Z]+ \S+) in .*? - (.*)")
_REFUSED = re.compile(r"status code: (\d{3}[A-Za-z ]*)")
_CODE = re.compile(r"<Code>(\w+)</Code>")
_SECRETS = re.compile(r"(?<=://)[^/\s@]*@|\?\S*")
"""User names in addresses, and queries: a token for temporary keys is asked for in one."""


def open_bucket(url: str) -> Any:
    """Raises what obstore raises. No connection is made."""
    # The client takes options from here alone: an endpoint without TLS is one that says so.
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
    """Whether it is the object that is not there: a bucket may not be either, and gateways answer 404 to much else."""
    by_a_service = "Error performing" in str(error)
    return not by_a_service or _code_of(error) == "NoSuchKey"


def reason_of(error: BaseException) -> str:
    """In a line, without what the service says at length: it tells the key and what was signed with it."""
    told = str(error)
    line = _SECRETS.sub("", told.partition("\n")[0].removeprefix("Generic S3 error: "))
    if request := _FAILED_REQUEST.search(line):
        if refused := _REFUSED.search(request[2]):
            why = ": ".join(filter(None, (refused[1].strip(), _code_of(error))))
        elif "kind: Timeout" in told:
            why = "no answer in time"
        else:
            why = request[2]
        line = f"{request[1]}: {why}"
    return line[:LONGEST_REASON]


def _code_of(error: BaseException) -> str | None:
    """As the service names its refusal."""
    code = _CODE.search(str(error))
    return code[1] if code else None
