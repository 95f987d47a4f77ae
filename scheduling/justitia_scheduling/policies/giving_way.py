"""Who makes room under tiered Justitia: which running request goes first, and which has just come back
(docs/design/tiered-justitia.md, "Room for a tenant that is behind").
"""

from collections.abc import Callable, Iterable

from justitia_scheduling.core.opened import OpenRequest, OpenRun
from justitia_scheduling.policies.gate import Place
from justitia_vocabulary.units import KVTokenTime, RequestId, TenantId, Tokens

MUCH_MORE = 2.0
"""A tenant gives way if it holds more than this many times what the head's tenant would hold, each for its weight."""
LEAST_RUN: Tokens = 32
"""The least that a request has to produce after an admission before it gives way."""


def first_to_go(
    requests: Iterable[OpenRequest],
    held: Callable[[TenantId], float],
    place: Callable[[OpenRun], Place],
    priority: Callable[[OpenRequest], int],
) -> RequestId:
    """The last of these in the policy's order, among those of the lowest priority of the tenant that holds most. `held`
    are its KV tokens per unit of weight.
    """
    placed = [(place(r.run), r.sequence, r) for r in requests]
    *_, last = max(placed, key=lambda each: (held(each[-1].tenant), *each[:2]))
    own = [each for each in placed if each[-1].tenant == last.tenant]
    *_, last = max(own, key=lambda each: (-priority(each[-1]), *each[:2]))
    return last.id


class Returns:
    """What requests that were preempted had produced when they came back."""

    def __init__(self) -> None:
        self._with: dict[RequestId, Tokens] = {}

    def came_back(self, request: OpenRequest) -> None:
        self._with[request.id] = request.produced

    def closed(self, request: RequestId) -> None:
        """The request is over."""
        self._with.pop(request, None)

    def has_run(self, request: OpenRequest, prompt_work: KVTokenTime) -> bool:
        """Whether it has produced, since it was admitted, as much as reading it took from others."""
        return request.produced - self._with.get(request.id, 0) >= max(prompt_work, LEAST_RUN)
