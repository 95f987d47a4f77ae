"""Engines whose policies know what the others do: way S of docs/design/fleet.md.

Every `staleness` seconds each engine publishes what it has served each tenant and each entry what it has sent to each
engine, and all read it. So what is known of others is up to `staleness` seconds old. With one engine nothing is shared.
With `runs`, they also publish the runs that came, and what was delivered to them: a run is one run to all policies,
with one cost and on one clock.

:class:`BoundOnArrival`: an entry sends a request at once to the engine that has the fewest tokens outstanding as far as
it knows, if that has fewer even with the request than the one beside the entry, else to that one. What it has sent
itself it knows exactly. With `prefixes`, and a prefix cache, a request of a run goes to the engine that had the run's
last one, as far as is known, unless another has fewer by `REREAD` times the prompt; what is found there of the context
does not count.
:class:`ServedWhereItComes`: the engine beside the entry serves it.
"""

import random
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from justitia_scheduling.core.model import Run
from justitia_scheduling.core.policy import Policy
from justitia_scheduling.core.pool_service import EngineName, PoolService
from justitia_simulator.fleet import OnArrival, tokens
from justitia_simulator.inference import Inference
from justitia_simulator.line import Line
from justitia_simulator.profiles import EngineProfile
from justitia_simulator.replica import Replica
from justitia_vocabulary.units import KVTokenTime, RequestId, RunId, Seconds, TenantId, Tokens

REREAD = 5

EntryOf = Callable[[Inference], int]
"""The number of the entry at which a request comes in."""


def entries(count: int, seed: int, of_tenants: Mapping[str, int] | None = None) -> EntryOf:
    """All requests of the tenants in `of_tenants` come in at those entries, others at one that is drawn."""
    fixed = of_tenants or {}

    def entry(request: Inference) -> int:
        own = fixed.get(request.run.tenant)
        return random.Random(f"{seed}/{request.id}/entry").randrange(count) if own is None else own % count

    return entry


class BoundOnArrival(OnArrival):
    """There are as many entries as engines."""

    def __init__(
        self,
        policies: Sequence[Policy],
        profile: EngineProfile,
        kv_tokens: Tokens,
        entry: EntryOf,
        staleness: Seconds,
        *,
        runs: bool,
        prefixes: bool = True,
    ) -> None:
        super().__init__(policies, profile, kv_tokens)
        self._runs = SharedRuns(self.lines) if runs else None
        self._staleness = staleness
        self._entry = entry
        self._names = [EngineName(str(number)) for number in range(len(policies))]
        self._known = [PoolService() for _ in policies]
        self._sent = [[0] * len(policies) for _ in policies]
        self._published = [[0] * len(policies) for _ in policies]
        self._entered: dict[RequestId, tuple[int, int, Tokens]] = {}
        self._contexts: dict[RunId, tuple[int, Tokens]] = {}
        """The engine that had a run's last request, and its tokens."""
        self._known_contexts: dict[RunId, tuple[int, Tokens]] = {}
        self._caches = profile.prefix_cache and prefixes
        if len(policies) > 1:
            self.next_exchange = staleness

    def submit(self, request: Inference, moment: Seconds) -> None:
        super().submit(request, moment)
        if self._runs is not None:
            self._runs.came(request.run)

    def choose(self, request: Inference) -> Replica:
        entry = self._entry(request)
        home, context = self._known_contexts.get(request.run.id, (None, 0))
        engine = self._placed(entry, home, request)
        found = min(context, request.work.prompt_tokens) if engine == home else 0
        size = tokens(request) - found
        self._entered[request.id] = entry, engine, size
        self._sent[entry][engine] += size
        self.messages += 2 * (engine != entry)
        return self.replicas[engine]

    def _placed(self, entry: int, home: int | None, request: Inference) -> int:
        """The engine for a request that comes in at this entry, of a run whose context is in that engine's cache."""
        reread = 0 if home is None else REREAD * request.work.prompt_tokens

        def price(engine: int) -> Tokens:
            others = sum(sent[engine] for at, sent in enumerate(self._published) if at != entry)
            moves: Tokens = 0 if engine in (entry, home) else tokens(request)
            moves += 0 if engine == home else reread
            return others + self._sent[entry][engine] + moves

        best = min(range(len(self.replicas)), key=price)
        return best if price(best) < price(entry) else entry

    def finished(self, replica: Replica, request: Inference, moment: Seconds) -> None:
        super().finished(replica, request, moment)
        entry, engine, size = self._entered.pop(request.id)
        self._sent[entry][engine] -= size
        if self._caches:
            self._contexts[request.run.id] = engine, tokens(request)

    def run_ended(self, run: RunId, moment: Seconds) -> None:
        super().run_ended(run, moment)
        self._contexts.pop(run, None)
        if self._runs is not None:
            self._runs.ended(run)

    def happen(self, moment: Seconds) -> None:
        if moment < self.next_exchange:
            return
        self.next_exchange += self._staleness
        self._published = [list(sent) for sent in self._sent]
        self._known_contexts = dict(self._contexts)
        totals: list[Mapping[TenantId, float]] = [line.policy.service for line in self.lines]
        for reader, line in enumerate(self.lines):
            for writer, served in enumerate(totals):
                if writer != reader:
                    for tenant, more in self._known[reader].merge(self._names[writer], served).items():
                        line.policy.served_elsewhere(tenant, more)
        if self._runs is not None:
            self._runs.exchange(moment)
        self.messages += 2 * len(self.lines)
        self.exchanged += 2 * len(self.lines)


class ServedWhereItComes(BoundOnArrival):
    """Each entry has an engine of its own."""

    def _placed(self, entry: int, home: int | None, request: Inference) -> int:
        return entry


class SharedRuns:
    """Tells each policy of the runs that other engines have."""

    def __init__(self, lines: Sequence[Line]) -> None:
        self._lines = lines
        self._new: dict[RunId, Run] = {}
        for line in lines:
            line.policy.undisclosed = {}

    def came(self, run: Run) -> None:
        """A request of the run came in."""
        self._new[run.id] = run

    def ended(self, run: RunId) -> None:
        self._new.pop(run, None)

    def exchange(self, moment: Seconds) -> None:
        """Tell all what came, and what was delivered since the last exchange."""
        for line in self._lines:
            for run in self._new.values():
                line.know(run, moment)
        self._new.clear()
        delivered = [line.policy.undisclosed or {} for line in self._lines]
        for reader, line in enumerate(self._lines):
            line.policy.undisclosed = {}
            heard: defaultdict[RunId, KVTokenTime] = defaultdict(float)
            for writer, by_run in enumerate(delivered):
                if writer != reader:
                    for name, more in by_run.items():
                        heard[name] += more
            line.policy.delivered_elsewhere(heard, moment)
