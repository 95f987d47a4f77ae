"""vLLM's waiting queue in the policy's order; by arrival, the preempted first, where there is no policy.

vLLM peeks, and pops what it admits or what it has to pass over in this step (output in flight from before a preemption,
a LoRA that does not fit). What it admits holds blocks by then. What it passes over comes back through
`prepend_requests`; until then the policy's next one is offered.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator

from vllm.v1.core.sched.request_queue import RequestQueue
from vllm.v1.request import Request

from justitia_engine.desk import Desk
from justitia_vocabulary.units import RequestId


class PolicyQueue(RequestQueue):
    """`arrived` has the requests of which the desk has not heard, `reading` those that were admitted and whose prompt
    has not been read whole. `holds_blocks` tells whether a request has KV blocks.
    """

    def __init__(self, desk: Desk, holds_blocks: Callable[[Request], bool]) -> None:
        self.arrived: list[Request] = []
        self.reading: dict[str, Request] = {}
        self._desk = desk
        self._holds_blocks = holds_blocks
        self._waiting: OrderedDict[str, Request] = OrderedDict()
        self._passed_over: dict[str, Request] = {}
        self._next: Request | None = None

    def order_may_differ(self) -> None:
        """The policy has been told something since it was last asked."""
        self._next = None

    def add_request(self, request: Request) -> None:
        self._waiting[request.request_id] = request
        self.arrived.append(request)
        self._next = None

    def peek_request(self) -> Request:
        request = self._first()
        if request is None:
            raise IndexError("peek from an empty queue")
        return request

    def pop_request(self) -> Request:
        request = self.peek_request()
        del self._waiting[request.request_id]
        self._next = None
        if self._holds_blocks(request):
            self.reading[request.request_id] = request
            self._desk.admitted(RequestId(request.request_id), _cached(request))
        else:
            self._passed_over[request.request_id] = request
        return request

    def prepend_request(self, request: Request) -> None:
        self._waiting[request.request_id] = request
        self._waiting.move_to_end(request.request_id, last=False)
        self._next = None
        if self._passed_over.pop(request.request_id, None) is None:
            self._desk.preempted(RequestId(request.request_id))

    def prepend_requests(self, requests: Iterable[Request]) -> None:
        for request in requests:
            self.prepend_request(request)

    def remove_request(self, request: Request) -> None:
        self.remove_requests([request])

    def remove_requests(self, requests: Iterable[Request]) -> None:
        for request in requests:
            self._waiting.pop(request.request_id, None)
        self._next = None

    def __bool__(self) -> bool:
        return self._first() is not None

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[Request]:
        ranked = [self._waiting[name] for name in self._desk.order() if name in self._waiting]
        known = {request.request_id for request in ranked}
        return iter([*ranked, *(r for r in self._waiting.values() if r.request_id not in known)])

    def _first(self) -> Request | None:
        """Kept until the order may differ, because vLLM asks several times for each request that it admits."""
        if self._next is None:
            self._next = self._find_first()
        return self._next

    def _find_first(self) -> Request | None:
        if not self._waiting:
            return None
        if self._passed_over:
            ranked = self._desk.order(len(self._passed_over) + 1)
            first = next((self._waiting[name] for name in ranked if name in self._waiting), None)
            return first or next(iter(self._waiting.values()))
        head = self._desk.head()
        if self._desk.host is None:
            return next(iter(self._waiting.values()))
        return None if head is None else self._waiting.get(head)


def _cached(request: Request) -> int:
    """Prompt tokens that were in the prefix cache at the first admission."""
    stats = request.prefill_stats
    return min(stats.num_cached_tokens, request.num_prompt_tokens) if stats is not None else 0
