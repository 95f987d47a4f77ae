"""What waits, in order, each request with why: in front of the engine, on its way, and inside the engine.

What waits inside the engine the plug-in tells (`justitia_engine.explain`); a request without a ticket is seen there
only.
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
    """Raises a refusal with 503 while nothing is configured."""
    current.configured()
    told = None if order.channel is None else await order.channel.queue(LISTED_REQUESTS)
    admission, now = current.configured().admission, clock()
    if order.channel is None:
        waiting, rows = admission.books.queued, list(waiting_here(admission, now))
    else:
        waiting, rows = waiting_with_engine(admission, told or Queue(0, []), now)
    listed = rows[:LISTED_REQUESTS]
    return QueueStatus(
        waiting=waiting,
        requests=tuple(QueuedRequest(position=position, **row) for position, row in enumerate(listed, start=1)),
    )


def waiting_here(admission: Admission, now: Seconds) -> Iterator[dict[str, Any]]:
    """What waits in the sidecar, with rank and key where the order is kept here."""
    rank = 0
    for request, reason in admission.waiting(now):
        row = _row(admission, request, reason, now)
        if (key := admission.order_key(request)) is not None:
            rank += 1
            row |= {"rank": rank, "order_key": key}
        yield row


def waiting_with_engine(admission: Admission, queue: Queue, now: Seconds) -> tuple[int, list[dict[str, Any]]]:
    """How many wait, and the rows. Where not all that wait in the engine are listed, none is known not to be there."""
    rows = [_in_engine(admission, told, now) for told in queue.requests]
    sent = [request for request in admission.books.requests.values() if request.stage is Stage.SENT]
    there = {told.key for told in queue.requests}
    complete = len(queue.requests) == queue.waiting
    untold = [request for request in sent if request.id not in there] if complete else []
    rows += [_row(admission, request, WaitingReason.NOT_TOLD, now) for request in untold]
    rows += waiting_here(admission, now)
    return queue.waiting + len(untold) + admission.books.queued - len(sent), rows


def _in_engine(admission: Admission, told: WaitingRequest, now: Seconds) -> dict[str, Any]:
    """What the engine knows goes before what the sidecar knows: without its ticket a request is nobody's there."""
    request = admission.books.requests.get(RequestId(told.key))
    row = _unknown(told.key, told.reason) if request is None else _row(admission, request, told.reason, now)
    row |= {"rank": told.rank, "order_key": told.order_key, "sequences": told.sequences}
    row |= {"prompt_tokens": told.prompt_tokens, "preemptions": told.preemptions}
    if told.tenant is not None:
        row |= {"tenant": told.tenant, "application": told.application}
    if request is None:
        row |= {"run": told.run, "waiting_seconds": round(told.waiting_seconds, 3)}
    return row


def _row(admission: Admission, request: TrackedRequest, reason: WaitingReason, now: Seconds) -> dict[str, Any]:
    return _unknown(request.id, reason) | {
        "tenant": request.tenant,
        "application": request.application,
        "run": request.run.id,
        "run_name": request.run.name,
        "waiting_seconds": round(request.age(now), 3),
        "prompt_tokens": request.account.prompt,
        "reserved_tokens": admission.reservation(request),
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
        "reserved_tokens": None,
        "reason": reason,
    }
