"""Who makes room under tiered Justitia (docs/design/tiered-justitia.md, "Room for a tenant that is behind")."""

from collections.abc import Callable, Iterable

from justitia_scheduling.core.books import Books
from justitia_scheduling.core.opened import OpenRequest, OpenRun
from justitia_scheduling.policies.gate import Place
from justitia_vocabulary.units import KVTokenTime, RequestId, TenantId, Tokens

MUCH_MORE = 2.0
"""A tenant gives way if it holds more than this many times what the head's tenant would hold, each for its weight."""
LEAST_RUN: Tokens = 32
"""The least that a request has to produce after an admission before it gives way."""


class Room:
    """Says who goes, of those that run by the `books`. `place` is a run's among those of its application."""

    def __init__(self, books: Books, place: Callable[[OpenRun], Place]) -> None:
        self._books = books
        self._place = place
        self._came_back_with: dict[RequestId, Tokens] = {}

    def came_back(self, request: OpenRequest) -> None:
        """A request that was preempted has been admitted again."""
        self._came_back_with[request.id] = request.produced

    def closed(self, request: RequestId) -> None:
        """The request is over."""
        self._came_back_with.pop(request, None)

    def may_be_made(self, ahead: Iterable[TenantId], waiting: Iterable[TenantId]) -> bool:
        """Whether a tenant of those `ahead` holds much more than one that waits."""
        most = max(map(self._held, ahead), default=0.0)
        return most > 0 and any(most > MUCH_MORE * self._held(tenant) for tenant in waiting)

    def for_head(self, head: OpenRequest, ahead: Iterable[TenantId], prompt_work: KVTokenTime) -> RequestId | None:
        """A request of a tenant that is `ahead` and holds much more than the head's would."""
        own = head.tokens / self._books.weight(head.tenant)
        most = MUCH_MORE * (self._held(head.tenant) + own)
        heavy = {tenant for tenant in ahead if self._held(tenant) > most}
        if not heavy:
            return None
        running = self._books.running.values()
        losers = [r for r in running if r.tenant in heavy and self.has_run(r, prompt_work)]
        return self.first_to_go(losers) if losers else None

    def has_run(self, request: OpenRequest, prompt_work: KVTokenTime) -> bool:
        """Whether it has produced, since it was admitted, as much as reading it took from others."""
        return request.produced - self._came_back_with.get(request.id, 0) >= max(prompt_work, LEAST_RUN)

    def first_to_go(self, requests: Iterable[OpenRequest]) -> RequestId:
        """The last of these in the policy's order, among those of the lowest priority of the tenant that holds most for
        its weight. So no growth takes from a tenant with less.
        """
        placed = [(self._place(r.run), r.sequence, r) for r in requests]
        *_, last = max(placed, key=lambda each: (self._held(each[-1].tenant), *each[:2]))
        own = [each for each in placed if each[-1].tenant == last.tenant]
        *_, last = max(own, key=lambda each: (-self._priority(each[-1]), *each[:2]))
        return last.id

    def _priority(self, request: OpenRequest) -> int:
        return self._books.share(request.run.run.application).priority

    def _held(self, tenant: TenantId) -> float:
        """KV tokens that the tenant's running requests hold, per unit of weight."""
        return self._books.held.get(tenant, 0) / self._books.weight(tenant)
