"""Engines that pull requests from entries, each of which has a policy for what came in there: way S, bound late.

Every `staleness` seconds each entry publishes what its tenants have been served, and its head: its place, the counter
of its tenant, the limit of the entry's gate, and how long it is. An engine with room asks the entry whose head goes
first as far as it knows: those within the smallest limit before the others, then by place. The entry answers with the
head that it has then, and with its next one. An engine has one question under way at a time, and what is pulled can be
taken two hops after the answer was given: one for it to come, one until what becomes of it is seen. An entry tells
engines that do nothing of what comes in, a hop later.

A step's charge is split over all its requests by the engine, and each entry counts those of its own.
"""

import heapq
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import msgspec

from justitia_scheduling.core.cost import CostModel, EngineTime, StepTime, Work
from justitia_scheduling.core.model import Step
from justitia_scheduling.core.opened import OpenRequest
from justitia_scheduling.core.policy import Policy
from justitia_scheduling.core.pool_service import EngineName, PoolService
from justitia_scheduling.policies.tiered import TieredJustitia
from justitia_simulator.fleet import Fleet
from justitia_simulator.fleet_counters import EntryOf
from justitia_simulator.inference import Inference
from justitia_simulator.line import Line
from justitia_simulator.profiles import EngineProfile, Front
from justitia_simulator.replica import Replica
from justitia_vocabulary.units import RequestId, Seconds, TenantId, Tokens

HOPS_TO_TAKE = 2


class SplitByEngine(EngineTime):
    """Engine time as an engine has split it. `split` has the charges of the step that is being told."""

    def __init__(self, step_time: StepTime) -> None:
        super().__init__(step_time)
        self.split: Mapping[RequestId, float] = {}

    def step(self, work: Sequence[Work], duration: Seconds | None, running: int) -> list[float]:
        return [self.split[done.progress.request] for done in work]


class Head(NamedTuple):
    """What an entry says of the request that it would give next."""

    counter: float
    limit: float
    place: tuple[float, ...]
    to_read: Tokens


class Entry:
    """Where requests come in, with a policy for those that came in here."""

    def __init__(self, step_time: StepTime) -> None:
        self.cost = SplitByEngine(step_time)
        self.policy = TieredJustitia(self.cost)
        self.line = Line(self.policy)
        self.known = PoolService()

    def head(self) -> Head | None:
        policy = self.policy
        if (name := policy.head()) is None:
            return None
        counter, limit = policy.counters[policy.requests[name].tenant], policy.gate.limit(policy.burst)
        return Head(counter, limit, self.line.key(name), self.line.waiting[name].to_read)


class _OfEngine(Policy):
    """What an engine tells, passed on to the entries of its requests."""

    parts = ()

    def __init__(self, entry_of: Mapping[RequestId, Entry], cost: CostModel) -> None:
        super().__init__(cost)
        self._entry_of = entry_of

    def key(self, request: OpenRequest) -> tuple[float, ...]:
        return self._entry_of[request.id].policy.key(request)

    def admitted(self, request_id: RequestId, now: Seconds, cached_tokens: Tokens = 0) -> None:
        self._entry_of[request_id].policy.admitted(request_id, now, cached_tokens)

    def finished(self, request_id: RequestId, now: Seconds) -> None:
        self._entry_of[request_id].policy.finished(request_id, now)

    def stepped(self, step: Step, now: Seconds) -> None:
        opened = [self._entry_of[p.request].policy.requests[p.request] for p in step.progress]
        work = [
            Work(p, r.request.prompt_tokens, r.produced, r.cached) for p, r in zip(step.progress, opened, strict=True)
        ]
        charges = self.cost_model.step(work, step.duration, len(work))
        split = {p.request: charge for p, charge in zip(step.progress, charges, strict=True)}
        for entry in dict.fromkeys(self._entry_of[p.request] for p in step.progress):
            entry.cost.split = split
            own = [p for p in step.progress if self._entry_of[p.request] is entry]
            entry.policy.stepped(Step(own, step.duration), now)


class _EngineLine(Line):
    """An engine's way to the lines of the entries."""

    def __init__(self, policy: Policy, entry_of: Mapping[RequestId, Entry]) -> None:
        super().__init__(policy)
        self._entry_of = entry_of

    def key(self, name: RequestId) -> tuple[float, ...]:
        return self._entry_of[name].line.key(name)

    def dequeue(self, name: RequestId) -> Inference:
        return self._entry_of[name].line.dequeue(name)


