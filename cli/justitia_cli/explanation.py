"""Says in words why a request waits, and which requests are before it."""

from collections import Counter
from collections.abc import Iterator, Sequence

from justitia_api.status import QueuedRequest
from justitia_vocabulary.waiting import WaitingReason

WHY = {
    WaitingReason.TENANT_LIMIT: "its tenant has as many running requests as its limit allows in this engine "
    "(limits.runningRequests of the Tenant)",
    WaitingReason.TENANT_NOT_BEGUN: "the engine takes long to begin with its tenant's last requests, perhaps for a "
    "grammar or media, and gets no more of them until it has begun with one",
    WaitingReason.ENGINE_UNAVAILABLE: "the engine does not answer: see the condition EnginesAvailable of the pool",
    WaitingReason.ENGINE_BUSY: "it is next, and goes as soon as the engine's batch has room",
    WaitingReason.NO_KV_SPACE: "it is next, and goes as soon as the engine has enough memory for its keys and values",
    WaitingReason.TENANT_GATED: "its tenant has had more than its share, and others catch up first",
    WaitingReason.APPLICATION_HELD_BACK: "another application of its tenant goes first: it has a higher priority, has "
    "waited for long, or has had less than its share (spec.share of the LLMApplication)",
    WaitingReason.BEHIND_OTHERS: "others come first in the policy's order",
    WaitingReason.BEING_PREPARED: "the engine compiles the grammar of its output",
    WaitingReason.NOT_TOLD: "it is on its way into the engine",
}
NAMED = 5
"""The most tenants that are named of the requests before it."""


def matching(queue: Sequence[QueuedRequest], name: str) -> list[QueuedRequest]:
    """The requests with that name, or with a run of that name."""
    return [each for each in queue if name in (each.request, each.run, each.run_name)]


def explain(request: QueuedRequest, queue: Sequence[QueuedRequest]) -> Iterator[str]:
    """Lines about one request of a queue. The queue is in order."""
    yield f"request {request.request} of {_whose(request)}"
    yield (
        f"  has waited for {request.waiting_seconds:.1f} s, place {request.position} of {len(queue)}: "
        f"{WHY[request.reason]}"
    )
    before = Counter(each.tenant for each in queue if each.position < request.position)
    if before:
        named = [f"{count} of {tenant or 'an unknown tenant'}" for tenant, count in before.most_common(NAMED)]
        more = len(before) - len(named)
        yield f"  before it: {', '.join(named)}" + (f", and of {more} other tenants" if more else "")
    if request.order_key:
        key = ", ".join(f"{name} {value:.6g}" for name, value in request.order_key.items())
        yield f"  ordered by {key}; the smaller goes first"
    if request.preemptions:
        yield f"  was preempted {request.preemptions} times, because the engine's memory was full"
    takes = f"{request.prompt_tokens} tokens of prompt"
    if request.expected_tokens is not None:
        takes += f"; expected to take {request.expected_tokens} tokens of the engine's memory"
    yield f"  {takes}"


def _whose(request: QueuedRequest) -> str:
    if not request.tenant:
        return "an unknown tenant: its ticket did not reach the engine in time"
    return f"tenant {request.tenant}, application {request.application}, run {request.run_name or request.run}"
