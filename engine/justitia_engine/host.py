"""The policy's host inside an engine: it tells the policy whose the engine's work is, and what the engine did.

The engine works on sequences; each belongs to a request, for which the sidecar sends a ticket. Without one a sequence
is a run of its own, of the tenant `UNTICKETED`, whose weight is the lowest of all. When the ticket comes it moves to
its run: what it was charged until then stays where it is, and its tenant is charged from then on.

Nothing here knows vLLM, sockets or clocks; `now` is in seconds. What the policy raises is not caught here.
"""

from collections import OrderedDict, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

from justitia_channel.messages import Admitted, Arrived, Closed, Configure, Elsewhere, PlugInSnapshot, Ticket
from justitia_engine.elsewhere import OtherEngines
from justitia_engine.keeping import Contexts, Keeping
from justitia_engine.untold import StepDone, Untold
from justitia_scheduling.core.model import Request, Run, Step
from justitia_scheduling.core.opened import RequestState
from justitia_scheduling.core.policy import Policy
from justitia_scheduling.core.step_time import StepTimeFit
from justitia_scheduling.core.takeover import carry_over
from justitia_scheduling.policies.registry import build_cost_model, build_policy
from justitia_vocabulary.policies import Knob
from justitia_vocabulary.units import ApplicationId, RequestId, RunId, Seconds, TenantId, Tokens

UNTICKETED = TenantId("")
FEW_STEPS, MANY_STEPS = 4, 16
"""While no request gives way, the policy is asked for one every few steps. Before it is asked, it hears of the steps
that it does not know, if they are many; if they are only a few, where somebody should not wait for more.
"""
MOST_TICKETS = 100_000
"""Tickets whose sequences have not come. Beyond it the oldest is forgotten."""


@dataclass(frozen=True, slots=True)
class SequenceName:
    """The engine's own id of a sequence, and what it is to the sidecar: the request's key and a number."""

    id: RequestId
    key: str
    number: int


@dataclass(frozen=True, slots=True)
class OpenSequence:
    """A sequence that the engine has already when a policy is made."""

    name: SequenceName
    prompt_tokens: Tokens
    produced: Tokens
    running: bool


@dataclass(slots=True)
class Counters:
    """Counts since the host was made. `evictions` are the preemptions for a head that did not fit. A ticket's lag is
    the time from its sending to its being applied; `longest_lag` is the longest since the last snapshot.
    """

    unticketed: int = 0
    late_tickets: int = 0
    forgotten_tickets: int = 0
    preemptions: int = 0
    evictions: int = 0
    tickets: int = 0
    lag: Seconds = 0.0
    longest_lag: Seconds = 0.0

    def observe_lag(self, lag: Seconds) -> None:
        self.tickets += 1
        self.lag += lag
        self.longest_lag = max(self.longest_lag, lag)


@dataclass(slots=True)
class _Known:
    """A sequence; `read` prompt and `produced` output tokens are from before it came to the policy, or to its run."""

    name: SequenceName
    prompt_tokens: Tokens
    produced: Tokens = 0
    read: Tokens = 0


@dataclass(slots=True)
class _Awaited:
    """A ticket of which `left` sequences have not come."""

    ticket: Ticket
    left: int = field(init=False)

    def __post_init__(self) -> None:
        self.left = self.ticket.sequences


Produced = Callable[[RequestId], Tokens]
"""Tells how many output tokens a sequence has in the engine, in all."""


def knobs_of(told: Configure) -> tuple[dict[Knob, float], frozenset[str]]:
    """The knobs that are set, and the names of unknown ones, which a later release's sidecar may send."""
    by_name = {knob.value: knob for knob in Knob}
    known = {by_name[name]: value for name, value in told.knobs.items() if name in by_name}
    return known, frozenset(told.knobs) - by_name.keys()


