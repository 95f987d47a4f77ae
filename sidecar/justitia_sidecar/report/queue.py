"""Lists the waiting requests in order, each with why it waits: in front of the engine, on the way, and inside it.

The plug-in lists those inside the engine (`justitia_engine.explain`). A request without a ticket is known only there.
"""

from collections.abc import Callable, Iterator
from typing import Any

from justitia_api.status import QueuedRequest, QueueStatus
from justitia_channel.messages import Queue, WaitingRequest
from justitia_sidecar.admission.admission import Admission
from justitia_sidecar.admission.order import Order
from justitia_sidecar.admission.request import TrackedRequest
from justitia_sidecar.admission.stages import Stage
from justitia_sidecar.current import Current
from justitia_vocabulary.units import RequestId, Seconds
from justitia_vocabulary.waiting import WaitingReason

LISTED_REQUESTS = 1000


async def observe_queue(current: Current, order: Order, clock: Callable[[], Seconds]) -> QueueStatus:
    """List the queue. Raises a refusal with 503 while nothing is configured."""
    current.configured()
    inside = None if order.channel is None else await order.channel.queue(LISTED_REQUESTS)
    admission, now = current.configured().admission, clock()
    if order.channel is None:
        waiting, rows = admission.books.queued, list(waiting_here(admission, now))
    else:
        waiting, rows = waiting_with_engine(admission, inside or Queue(0, []), now)
    listed = rows[:LISTED_REQUESTS]
    return QueueStatus(
        waiting=waiting,
        requests=tuple(QueuedRequest(position=position, **row) for position, row in enumerate(listed, start=1)),
    )


def waiting_here(admission: Admission, now: Seconds) -> Iterator[dict[str, Any]]:
    """The rows of requests that wait in the sidecar, with rank and key if the order is kept here."""
    rank = 0
    for request, reason in admission.waiting(now):
        row = _row(admission, request, reason, now)
        if (key := admission.order_key(request)) is not None:
            rank += 1
            row |= {"rank": rank, "order_key": key}
        yield row


def waiting_with_engine(admission: Admission, queue: Queue, now: Seconds) -> tuple[int, list[dict[str, Any]]]:
    """How many requests wait, and their rows. A sent request that the plug-in does not list is on its way, unless the
    plug-in did not list all.
    """
    rows = [_in_engine(admission, listed, now) for listed in queue.requests]
    sent = [request for request in admission.books.requests.values() if request.stage is Stage.SENT]
    there = {listed.key for listed in queue.requests}
    complete = len(queue.requests) == queue.waiting
    crossing = [request for request in sent if request.id not in there] if complete else []
    rows += [_row(admission, request, WaitingReason.NOT_TOLD, now) for request in crossing]
    rows += waiting_here(admission, now)
    return queue.waiting + len(crossing) + admission.books.queued - len(sent), rows


def _in_engine(admission: Admission, listed: WaitingRequest, now: Seconds) -> dict[str, Any]:
    """The row of a request inside the engine. What the plug-in knows overrules what the sidecar knows: without its
    ticket, a request belongs to nobody there.
    """
    request = admission.books.requests.get(RequestId(listed.key))
    row = _unknown(listed.key, listed.reason) if request is None else _row(admission, request, listed.reason, now)
    row |= {"rank": listed.rank, "order_key": listed.order_key, "sequences": listed.sequences}
    row |= {"prompt_tokens": listed.prompt_tokens, "preemptions": listed.preemptions}
    if listed.tenant is not None:
        row |= {"tenant": listed.tenant, "application": listed.application}
    if request is None:
        row |= {"run": listed.run, "waiting_seconds": round(listed.waiting_seconds, 3)}
    return row


def _row(admission: Admission, request: TrackedRequest, reason: WaitingReason, now: Seconds) -> dict[str, Any]:
    return _unknown(request.id, reason) | {
        "tenant": request.tenant,
        "application": request.application,
        "run": request.run.id,
        "run_name": request.run.name,
        "waiting_seconds": round(request.age(now), 3),
        "prompt_tokens": request.account.prompt,
        "expected_tokens": admission.expected_tokens(request),
    }


def _unknown(key: str, reason: WaitingReason) -> dict[str, Any]:
    return {
        "rank": None,
        "order_key": {},
        "request": key,
        "tenant": "",
        "application": "",
        "run": "",
        "sequences": 1,
        "preemptions": 0,
        "waiting_seconds": 0.0,
        "prompt_tokens": 0,
        "expected_tokens": None,
        "reason": reason,
    }
