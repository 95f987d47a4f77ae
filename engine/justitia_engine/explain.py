"""What waits in the engine, in order, each request with why it waits: the answer to `AskQueue`.

A row is a request, at the place of the first of its sequences that waits. It costs milliseconds for a thousand rows,
however many requests wait, and is asked for by people only.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from msgspec.structs import replace

from justitia_channel.messages import Queue, WaitingRequest
from justitia_engine.host import EngineHost, OpenSequence
from justitia_vocabulary.units import Seconds
from justitia_vocabulary.waiting import WaitingReason

SEQUENCES_PER_ROW = 10
"""At most so many sequences are looked at for each row. If requests have more, there are fewer rows."""


@dataclass(frozen=True, slots=True)
class QueueView:
    """What the engine sees of its queue. `obstacle` is why the first waits. `being_prepared` has the sequences whose
    grammar is not ready, of which the policy has not been told. If there is no policy, `by_arrival` has the first that
    wait, in order, and `more` is the number of those after them.
    """

    obstacle: WaitingReason
    being_prepared: Sequence[OpenSequence]
    by_arrival: Sequence[OpenSequence] = ()
    more: int = 0


def explain(host: EngineHost | None, view: QueueView, limit: int, now: Seconds) -> Queue:
    """The first requests in order, then those that are being prepared: at most `limit` in all."""
    rows = _by_key(_by_arrival(view) if host is None else _in_policys_order(host, view, limit, now))
    waiting = len(rows) + view.more if host is None else host.waiting_requests
    prepared = _by_key(_row(each, WaitingReason.BEING_PREPARED) for each in view.being_prepared)
    ranked = [replace(row, rank=rank) for rank, row in enumerate(islice(rows.values(), limit), start=1)]
    return Queue(waiting + len(prepared), [*ranked, *prepared.values()][:limit])


def _in_policys_order(host: EngineHost, view: QueueView, limit: int, now: Seconds) -> Iterator[WaitingRequest]:
    policy = host.policy
    head = policy.head()
    for sequence in policy.order(limit * SEQUENCES_PER_ROW):
        request = policy.requests[sequence]
        yield WaitingRequest(
            host.name(sequence).key,
            view.obstacle if sequence == head else policy.why_waits(request),
            request.request.prompt_tokens,
            tenant=request.tenant,
            application=request.run.run.application,
            run=request.run.id,
            preemptions=request.preemptions,
            waiting_seconds=now - request.arrival,
            order_key=policy.order_key(request),
        )


def _by_arrival(view: QueueView) -> Iterator[WaitingRequest]:
    for number, each in enumerate(view.by_arrival):
        yield _row(each, WaitingReason.BEHIND_OTHERS if number else view.obstacle)


def _row(each: OpenSequence, reason: WaitingReason) -> WaitingRequest:
    """A row without its tenant and run, which only the policy and the sidecar know."""
    return WaitingRequest(each.name.key, reason, each.prompt_tokens)


def _by_key(rows: Iterator[WaitingRequest]) -> dict[str, WaitingRequest]:
    """The first row of each request, with how many of its sequences wait."""
    found: dict[str, WaitingRequest] = {}
    waiting: defaultdict[str, int] = defaultdict(int)
    for row in rows:
        found.setdefault(row.key, row)
        waiting[row.key] += 1
    return {key: replace(row, sequences=waiting[key]) for key, row in found.items()}
