"""Who makes room under tiered Justitia (docs/design/tiered-justitia.md, "Room for a tenant that is behind")."""

from collections import defaultdict
from collections.abc import Callable, Iterable

from justitia_scheduling.core.books import Books
from justitia_scheduling.core.opened import OpenRequest, OpenRun, RequestState
from justitia_scheduling.policies.gate import Place
from justitia_vocabulary.units import KVTokenTime, RequestId, Seconds, TenantId, Tokens

MUCH_MORE = 2.0
"""A tenant gives way if it holds more than this many times what the head's tenant would hold, each for its weight."""
PATIENCE = 8
"""Steps for which a head of a tenant that asks for little waits for a place that becomes free by itself."""
SHORT_RUN: Tokens = 32
"""The least that a request has to produce after it came back before it gives way again."""
LONG_RUN: Tokens = 256
"""The least that any has to produce before it gives way to a tenant that asks for more than it gets: such tenants are
behind each other in turn.
"""


class Room:
    """Says who goes, of those that run by the `books`. `place` is a run's among those of its application. `now` is the
    policy's time.
    """

    def __init__(self, books: Books, place: Callable[[OpenRun], Place]) -> None:
        self.now: Seconds = 0.0
        self._books = books
        self._place = place
        self._came_back_with: dict[RequestId, Tokens] = {}
        self._waiting: defaultdict[TenantId, Tokens] = defaultdict(int)
        self._open: defaultdict[TenantId, int] = defaultdict(int)
        self._asks_since: dict[TenantId, Seconds] = {}

    def waits(self, request: OpenRequest) -> None:
        """The request waits, for the first time or again."""
        self._waiting[request.tenant] += request.tokens
        if not request.preemptions:
            self._open[request.tenant] += 1

    def left(self, request: OpenRequest) -> None:
        """The request waits no longer."""
        self._waiting[request.tenant] -= request.tokens
        self._asks_since.pop(request.tenant, None)
        if request.preemptions and request.status is RequestState.RUNNING:
            self._came_back_with[request.id] = request.produced

    def closed(self, request: OpenRequest) -> None:
        """The request is over."""
        self._open[request.tenant] -= 1
        self._came_back_with.pop(request.id, None)

    def may_be_made(self, ahead: Iterable[TenantId], waiting: Iterable[TenantId]) -> bool:
        """Whether a tenant of those `ahead` holds much more than one that waits."""
        most = max(map(self._held, ahead), default=0.0)
        return most > 0 and any(most > MUCH_MORE * self._held(tenant) for tenant in waiting)

    def asks_for_little(self, tenant: TenantId) -> bool:
        """Whether all its requests together, those that run and those that wait, are no more than its share by weight
        of those that run, or a single one, and would hold no more than its share of what those hold.
        """
        books, held = self._books, self._books.held
        weights = sum(map(books.weight, held.keys() | {tenant}))
        share = books.weight(tenant) / weights
        asked = held.get(tenant, 0) + self._waiting[tenant]
        few = self._open[tenant] <= max(1.0, share * len(books.running))
        return few and asked <= share * sum(held.values())

    def for_head(self, head: OpenRequest, ahead: Iterable[TenantId], prompt_work: KVTokenTime) -> RequestId | None:
        """A request of a tenant that is `ahead` and holds much more than the head's would: after some patience if the
        head's tenant asks for little, else one that has run for long.
        """
        most = MUCH_MORE * (self._held(head.tenant) + head.tokens / self._books.weight(head.tenant))
        heavy = {tenant for tenant in ahead if self._held(tenant) > most}
        if not heavy:
            return None
        since = self._asks_since.setdefault(head.tenant, self.now)
        little = self.asks_for_little(head.tenant)
        if little and self.now - since < self._patience:
            return None
        running = (r for r in self._books.running.values() if r.tenant in heavy)
        losers = [r for r in running if self.may_go(r, prompt_work, little=little)]
        return self.first_to_go(losers) if losers else None

    def may_go(self, request: OpenRequest, prompt_work: KVTokenTime, *, little: bool) -> bool:
        """Whether it may give way, to a tenant that asks for little or for more. What came back has to produce what
        reading it again took from others, before it goes again.
        """
        before = self._came_back_with.get(request.id)
        if before is None:
            return little or request.produced >= max(prompt_work, LONG_RUN)
        return request.produced - before >= max(prompt_work, SHORT_RUN if little else LONG_RUN)

    @property
    def _patience(self) -> Seconds:
        """The time of `PATIENCE` steps, 0 where it is not known."""
        books = self._books
        step, engines = books.cost_model.step_time, books.cost_model.engines
        if step is None:
            return 0.0
        requests, kv_tokens = len(books.running) / engines, sum(books.held.values()) / engines
        return PATIENCE * (step.per_step + step.per_token * requests + step.per_kv_token * kv_tokens)

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
