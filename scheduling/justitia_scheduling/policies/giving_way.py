"""Who makes room under tiered Justitia (docs/design/tiered-justitia.md, "Room for a tenant that is behind")."""

from collections import defaultdict
from collections.abc import Callable, Iterable

from justitia_scheduling.core.books import Books
from justitia_scheduling.core.opened import OpenRequest, OpenRun, RequestState
from justitia_scheduling.policies.gate import Place
from justitia_vocabulary.units import KVTokenTime, RequestId, TenantId, Tokens

MUCH_MORE = 2.0
"""A tenant gives way if it holds more than this many times what the head's tenant would hold, each for its weight."""
LEAST_RUN: Tokens = 32
"""The least that a request has to produce after an admission before it gives way to a tenant that asks for much."""


class Room:
    """Says who goes, of those that run by the `books`. `place` is a run's among those of its application."""

    def __init__(self, books: Books, place: Callable[[OpenRun], Place]) -> None:
        self._books = books
        self._place = place
        self._came_back_with: dict[RequestId, Tokens] = {}
        self._waiting: defaultdict[TenantId, Tokens] = defaultdict(int)

    def waits(self, request: OpenRequest) -> None:
        """The request waits."""
        self._waiting[request.tenant] += request.tokens

    def left(self, request: OpenRequest) -> None:
        """The request waits no longer."""
        self._waiting[request.tenant] -= request.tokens
        if request.preemptions and request.status is RequestState.RUNNING:
            self._came_back_with[request.id] = request.produced

    def closed(self, request: RequestId) -> None:
        """The request is over."""
        self._came_back_with.pop(request, None)

    def may_be_made(self, ahead: Iterable[TenantId], waiting: Iterable[TenantId], *, at_once: bool = False) -> bool:
        """Whether a tenant of those `ahead` holds much more than one that waits. `at_once`: than it asks for."""
        most = max(map(self._held, ahead), default=0.0)
        least = self._asked if at_once else self._held
        return most > 0 and any(most > MUCH_MORE * least(tenant) for tenant in waiting)

    def for_head(self, head: OpenRequest, ahead: Iterable[TenantId], prompt_work: KVTokenTime) -> RequestId | None:
        """A request of a tenant that is `ahead` and holds much more than the head's would. It has to have run for long,
        unless its tenant holds much more than all that the head's asks for.
        """
        most = MUCH_MORE * (self._held(head.tenant) + head.tokens / self._books.weight(head.tenant))
        heavy = {tenant for tenant in ahead if self._held(tenant) > most}
        if not heavy:
            return None
        most = MUCH_MORE * self._asked(head.tenant)
        heaviest = {tenant for tenant in heavy if self._held(tenant) > most}
        running = [r for r in self._books.running.values() if r.tenant in heavy]
        losers = [r for r in running if self.may_go(r, prompt_work, at_once=r.tenant in heaviest)]
        return self.first_to_go(losers) if losers else None

    def may_go(self, request: OpenRequest, prompt_work: KVTokenTime, *, at_once: bool) -> bool:
        """Whether it has produced, since it was admitted, as much as reading it took from others. `at_once`: or has not
        been preempted yet.
        """
        before = self._came_back_with.get(request.id)
        if before is None and at_once:
            return True
        return request.produced - (before or 0) >= max(prompt_work, LEAST_RUN)

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

    def _asked(self, tenant: TenantId) -> float:
        """KV tokens that the tenant's requests hold or wait for, per unit of weight."""
        return (self._books.held.get(tenant, 0) + self._waiting[tenant]) / self._books.weight(tenant)