class EngineHost:
    """One policy, told everything once. `fit` learns the engine's step time, `keeping` what is kept of ended sequences,
    in the KV that `contexts` knows; None: nothing. `elsewhere` is what other engines of the pool did.
    """

    def __init__(
        self, policy: Policy, kv_tokens: Tokens, now: Seconds, produced: Produced, contexts: Contexts | None = None
    ) -> None:
        self.policy = policy
        self.counters = Counters()
        self.fit = StepTimeFit()
        self._untold = Untold(self.fit)
        self._since_asked_in_vain = FEW_STEPS
        self._produced = produced
        self._known: dict[RequestId, _Known] = {}
        self._awaited: OrderedDict[str, _Awaited] = OrderedDict()
        self._without: defaultdict[str, list[RequestId]] = defaultdict(list)
        self._ending: set[RunId] = set()
        self._waiting: dict[str, int] = {}
        self._configured: frozenset[ApplicationId] = frozenset()
        self.keeping = Keeping(policy, contexts)
        self.elsewhere = OtherEngines(policy)
        policy.set_capacity(kv_tokens, now)

    # What the sidecar tells.

    def configure(self, told: Configure, now: Seconds) -> None:
        """Put a configuration into effect. Raises ValueError, and nothing changes, if it is not valid."""
        policy = self.policy
        named = build_policy(told.policy, build_cost_model(told.cost_model, self.fit.step_time))
        if any(weight <= 0 for weight in told.weights.values()):
            raise ValueError(f"weights must be positive: {told.weights}")
        if any(share.weight <= 0 for share in told.applications.values()):
            raise ValueError(f"weights of applications must be positive: {told.applications}")
        knobs, _ = knobs_of(told)
        named.tune(knobs)
        self.tell(now)
        if type(named) is not type(policy) or named.cost_model.unit != policy.cost_model.unit:
            carry_over(policy, named, now, keep_service=named.cost_model.unit == policy.cost_model.unit)
            policy = self.policy = self.keeping.kept.policy = named
            self.elsewhere.moved_to(policy)
        else:
            policy.tune(knobs)
        for tenant, weight in {**told.weights, UNTICKETED: min(told.weights.values(), default=1.0)}.items():
            if policy.weight(TenantId(tenant)) != weight:
                policy.set_weight(TenantId(tenant), weight, now)
        for application, share in told.applications.items():
            if policy.share(application) != (share.weight, share.priority):
                policy.set_application(application, share.weight, share.priority, now)
        self._configured = frozenset(told.applications)
        self.elsewhere.share(told.pooled)

    def ticket(self, ticket: Ticket, now: Seconds) -> None:
        """A request is on its way, or its sequences are here already."""
        if ticket.sent is not None:
            self.counters.observe_lag(max(0.0, now - ticket.sent))
        self._ending.discard(ticket.run)
        awaited = _Awaited(ticket)
        for sequence in self._without.pop(ticket.key, []):
            self.counters.late_tickets += 1
            awaited.left -= 1
            self._move(sequence, ticket, now)
        if awaited.left > 0:
            self._awaited[ticket.key] = awaited
            if len(self._awaited) > MOST_TICKETS:
                self._awaited.popitem(last=False)
                self.counters.forgotten_tickets += 1

    def others_did(self, told: Elsewhere, now: Seconds) -> None:
        """What the pool's other engines did. A run that is open there goes on here, too."""
        self._ending.difference_update(each.run for each in told.opened)
        self.elsewhere.hear(told, now)

    def run_ended(self, run: RunId, now: Seconds) -> None:
        """The run ends when its sequences have, unless another ticket of it comes."""
        if run in self.policy.runs:
            self._ending.add(run)
            self._left(run, now)

    def end_runs(self, now: Seconds) -> None:
        """The sidecar that opened the runs is gone."""
        self._awaited.clear()
        self.elsewhere.forget()
        for run in list(self.policy.runs):
            self.run_ended(run, now)

    # What the engine tells.

    def queued(self, name: SequenceName, prompt_tokens: Tokens, now: Seconds, produced: Tokens = 0) -> Arrived | None:
        """The engine has a sequence. Tokens that it has `produced` already are charged to nobody and count as prompt.
        Returns what to tell the sidecar: of a request's first sequence only.
        """
        self._known[name.id] = _Known(name, prompt_tokens, produced)
        self._wait(name.key, 1)
        prompt_tokens += produced
        awaited = self._awaited.get(name.key)
        if awaited is None:
            self._without[name.key].append(name.id)
            run = Run(RunId(f"/{name.id}"), UNTICKETED, ApplicationId(""))
            self._ending.add(run.id)
            self.policy.run_arrived(run, now)
            self.policy.request_arrived(Request(name.id, run.id, prompt_tokens), now)
        else:
            awaited.left -= 1
            if not awaited.left:
                del self._awaited[name.key]
            self._enter(name.id, awaited.ticket, prompt_tokens, now)
        return Arrived(name.key) if name.number == 0 else None

    def admitted(self, sequence: RequestId, cached: Tokens, now: Seconds) -> Admitted | None:
        """The sequence joins the batch. Returns what to tell the sidecar: the first time only."""
        self.keeping.admitted(sequence, now)
        first = not self.policy.requests[sequence].begun
        self.policy.admitted(sequence, now, cached if first else 0)
        name = self._known[sequence].name
        self._wait(name.key, -1)
        return Admitted(name.key, name.number) if first else None

    def stepped(self, done: StepDone) -> None:
        """A step is over. The policy hears of it with `closed`, `preempted` and :meth:`tell_if_due`."""
        self._untold.add(done)
        self._since_asked_in_vain += 1
        self.keeping.kept.iterations += 1
        for reading in done.readings:
            if reading.sequence in self._known:
                self._untold.note(reading)

    def tell_if_due(self, now: Seconds) -> None:
        if self._untold.due(len(self.policy.running)):
            self.tell(now)

    def gives_way(self, now: Seconds) -> RequestId | None:
        """The running request that makes room for the head, which does not fit. Which one it is depends on what other
        tenants were charged. So the policy first learns of the steps that it does not know, unless they are few.
        """
        policy, steps = self.policy, self._untold.steps
        if self._since_asked_in_vain < FEW_STEPS:
            return None
        if steps >= FEW_STEPS:
            charge = policy.cost_model.at_most(self._untold.duration)
            if policy.may_give_way(charge, soon=steps < MANY_STEPS):
                self.tell(now)
        loser = policy.gives_way()
        if loser is None:
            self._since_asked_in_vain = 0
        return loser

    def makes_room(self, sequence: RequestId | None, now: Seconds) -> bool:
        """Give up KV that is kept for a paused run, for a sequence that waits, or for any that runs if None. False if
        none has to go.
        """
        if sequence is None:
            return self.keeping.kept.make_room(None, now)
        request = self.policy.requests.get(sequence)
        return request is not None and self.keeping.kept.make_room(request.run.id, now)

    def tell(self, now: Seconds) -> None:
        """Tell the policy all that has been done for what runs."""
        if not self._untold.steps:
            return
        policy = self.policy
        policy.cost_model.learn_step_time(self.fit.step_time)
        progress = [p for s in policy.running if (p := self._untold.progress(s, self._new(s))) is not None]
        if progress:
            policy.stepped(Step(progress, self._untold.told()), now)

    def preempted(self, sequence: RequestId, now: Seconds) -> None:
        self._tell_of(sequence, self._new(sequence), now)
        self.policy.preempted(sequence, now)
        self.counters.preemptions += 1
        self._wait(self._known[sequence].name.key, 1)

    def ends(self, sequence: RequestId, now: Seconds) -> None:
        """The sequence has finished, and its KV is about to be freed. :meth:`closed` follows."""
        request = self.policy.requests.get(sequence)
        if request is not None and request.run.id not in self._ending:
            self.keeping.ends(sequence, request.run, now)

    def closed(self, sequence: RequestId, produced: Tokens, finished: bool, now: Seconds) -> Closed | None:
        """The sequence is over, or aborted at any stage. Returns what to tell the sidecar; None if never `queued`."""
        if sequence not in self._known:
            return None
        policy = self.policy
        if sequence not in policy.running:
            self._wait(self._known[sequence].name.key, -1)
        untold = produced - self._told(sequence)
        if (untold or finished) and sequence not in policy.running:
            policy.admitted(sequence, now)
        self._tell_of(sequence, untold, now)
        known, request = self._known.pop(sequence), policy.requests[sequence]
        if finished:
            policy.finished(sequence, now)
        else:
            policy.aborted(sequence, now)
        self.keeping.left(sequence, now)
        name = known.name
        if (without := self._without.get(name.key)) is not None and sequence in without:
            self.counters.unticketed += 1
            without.remove(sequence)
            if not without:
                del self._without[name.key]
        self._left(request.run.id, now)
        return Closed(
            name.key,
            name.number,
            finished,
            known.prompt_tokens,
            request.cached,
            produced,
            request.preemptions,
            request.charged,
            known.read + request.prefilled,
        )

    # How.

    def _enter(self, sequence: RequestId, ticket: Ticket, prompt_tokens: Tokens, now: Seconds) -> None:
        if ticket.run not in self.policy.runs:
            self.policy.run_arrived(Run(ticket.run, ticket.tenant, ticket.application, ticket.run_cost), now)
        self.policy.request_arrived(Request(sequence, ticket.run, prompt_tokens, boosted_for=ticket.boosted_for), now)
        self.keeping.comes(sequence, self.policy.runs[ticket.run])

    def _move(self, sequence: RequestId, ticket: Ticket, now: Seconds) -> None:
        """To the policy the moved sequence is a new request, whose prompt is all the tokens of the first one."""
        before = self.policy.requests[sequence]
        if before.status is RequestState.RUNNING:
            self._tell_of(sequence, self._new(sequence), now)
        self._known[sequence].produced += before.produced
        self._known[sequence].read += before.prefilled
        self.policy.aborted(sequence, now)
        self._left(before.run.id, now)
        self._enter(sequence, ticket, before.tokens, before.arrival)
        moved = self.policy.requests[sequence]
        moved.begun, moved.cached = before.begun, before.cached
        if before.status is RequestState.RUNNING:
            self.policy.admission_resumed(sequence, now)

    def _wait(self, key: str, more: int) -> None:
        """`more` sequences of the request wait, fewer if negative."""
        if left := self._waiting.get(key, 0) + more:
            self._waiting[key] = left
        else:
            del self._waiting[key]

    def _told(self, sequence: RequestId) -> Tokens:
        """Output tokens of the sequence that a policy has been told of."""
        return self._known[sequence].produced + self.policy.requests[sequence].produced

    def _new(self, sequence: RequestId) -> Tokens:
        """Output tokens of the sequence that no policy has been told of."""
        return self._produced(sequence) - self._told(sequence)

    def _tell_of(self, sequence: RequestId, produced: Tokens, now: Seconds) -> None:
        """Tell the policy what was done for one running sequence, with its part of the time; if it runs alone, all."""
        running = self.policy.running
        if sequence in running and len(running) == 1 and self._untold.steps:
            self.tell(now)
            return
        progress = self._untold.progress(sequence, produced)
        if progress is not None and sequence in running:
            request = self.policy.requests[sequence]
            self.policy.stepped(Step([progress], self._untold.take_part(progress, request.tokens)), now)

    def _left(self, run: RunId, now: Seconds) -> None:
        if run in self._ending and not (opened := self.policy.runs[run]).requests:
            self._ending.discard(run)
            self.keeping.run_ends(opened, now)
            self.policy.run_ended(run, now)

    # What people ask.

    @property
    def waiting(self) -> int:
        return len(self.policy.requests) - len(self.policy.running)

    @property
    def waiting_requests(self) -> int:
        """The number of requests with a sequence that waits."""
        return len(self._waiting)

    def name(self, sequence: RequestId) -> SequenceName:
        return self._known[sequence].name

    def snapshot(self) -> PlugInSnapshot:
        """The host's and the policy's part of one."""
        policy, counters, keeping = self.policy, self.counters, self.keeping
        longest_lag, counters.longest_lag = counters.longest_lag, 0.0
        return PlugInSnapshot(
            waiting=self.waiting,
            running=len(policy.running),
            open_runs=len(policy.runs),
            service=dict(policy.service),
            application_service={a: had for a, had in policy.application_service.items() if a in self._configured},
            unit=policy.cost_model.unit,
            kv_token_time=dict(policy.kv_token_time),
            unticketed=counters.unticketed,
            late_tickets=counters.late_tickets,
            forgotten_tickets=counters.forgotten_tickets,
            preemptions=counters.preemptions,
            evictions=counters.evictions,
            revisions=policy.revisions,
            tickets=counters.tickets,
            ticket_lag=counters.lag,
            longest_ticket_lag=longest_lag,
            kept_tokens=keeping.kept.tokens,
            contexts_taken_over=keeping.taken_over,
            contexts_given_up=keeping.given_up,
            step_time=self.fit.step_time,
            policy=policy.report(),
        )
