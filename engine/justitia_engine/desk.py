"""Stands between scheduler and policy: applies what the sidecar told, answers what the engine asks, never raises.

The engine's thread hears the sidecar at the beginning of each step. While there is none, the link's thread does, so
that an idle engine is configured, shown and asked as a busy one is. `lock` keeps the two apart: the scheduler holds it
while it schedules or updates, and the other thread takes it only if it is free and no step is under way, for
a few messages at a time.

Where the policy, or its host, raises, it is dismissed: its error is logged and counted, the sidecar is told, and the
engine serves by arrival until a configuration comes. Then a new policy is told all that is open.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from msgspec.structs import replace

from justitia_channel.messages import (
    Admitted,
    Arrived,
    AskQueue,
    Closed,
    Configure,
    Delivered,
    Elsewhere,
    Hello,
    PlugInSnapshot,
    RunEnded,
    Ticket,
)
from justitia_engine.explain import QueueView, explain
from justitia_engine.host import EngineHost, OpenSequence, Produced, SequenceName, knobs_of
from justitia_engine.keeping import Contexts
from justitia_engine.link import Link
from justitia_engine.untold import StepDone
from justitia_scheduling.core.cost import EngineTime
from justitia_scheduling.core.step_time import PRIOR
from justitia_scheduling.policies.fcfs import FCFS
from justitia_vocabulary.units import RequestId, Seconds, Tokens

SNAPSHOT_EVERY: Seconds = 1.0
DELIVERED_EVERY: Seconds = 0.2
IDLE_AFTER: Seconds = 0.05
"""How long after the last step the link's thread begins to hear messages in its place."""
MOST_AT_ONCE = 100
"""Messages that are heard at once between steps. The engine has to wait for them if it wants to begin a step."""

InCache = Callable[[RequestId], Tokens]
T = TypeVar("T")


