"""What waits, in order, each request with why: in front of the engine, on its way, and inside the engine.

What waits inside the engine its scheduler tells (`justitia_engine.explain`); a request without a ticket is seen there
only.
"""

from collections.abc import Iterator
from typing import Any

from justitia_api.status import QueuedRequest, QueueStatus
from justitia_channel.messages import Queue, WaitingRequest
from justitia_sidecar.admission.admission import Admission
from justitia_sidecar.admission.ticket import Stage, Ticket
from justitia_sidecar.service import Sidecar
from justitia_vocabulary.units import RequestId, Seconds
from justitia_vocabulary.waiting import WaitingReason

LISTED_REQUESTS = 1000


async def observe_queue(sidecar: Sidecar) -> QueueStatus:
    """Raises a refusal with 503 while nothing is configured."""
    sidecar.configured()
    told = None if sidecar.channel is None else await sidecar.channel.queue(LISTED_REQUESTS)
    admission, now = sidecar.configured().admission, sidecar.clock()
    if sidecar.channel is None:
        waiting, rows = admission.queued, list(_in_front(admission, now, ordered=True))
    else:
        waiting, rows = _with_engine(admission, told or Queue(0, []), now)
    listed = rows[:LISTED_REQUESTS]
    return QueueStatus(
        waiting=waiting,
        requests=tuple(QueuedRequest(position=position, **row) for position, row in enumerate(listed, start=1)),
    )


def _in_front(admission: Admission, now: Seconds, *, ordered: bool) -> Iterator[dict[str, Any]]:
    """What waits in the sidecar. `ordered`: by its policy, which else only keeps the books."""
    policy, rank = admission.policy, 0
    for ticket, reason in admission.waiting(now):
        row = _row(admission, ticket, reason, now)
        if ordered and (request := policy.requests.get(ticket.id)) is not None:
            rank += 1
            row |= {"rank": rank, "order_key": policy.order_key(request)}
        yield row


def _with_engine(admission: Admission, queue: Queue, now: Seconds) -> tuple[int, list[dict[str, Any]]]:
    """How many wait, and the rows. Where not all that wait in the engine are listed, none is known not to be there."""
    rows = [_in_engine(admission, told, now) for told in queue.requests]
    sent = [ticket for ticket in admission.tickets.values() if ticket.stage is Stage.SENT]
    there = {told.key for told in queue.requests}
    complete = len(queue.requests) == queue.waiting
    untold = [ticket for ticket in sent if ticket.id not in there] if complete else []
    rows += [_row(admission, ticket, WaitingReason.NOT_TOLD, now) for ticket in untold]
    rows += _in_front(admission, now, ordered=False)
    return queue.waiting + len(untold) + admission.queued - len(sent), rows


def _in_engine(admission: Admission, told: WaitingRequest, now: Seconds) -> dict[str, Any]:
    """What the engine knows goes before what the sidecar knows: without its ticket a request is nobody's there."""
    ticket = admission.tickets.get(RequestId(told.key))
    row = _unknown(told.key, told.reason) if ticket is None else _row(admission, ticket, told.reason, now)
    row |= {"rank": told.rank, "order_key": told.order_key, "sequences": told.sequences}
    row |= {"prompt_tokens": told.prompt_tokens, "preemptions": told.preemptions}
    if told.tenant is not None:
        row |= {"tenant": told.tenant, "application": told.application}
    if ticket is None:
        row |= {"run": told.run, "waiting_seconds": round(told.waiting_seconds, 3)}
    return row


def _row(admission: Admission, ticket: Ticket, reason: WaitingReason, now: Seconds) -> dict[str, Any]:
    return _unknown(ticket.id, reason) | {
        "tenant": ticket.tenant,
        "application": ticket.application,
        "run": ticket.run.id,
        "run_name": ticket.run.name,
        "waiting_seconds": round(now - ticket.arrival, 3),
        "prompt_tokens": ticket.prompt_tokens,
        "reserved_tokens": admission.reservation(ticket),
    }


def _unknown(request: str, reason: WaitingReason) -> dict[str, Any]:
    return {
        "rank": None,
        "order_key": {},
        "request": request,
        "tenant": "",
        "application": "",
        "run": "",
        "sequences": 1,
        "preemptions": 0,
        "waiting_seconds": 0.0,
        "prompt_tokens": 0,
        "reserved_tokens": 0,
        "reason": reason,
    }
