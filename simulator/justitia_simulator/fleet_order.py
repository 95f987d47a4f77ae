"""One order for all engines, which is kept in one place: way L of docs/design/fleet.md.

An entry tells the order of each request (a hop). The order hands requests over to engines by a window for each engine,
as one in front of one engine does (`core/handover.py` of `scheduling/`): of the engines whose window lets the head go,
to the one with the most room. With `late`, only to an engine that has room for it. The order tells the entry (a hop),
which sends the request to the engine (a hop); that something began or ended is seen a hop later. So what is handed over
at t can be taken from t + 3 hops on, and all else is seen at once. Room is known as it is.

While the order is *away* nothing is handed over; engines go on with what they have. Then another is elected: entries
tell it of all that is open, and what tenants had been served is as it was saved last, every `SAVED_EVERY` seconds.
Estimates and tags that the old one had made are lost.
"""

import heapq
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import msgspec

from justitia_scheduling.core.takeover import carry_over
from justitia_scheduling.policies.tiered import TieredJustitia
from justitia_simulator.fleet import Fleet
from justitia_simulator.inference import Inference
from justitia_simulator.line import Line
from justitia_simulator.profiles import EngineProfile, Front
from justitia_simulator.replica import Replica
from justitia_vocabulary.units import Seconds, TenantId, Tokens

SAVED_EVERY: Seconds = 1.0
HOPS_TO_TAKE = 3
"""From the order to the entry, from there to the engine, and what is seen of it."""


@dataclass(frozen=True)
class Absence:
    """The order goes away at `at` for so many `seconds`."""

    at: Seconds
    seconds: Seconds


class OneOrder(Fleet):
    """`build` makes the policy, with a cost model of the engines that there are; `hop` is one way."""

    def __init__(
        self,
        build: Callable[[], TieredJustitia],
        profile: EngineProfile,
        kv_tokens: Tokens,
        hop: Seconds,
        *,
        late: bool,
        absence: Absence | None = None,
    ) -> None:
        self._build = build
        self._hop = hop
        self._late = late
        latency = HOPS_TO_TAKE * hop
        behind = msgspec.structs.replace(profile, front=Front(latency))
        policy = self._policy = build()
        line = self._line = Line(policy)
        engines = policy.cost_model.engines
        super().__init__([Replica(line, behind, kv_tokens) for _ in range(engines)], [line], kv_tokens)
        for replica in self.replicas:
            replica.hand_over = self._hand_over
        self._tickets: list[tuple[Seconds, int, Inference]] = []
        self._absence = absence
        self._away = False
        self._saved: Mapping[TenantId, float] = {}
        if absence is not None:
            self.next_exchange = 0.0

    def submit(self, request: Inference, moment: Seconds) -> None:
        self.messages += 3
        if self._hop:
            heapq.heappush(self._tickets, (moment + self._hop, self.messages, request))
        else:
            self._hear(request, moment)

    def arrives(self) -> Seconds | None:
        return self._tickets[0][0] if self._tickets else None

    def happen(self, moment: Seconds) -> None:
        while self._tickets and self._tickets[0][0] <= moment:
            self._hear(heapq.heappop(self._tickets)[-1], moment)
        if self._absence is not None and self.next_exchange <= moment:
            self._come_and_go(self._absence, moment)

    def _hear(self, request: Inference, moment: Seconds) -> None:
        """As one engine's front does: at once while all engines work, else when those decide that do not."""
        resting = [replica for replica in self.replicas if not replica.busy]
        if resting:
            self._line.submit(request)
            for replica in resting:
                replica.interrupt(moment)
        else:
            self._line.take_in(request, moment)
            self._policy.time_passed(moment)
            self._hand_over(moment)

    def _hand_over(self, now: Seconds) -> None:
        while not self._away and (head := self._policy.head()) is not None:
            open_to = [r for r in self.replicas if r.front is not None and r.front.lets(head)]
            if not open_to:
                return
            key = self._line.key(head)
            room = {replica: replica.room_for(key) for replica in open_to}
            roomiest = max(open_to, key=room.__getitem__)
            if self._late and room[roomiest] <= self._line.waiting[head].to_read:
                return
            roomiest.give(head, now)

    def _come_and_go(self, absence: Absence, moment: Seconds) -> None:
        """Be elected after an absence, go, or save what tenants were served."""
        if self._away:
            self._elect(moment)
            self.next_exchange = math.inf
        elif moment >= absence.at:
            self._away = True
            self.next_exchange = moment + absence.seconds
        else:
            policy = self._policy
            self._saved = {tenant: c * policy.weight(tenant) for tenant, c in policy.counters.by_member.items()}
            self.exchanged += 1
            self.next_exchange = min(moment + SAVED_EVERY, absence.at)

    def _elect(self, moment: Seconds) -> None:
        """Another policy takes over. Engines and entries know what is open and what it was charged; the counters are
        those that were saved.
        """
        self._line.hear(moment)
        before, self._policy = self._policy, self._build()
        carry_over(before, self._policy, moment, keep_service=True)
        for tenant, served in self._saved.items():
            self._policy.served_elsewhere(tenant, served)
        self._line.policy = self._policy
        self._away = False
        self.messages += len(self._policy.requests)
        self._hand_over(moment)
