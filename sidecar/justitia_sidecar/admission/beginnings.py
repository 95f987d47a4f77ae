"""What the engine was given and has not begun, where the order is kept in front of it.

A streamed request has begun at its first chunk, another one when its prefill should be over by the fitted step time. At
most `UNSTARTED` that have not begun keep others waiting, so the engine's own queue stays short. A streamed request that
takes longer than it should, for a grammar or media, is overdue: others wait for it no more. A tenant of which one is
overdue, and `UNSTARTED` have not begun, is stuck: it gives the engine no further one until one has begun. So a tenant
holds up others for the patience at a time, and then its own requests alone.
"""

from collections import defaultdict

from justitia_sidecar.admission.ticket import Ticket
from justitia_vocabulary.units import RequestId, Seconds, TenantId

UNSTARTED = 2
PATIENCE: Seconds = 1.0
"""At least so long may a streamed request take to begin before it is overdue."""
SLOWER = 4
"""So many times the time that its prefill should take, too."""


class Beginnings:
    def __init__(self) -> None:
        self._given: dict[RequestId, tuple[Ticket, Seconds]] = {}
        """Each with when it should have begun."""
        self._overdue: dict[RequestId, Ticket] = {}
        self._overdue_of: defaultdict[TenantId, int] = defaultdict(int)

    @property
    def full(self) -> bool:
        """Whether the engine is to be given no further request."""
        return len(self._given) >= UNSTARTED

    @property
    def next_due(self) -> Seconds | None:
        """When the next one should have begun."""
        return min((due for _, due in self._given.values()), default=None)

    def stuck(self, tenant: TenantId) -> bool:
        overdue = self._overdue_of.get(tenant, 0)
        return overdue > 0 and overdue + sum(t.tenant == tenant for t, _ in self._given.values()) >= UNSTARTED

    def given(self, ticket: Ticket, now: Seconds, prefill: Seconds) -> None:
        """The engine has it, and should take so long to read its prompt."""
        patience = max(PATIENCE, SLOWER * prefill) if ticket.streamed else prefill
        self._given[ticket.id] = ticket, now + patience

    def over(self, ticket: Ticket) -> None:
        """It has begun, or is over."""
        self._given.pop(ticket.id, None)
        if self._overdue.pop(ticket.id, None) is not None:
            self._overdue_of[ticket.tenant] -= 1
            if not self._overdue_of[ticket.tenant]:
                del self._overdue_of[ticket.tenant]

    def look(self, now: Seconds) -> None:
        """What should have begun by now keeps nobody waiting any more."""
        for ticket, due in list(self._given.values()):
            if now >= due:
                del self._given[ticket.id]
                if ticket.streamed:
                    self._overdue[ticket.id] = ticket
                    self._overdue_of[ticket.tenant] += 1
