"""Engines that serve one workload together, and how requests come to them.

- :class:`OnArrival`: a policy for each engine. A request is bound when it arrives, to the engine with the fewest tokens
  outstanding (prompts and outputs of its unfinished requests, ties to the first); with `sticky`, to the engine of its
  run's first request.
- :class:`AtRandom`: the same, to any engine.
- :class:`ByPrefix`: the same, to the engine whose prefix cache has most of its prompt now; of equal ones to that with
  the fewest tokens outstanding.
- :class:`OneQueue`: one policy for all engines. Each takes its head when it has room. Nothing takes time.

Others are in :mod:`.fleet_counters` and :mod:`.fleet_order`.
"""

import math
import random
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence

from justitia_scheduling.core.policy import Policy
from justitia_scheduling.policies.tiered import TieredJustitia
from justitia_simulator.inference import Inference
from justitia_simulator.line import Line
from justitia_simulator.profiles import EngineProfile, Preemption
from justitia_simulator.replica import Replica
from justitia_vocabulary.units import RequestId, RunId, Seconds, TenantId, Tokens


class Fleet(ABC):
    """Engines of one profile. `lines` are where requests wait; `kv_tokens` is the KV space of one engine.

    `idle` is the engine time in which an engine did nothing although a request waited somewhere. `messages` counts what
    its parts sent each other, `exchanged` what of it went to or came from a store that all share.
    """

    next_exchange: Seconds = math.inf
    """When `happen` has something to do, as long as anything else happens."""

    def __init__(self, replicas: Sequence[Replica], lines: Sequence[Line], kv_tokens: Tokens) -> None:
        self.replicas = list(replicas)
        self.lines = list(lines)
        self.kv_tokens = kv_tokens
        self.idle: Seconds = 0.0
        self.messages = 0
        self.exchanged = 0
        self._now: Seconds = 0.0

    def begin(self, weights: Mapping[TenantId, float]) -> None:
        """Tell the policies the KV space of their engines and the tenants' weights."""
        for line in self.lines:
            line.policy.set_capacity(self.kv_tokens * line.policy.cost_model.engines, 0.0)
            for tenant, weight in weights.items():
                line.policy.set_weight(tenant, weight, 0.0)

    @abstractmethod
    def submit(self, request: Inference, moment: Seconds) -> None:
        """A request is ready."""

    def finished(self, replica: Replica, request: Inference, moment: Seconds) -> None:
        replica.policy.finished(request.id, moment)

    def run_ended(self, run: RunId, moment: Seconds) -> None:
        for line in self.lines:
            line.run_ended(run, moment)

    def arrives(self) -> Seconds | None:
        """When the next thing that is under way arrives, None if nothing is."""
        return None

    def happen(self, moment: Seconds) -> None:  # noqa: B027
        """Do what is due."""

    def woken(self, moment: Seconds) -> Iterable[Replica]:
        """Engines that decide once more: something began to wait when they had decided."""
        return ()

    def time_passed(self, moment: Seconds) -> None:
        """Nothing has happened since the moment before."""
        if moment > self._now and any(line.waiting for line in self.lines):
            self.idle += (moment - self._now) * sum([not replica.busy for replica in self.replicas])
        self._now = moment

    def service(self, tenant: TenantId) -> float:
        """What the tenant has been charged."""
        return sum([line.policy.service.get(tenant, 0.0) for line in self.lines])

    def queued(self, tenant: TenantId) -> int:
        """How many requests of the tenant wait for a policy."""
        return sum([line.queued[tenant] for line in self.lines])


class OnArrival(Fleet):
    """A policy for each engine."""

    def __init__(
        self, policies: Sequence[Policy], profile: EngineProfile, kv_tokens: Tokens, *, sticky: bool = False
    ) -> None:
        lines = [Line(policy) for policy in policies]
        super().__init__([Replica(line, profile, kv_tokens) for line in lines], lines, kv_tokens)
        self.outstanding: dict[Replica, Tokens] = dict.fromkeys(self.replicas, 0)
        self._home: dict[RunId, Replica] | None = {} if sticky else None

    def submit(self, request: Inference, moment: Seconds) -> None:
        replica = self._engine_of(request)
        self.outstanding[replica] += tokens(request)
        replica.submit(request, moment)

    def finished(self, replica: Replica, request: Inference, moment: Seconds) -> None:
        super().finished(replica, request, moment)
        self.outstanding[replica] -= tokens(request)

    def run_ended(self, run: RunId, moment: Seconds) -> None:
        for replica in self.replicas:
            replica.run_ended(run, moment)
        if self._home is not None:
            self._home.pop(run, None)

    def choose(self, request: Inference) -> Replica:
        """The engine for a request that may go to any."""
        return min(self.replicas, key=self.outstanding.__getitem__)

    def _engine_of(self, request: Inference) -> Replica:
        if self._home is None:
            return self.choose(request)
        if (home := self._home.get(request.run.id)) is None:
            home = self._home[request.run.id] = self.choose(request)
        return home


class AtRandom(OnArrival):
    """As a Kubernetes Service does in front of pods that know nothing of each other."""

    def __init__(self, policies: Sequence[Policy], profile: EngineProfile, kv_tokens: Tokens, seed: int) -> None:
        super().__init__(policies, profile, kv_tokens)
        self._random = random.Random(f"{seed}/engines")

    def choose(self, request: Inference) -> Replica:
        return self._random.choice(self.replicas)


class ByPrefix(OnArrival):
    """Placement by prefix alone. Knows what each cache has."""

    def choose(self, request: Inference) -> Replica:
        def found(replica: Replica) -> Tokens:
            return replica.pool.cached(request.origin, request.work.prompt_tokens)

        return max(self.replicas, key=lambda replica: (found(replica), -self.outstanding[replica]))


class SharedLine(Line):
    """A line from which several engines take."""

    def __init__(self, policy: TieredJustitia) -> None:
        super().__init__(policy)
        self._tiered = policy
        self.returned = False
        """Whether something that was preempted waits since the last time that somebody looked."""

    def queue(self, request: Inference) -> None:
        super().queue(request)
        self.returned |= request.preemptions > 0

    def victim(self, running: Collection[RequestId]) -> RequestId | None:
        if len(running) < 2:
            return None
        return self._tiered.room.first_to_go(self.policy.requests[name] for name in running)


class OneQueue(Fleet):
    """The ideal that others are measured by. `policy` has a cost model of so many engines."""

    def __init__(self, policy: TieredJustitia, profile: EngineProfile, kv_tokens: Tokens) -> None:
        if profile.preemption is not Preemption.RECOMPUTE or profile.prefix_cache:
            raise ValueError(
                f"engine {profile.name!r} keeps KV of requests that wait: one queue may give them to another"
            )
        line = self._line = SharedLine(policy)
        engines = policy.cost_model.engines
        super().__init__([Replica(line, profile, kv_tokens) for _ in range(engines)], [line], kv_tokens)

    def submit(self, request: Inference, moment: Seconds) -> None:
        self._line.submit(request)
        for replica in self.replicas:
            replica.interrupt(moment)

    def woken(self, moment: Seconds) -> Iterable[Replica]:
        """An engine with room takes what another has preempted."""
        if not self._line.returned:
            return ()
        self._line.returned = False
        for replica in self.replicas:
            replica.interrupt(moment)
        return [replica for replica in self.replicas if not replica.busy]


def tokens(request: Inference) -> Tokens:
    """Prompt and output of a request."""
    return request.work.prompt_tokens + request.work.output_tokens
