"""Between the scheduler and the policy: applies what the sidecar told, answers what the engine asks, never raises.

Where the policy, or its host, raises, it is dismissed: its error is logged and counted, the sidecar is told, and the
engine serves by arrival until a configuration comes. Then a new policy is told all that is open.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from justitia_engine.explain import QueueView, explain
from justitia_engine.host import EngineHost, OpenSequence, SequenceName, Work
from justitia_engine.link import Link, Log
from justitia_scheduling.channel import Admitted, AskQueue, Closed, Configure, Hello, RunEnded, Snapshot, Ticket
from justitia_scheduling.cost import EngineTime
from justitia_scheduling.fcfs import FCFS
from justitia_scheduling.model import RequestId, Seconds, Tokens
from justitia_scheduling.policy import Policy
from justitia_scheduling.step_time import PRIOR

SNAPSHOT_EVERY: Seconds = 1.0

T = TypeVar("T")


class Desk:
    """`open_sequences` lists what the engine has, oldest first. `view` tells what the engine sees of its queue, as much
    as people ask for.
    """

    def __init__(
        self,
        link: Link,
        kv_tokens: Tokens,
        open_sequences: Callable[[], Iterable[OpenSequence]],
        view: Callable[[int], QueueView],
        log: Log,
    ) -> None:
        self.host: EngineHost | None = self._by_arrival(kv_tokens, self.now())
        self.failures = 0
        self.failure = ""
        self._link = link
        self._kv_tokens = kv_tokens
        self._open_sequences = open_sequences
        self._view = view
        self._log = log
        self._generation = -1
        self._sidecar = ""
        self._next_snapshot = 0.0
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
        return self.host is not None and type(self.host.policy).gives_way is not Policy.gives_way

    def gives_way(self) -> RequestId | None:
        return self._guarded(lambda host: host.policy.gives_way())

    # What the engine tells.

    def settle(self, arrived: Sequence[tuple[SequenceName, Tokens]]) -> None:
        """Before a step is scheduled: what the sidecar told, then what has been queued since."""
        now = self.now()
        for _ in range(len(self._link.inbox)):
            self._hear(self._link.inbox.popleft(), now)
        for name, prompt_tokens in arrived:
            self._guarded(lambda host, n=name, p=prompt_tokens: host.queued(n, p, now))  # type: ignore[misc]
        self._guarded(lambda host: host.policy.time_passed(now))
        if now >= self._next_snapshot:
            self._next_snapshot = now + SNAPSHOT_EVERY
            self._link.send(Snapshot(self.state()))

    def admitted(self, sequence: RequestId, cached: Tokens) -> None:
        self._send(self._guarded(lambda host: host.admitted(sequence, cached, self.now())))

    def stepped(self, works: Sequence[Work], duration: Seconds) -> None:
        self._guarded(lambda host: host.stepped(works, duration, self.now()))

    def preempted(self, sequence: RequestId) -> None:
        self._guarded(lambda host: host.preempted(sequence, self.now()))

    def evicted(self) -> None:
        """What the policy let go has been preempted."""
        if self.host is not None:
            self.host.counters.evictions += 1

    def closed(self, sequence: RequestId, produced: Tokens, finished: bool) -> None:
        self._send(self._guarded(lambda host: host.closed(sequence, produced, finished, self.now())))

    # What people ask.

    def state(self) -> dict[str, Any]:
        """Of the policy and of the channel; times in seconds. `longest...` are those since the last snapshot."""
        link, host = self._link, self.host
        longest_decision, self._longest_decision = self._longest_decision, 0.0
        state: dict[str, Any] = {
            "generation": self._generation,
            "dismissed": host is None,
            "failures": self.failures,
            "failure": self.failure,
            "malformed": link.malformed,
            "droppedIn": link.dropped_in,
            "droppedOut": link.dropped_out,
            "decisions": self._decisions,
            "decisionSeconds": self._decision_seconds,
            "longestDecision": longest_decision,
            "kvTokens": self._kv_tokens,
        }
        if host is not None:
            state |= host.state()
        return state

    # How.

    def _guarded(self, act: Callable[[EngineHost], T]) -> T | None:
        host = self.host
        if host is None:
            return None
        try:
            return act(host)
        except Exception as error:
            self._dismiss(error)
            return None

    def _dismiss(self, error: Exception) -> None:
        self.host = None
        self.failures += 1
        self.failure = repr(error)
        self._log(f"the policy failed and is dismissed, requests are served as they arrived: {error!r}")
        self._next_snapshot = 0.0

    def _hear(self, message: object, now: Seconds) -> None:
        match message:
            case Ticket():
                self._guarded(lambda host: host.ticket(message, now))
            case RunEnded(run):
                self._guarded(lambda host: host.run_ended(run, now))
            case Configure():
                self._configure(message, now)
            case Hello(_, instance, _):
                if instance != self._sidecar:
                    self._sidecar = instance
                    self._guarded(lambda host: host.end_runs(now))
            case AskQueue(limit):
                self._answer(limit, now)

    def _configure(self, told: Configure, now: Seconds) -> None:
        """A configuration that is not valid leaves the one in force."""
        try:
            host = self.host or self._fresh(now)
            host.configure(told, now)
        except ValueError as error:
            self._log(f"configuration {told.generation} is not put in force: {error}")
        except Exception as error:
            self._dismiss(error)
        else:
            self.host = host
            self._generation = told.generation

    @staticmethod
    def _by_arrival(kv_tokens: Tokens, now: Seconds) -> EngineHost:
        """A host before any configuration."""
        return EngineHost(FCFS(EngineTime(PRIOR)), kv_tokens, now)

    def _fresh(self, now: Seconds) -> EngineHost:
        """One that has been told all that is open."""
        host = self._by_arrival(self._kv_tokens, now)
        for each in self._open_sequences():
            host.queued(each.name, each.prompt_tokens, now, each.produced)
            if each.running:
                host.admitted(each.name.id, 0, now)
        return host

    def _answer(self, limit: int, now: Seconds) -> None:
        """A look changes nothing: where it fails, the policy stays in force, and there is no answer."""
        try:
            self._link.send(explain(self.host, self._view(limit), limit, now))
        except Exception as error:
            self._log(f"the queue cannot be explained: {error!r}")

    def _send(self, message: Admitted | Closed | None) -> None:
        if message is not None:
            self._link.send(message)