class Pulled(Fleet):
    """As many entries as engines."""

    def __init__(
        self,
        engines: int,
        profile: EngineProfile,
        kv_tokens: Tokens,
        entry: EntryOf,
        *,
        staleness: Seconds,
        hop: Seconds,
    ) -> None:
        behind = msgspec.structs.replace(profile, front=Front(HOPS_TO_TAKE * hop))
        self._entry, self._staleness, self._hop = entry, staleness, hop
        self._entries = [Entry(profile.charge) for _ in range(engines)]
        self._entry_of: dict[RequestId, Entry] = {}
        lines = [
            _EngineLine(_OfEngine(self._entry_of, EngineTime(profile.charge)), self._entry_of) for _ in range(engines)
        ]
        super().__init__(
            [Replica(line, behind, kv_tokens) for line in lines], [entry.line for entry in self._entries], kv_tokens
        )
        self._heads: list[list[Head | None]] = [[None] * engines for _ in range(engines)]
        self._asks: set[int] = set()
        self._under_way: list[tuple[Seconds, int, Callable[[Seconds], None]]] = []
        for number, replica in enumerate(self.replicas):
            replica.hand_over = partial(self._look, number)
        self.next_exchange = staleness

    def submit(self, request: Inference, moment: Seconds) -> None:
        number = self._entry(request)
        entry = self._entry_of[request.id] = self._entries[number]
        entry.line.take_in(request, moment)
        entry.policy.time_passed(moment)
        for engine, replica in enumerate(self.replicas):
            if not replica.busy:
                self._send(moment, partial(self._told, engine, number))

    def finished(self, replica: Replica, request: Inference, moment: Seconds) -> None:
        super().finished(replica, request, moment)
        del self._entry_of[request.id]

    def arrives(self) -> Seconds | None:
        """What waits at an entry is heard of at the next exchange at the latest."""
        if self._under_way:
            return self._under_way[0][0]
        return self.next_exchange if any(line.waiting for line in self.lines) else None

    def happen(self, moment: Seconds) -> None:
        while self._under_way and self._under_way[0][0] <= moment:
            heapq.heappop(self._under_way)[-1](moment)
        if self.next_exchange <= moment:
            self.next_exchange += self._staleness
            self._exchange(moment)

    def _exchange(self, moment: Seconds) -> None:
        totals: list[Mapping[TenantId, float]] = [dict(entry.policy.service) for entry in self._entries]
        for reader, entry in enumerate(self._entries):
            entry.policy.time_passed(moment)
            for writer, served in enumerate(totals):
                if writer != reader:
                    for tenant, more in entry.known.merge(EngineName(str(writer)), served).items():
                        entry.policy.served_elsewhere(tenant, more)
        heads = [entry.head() for entry in self._entries]
        self._heads = [list(heads) for _ in self.replicas]
        self.messages += 2 * len(self._entries)
        self.exchanged += 2 * len(self._entries)
        for engine in range(len(self.replicas)):
            self._look(engine, moment)

    def _send(self, moment: Seconds, arrives: Callable[[Seconds], None]) -> None:
        self.messages += 1
        heapq.heappush(self._under_way, (moment + self._hop, self.messages, arrives))

    def _told(self, engine: int, entry: int, now: Seconds) -> None:
        self._heads[engine][entry] = self._entries[entry].head()
        self._look(engine, now)

    def _look(self, engine: int, now: Seconds) -> None:
        """Ask the entry whose head goes first, if there is room for that."""
        if engine in self._asks:
            return
        known = [(head, entry) for entry, head in enumerate(self._heads[engine]) if head is not None]
        if not known:
            return
        limit = min(head.limit for head, _ in known)
        head, entry = min(known, key=lambda each: (each[0].counter > limit, each[0].place))
        if self.replicas[engine].room_for(head.place) > head.to_read:
            self._asks.add(engine)
            self._send(now, partial(self._answer, engine, entry))

    def _answer(self, engine: int, entry: int, now: Seconds) -> None:
        """The entry gives its head, if it still has one."""
        self.messages += 1
        self._asks.discard(engine)
        asked = self._entries[entry]
        asked.policy.time_passed(now)
        if (name := asked.policy.head()) is not None:
            self.replicas[engine].give(name, now)
        self._heads[engine][entry] = asked.head()
        self._look(engine, now)