class Desk:
    """It asks the engine by five functions: `open_sequences` lists all, oldest first; `produced` counts a sequence's
    output tokens; `in_step` tells whether a step is under way; `view` shows at most so many requests of its queue;
    `in_cache` counts the prompt tokens of a waiting sequence that the prefix cache has, None where it cannot tell.
    `contexts` are the KV that can be kept for paused runs, None where none can.
    """

    def __init__(
        self,
        link: Link,
        kv_tokens: Tokens,
        open_sequences: Callable[[], Iterable[OpenSequence]],
        *,
        produced: Produced,
        in_step: Callable[[], bool],
        view: Callable[[int], QueueView],
        in_cache: InCache | None = None,
        contexts: Contexts | None = None,
        log: logging.Logger,
    ) -> None:
        self.lock = threading.RLock()
        self._produced = produced
        self._in_cache = in_cache
        self._contexts = contexts
        self.host: EngineHost | None = self._by_arrival(kv_tokens, self.now())
        self.failures = 0
        self.failure = ""
        self._link = link
        self._kv_tokens = kv_tokens
        self._open_sequences = open_sequences
        self._in_step = in_step
        self._view = view
        self._log = log
        self._heard = 0.0
        self._generation = -1
        self._sidecar = ""
        self._unknown_knobs: frozenset[str] = frozenset()
        self._next_snapshot = self._next_delivered = 0.0
        self._decisions = 0
        self._decision_seconds = 0.0
        self._longest_decision = 0.0

    @staticmethod
    def now() -> Seconds:
        return time.monotonic()

    # What the engine asks.

    def head(self) -> RequestId | None:
        started = time.perf_counter()
        head = self._guarded(lambda host: host.policy.head())
        self._decisions += 1
        took = time.perf_counter() - started
        self._decision_seconds += took
        self._longest_decision = max(self._longest_decision, took)
        return head

    def order(self, limit: int | None = None) -> list[RequestId]:
        return self._guarded(lambda host: host.policy.order(limit)) or []

    def victim(self) -> RequestId | None:
        return self._guarded(lambda host: host.policy.victim())

    @property
    def evicts(self) -> bool:
        """Whether the policy ever takes back what it admitted."""
        return self.host is not None and self.host.policy.takes_back

    @property
    def keeps(self) -> bool:
        """Whether KV is kept for runs that pause."""
        return self.host is not None and len(self.host.keeping.kept) > 0

    def makes_room(self, sequence: RequestId | None) -> bool:
        """Whether KV that was kept has been given up: for a sequence that waits, or for any that runs if None."""
        return self._guarded(lambda host: host.makes_room(sequence, self.now())) or False

    def gives_way(self) -> RequestId | None:
        return self._guarded(lambda host: host.gives_way(self.now()))

    # What the engine tells.

    def settle(self, arrived: Sequence[tuple[SequenceName, Tokens]]) -> None:
        """Before a step is scheduled: what the sidecar told, then what has been queued since."""
        with self.lock:
            now = self._heard = self.now()
            self._hear_told(len(self._link.inbox), now)
            for name, prompt_tokens in arrived:
                self._queued(name, prompt_tokens, now)
            self._guarded(lambda host: host.policy.time_passed(now))
            self._show(now)

    def admitted(self, sequence: RequestId, cached: Tokens) -> None:
        self._send(self._guarded(lambda host: host.admitted(sequence, cached, self.now())))

    def stepped(self, done: StepDone) -> None:
        self._guarded(lambda host: host.stepped(done))

    def step_is_over(self) -> None:
        """A step is over, and the sequences that ended with it have been closed."""
        self._guarded(lambda host: host.tell_if_due(self.now()))

    def preempted(self, sequence: RequestId) -> None:
        self._guarded(lambda host: host.preempted(sequence, self.now()))

    def evicted(self) -> None:
        """The request that the policy let go has been preempted."""
        if self.host is not None:
            self.host.counters.evictions += 1

    def ends(self, sequence: RequestId) -> None:
        """The sequence has finished; its KV is freed next, and then it is closed."""
        self._guarded(lambda host: host.ends(sequence, self.now()))

    def keep_nothing(self) -> None:
        """What is kept is worth nothing any more."""
        if self.host is not None:
            self.host.keeping.kept.let_all_go()

    def closed(self, sequence: RequestId, produced: Tokens, finished: bool) -> None:
        self._send(self._guarded(lambda host: host.closed(sequence, produced, finished, self.now())))

    # What the link's thread does.

    def between_steps(self) -> None:
        """Hear what the sidecar told, if no step comes to do so. Never waits for the engine."""
        now = self.now()
        due = self._link.inbox or now >= self._next_snapshot
        if not due or now < self._heard + IDLE_AFTER or not self.lock.acquire(blocking=False):
            return
        try:
            if not self._in_step():
                self._hear_told(min(len(self._link.inbox), MOST_AT_ONCE), now)
                self._show(now)
        finally:
            self.lock.release()

    # What people ask.

    def snapshot(self) -> PlugInSnapshot:
        longest_decision, self._longest_decision = self._longest_decision, 0.0
        link = self._link
        return replace(
            self._guarded(lambda host: host.snapshot()) or PlugInSnapshot(),
            generation=self._generation,
            dismissed=self.host is None,
            failures=self.failures,
            failure=self.failure,
            malformed=link.malformed,
            dropped_in=link.dropped_in,
            dropped_out=link.dropped_out,
            decisions=self._decisions,
            decision_seconds=self._decision_seconds,
            longest_decision=longest_decision,
        )

    # How.

    def _guarded(self, act: Callable[[EngineHost], T]) -> T | None:
        with self.lock:
            if self.host is None:
                return None
            try:
                return act(self.host)
            except Exception as error:
                self._dismiss(error)
                return None

    def _queued(self, name: SequenceName, prompt_tokens: Tokens, now: Seconds) -> None:
        self._send(self._guarded(lambda host: host.queued(name, prompt_tokens, now)))

    def _dismiss(self, error: Exception) -> None:
        self.keep_nothing()
        self.host = None
        self.failures += 1
        self.failure = repr(error)
        self._log.error("the policy failed and is dismissed, requests are served as they arrived: %r", error)
        self._next_snapshot = 0.0

    def _hear_told(self, messages: int, now: Seconds) -> None:
        for _ in range(messages):
            self._hear(self._link.inbox.popleft(), now)

    def _show(self, now: Seconds) -> None:
        if now >= self._next_delivered:
            self._next_delivered = now + DELIVERED_EVERY
            self._send(self._guarded(lambda host: host.elsewhere.delivered()))
        if now >= self._next_snapshot:
            self._next_snapshot = now + SNAPSHOT_EVERY
            self._link.send(self.snapshot())

    def _hear(self, message: object, now: Seconds) -> None:
        match message:
            case Ticket():
                self._guarded(lambda host: host.ticket(message, now))
            case RunEnded(run=run):
                self._guarded(lambda host: host.run_ended(run, now))
            case Elsewhere():
                self._guarded(lambda host: host.others_did(message, now))
            case Configure():
                self._configure(message, now)
            case Hello(instance=instance):
                if instance != self._sidecar:
                    self._sidecar = instance
                    self._guarded(lambda host: host.end_runs(now))
            case AskQueue(limit=limit):
                self._answer(limit, now)

    def _configure(self, told: Configure, now: Seconds) -> None:
        """A configuration that is not valid leaves the one in effect."""
        before = None if self.host is None else self.host.policy
        self._log_unknown(told)
        try:
            host = self.host or self._fresh(now)
            host.configure(told, now)
        except ValueError as error:
            self._log.error("configuration %d is not put into effect: %s", told.generation, error)
        except Exception as error:
            self._dismiss(error)
        else:
            self.host = host
            self._generation = told.generation
            if host.policy is not before:
                self._log.info(
                    "policy %s is in effect by configuration %d, tenants are charged %s",
                    told.policy,
                    told.generation,
                    host.policy.cost_model.unit,
                )

    def _log_unknown(self, told: Configure) -> None:
        """Knobs of a later release are passed over, each logged once."""
        _, unknown = knobs_of(told)
        if new := unknown - self._unknown_knobs:
            self._unknown_knobs |= new
            self._log.warning("no policy has these knobs, which are passed over: %s", ", ".join(sorted(new)))

    def _by_arrival(self, kv_tokens: Tokens, now: Seconds) -> EngineHost:
        """A host before any configuration."""
        policy = FCFS(EngineTime(PRIOR))
        policy.in_cache = self._in_cache
        return EngineHost(policy, kv_tokens, now, self._produced, self._contexts)

    def _fresh(self, now: Seconds) -> EngineHost:
        """A host that has been told of all open sequences."""
        host = self._by_arrival(self._kv_tokens, now)
        for each in self._open_sequences():
            host.queued(each.name, each.prompt_tokens, now, each.produced)
            if each.running:
                host.admitted(each.name.id, 0, now)
        return host

    def _answer(self, limit: int, now: Seconds) -> None:
        """Looking changes nothing: if it fails, the policy stays in effect, and there is no answer."""
        try:
            self._link.send(explain(self.host, self._view(limit), limit, now))
        except Exception as error:
            self._log.warning("the queue cannot be explained: %r", error)

    def _send(self, message: Arrived | Admitted | Closed | Delivered | None) -> None:
        if message is not None:
            self._link.send(message)
