"""When a request goes to the engine. Owns the policy, the KV reservations and the engine's small own queue.

A request enters, waits in the policy's order and is admitted when it is the head and fits:

- *KV space.* A request reserves its prompt and predicted output (`outputs.py`; `max_tokens` where nothing else ends the
  output, as with `ignore_eos`), in whole blocks, out of the engine's M tokens. A request that
  outgrows its reservation holds what it really has; if the engine runs out, it preempts the request of largest
  priority number, the one admitted last.
- *The engine's own queue stays short* (`beginnings.py`). The engine's own count of requests that wait for its steps
  overrules what is presumed here.

The pool's queue is shared by weight (`room.py`): where it is full, the newest request of the tenant that holds most for
its weight gives way to one of a tenant that holds less.

The head that does not fit blocks. Requests of a tenant at its own limit of running requests, or with which the engine
takes too long to begin, are kept out of the policy in order of arrival.

Accounting is here too: every token of prompt and output reaches the policy once, as the engine counts it.
No clock, no I/O; `now` is in seconds.
"""

from bisect import insort
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from justitia_api.config import PoolConfig, TenantLimits
from justitia_api.status import GateStatus
from justitia_scheduling.core.model import Progress, Request, Step
from justitia_scheduling.core.policy import Policy
from justitia_scheduling.core.step_time import StepTimeFit
from justitia_scheduling.core.takeover import carry_over
from justitia_sidecar.admission.beginnings import UNSTARTED, Beginnings
from justitia_sidecar.admission.bounds import Queue, check_fits, check_room, queue_full
from justitia_sidecar.admission.estimate import presumed
from justitia_sidecar.admission.knobs import configured_knobs
from justitia_sidecar.admission.outputs import OutputMeans
from justitia_sidecar.admission.runs import RunTable
from justitia_sidecar.admission.ticket import Stage, Ticket
from justitia_sidecar.limits.room import Room
from justitia_vocabulary.units import RequestId, Seconds, TenantId, Tokens
from justitia_vocabulary.waiting import WaitingReason

AT_A_TIME = 64
"""Requests that enter or leave the policy in one go, because their tenant's state has changed."""


@dataclass(slots=True)
class EngineView:
    """What is known of the engine. `running`, `waiting` and, of these, `deferred`, which wait for something else than
    its steps, are its own counts, as last told. `progress` is another after each step: the
    steps that had output, and the KV space in use, which grows with those that read a prompt. None: it tells of none.
    """

    ready: bool = False
    kv_tokens: Tokens | None = None
    block_size: Tokens = 1
    longest: Tokens | None = None
    waiting: int = 0
    running: int = 0
    deferred: int = 0
    progress: tuple[str, ...] | None = None


@dataclass(slots=True)
class TenantLoad:
    """In sequences. `released` are those that are not held back; `held` are the requests that are."""

    queued: int = 0
    running: int = 0
    released: int = 0
    held: deque[Ticket] = field(default_factory=deque)


class Admission:
    _held_up_by = WaitingReason.TENANT_NOT_BEGUN
    """Why those wait that are held up because of others of their tenant."""

    def __init__(self, config: PoolConfig, policy: Policy, step_time: StepTimeFit | None = None) -> None:
        self.policy = policy
        self.runs = RunTable(policy)
        self.engine = EngineView()
        self.load: defaultdict[TenantId, TenantLoad] = defaultdict(TenantLoad)
        self.tickets: dict[RequestId, Ticket] = {}
        self.reserved: Tokens = 0
        self.outputs = OutputMeans()
        self.fit = step_time or StepTimeFit()
        self._config = config
        self._limits = {TenantId(t.name): t.limits for t in config.tenants}
        self._queued = 0
        self._room: Room[RequestId] = Room(None, lambda request: self.waits(self.tickets[request]))
        self._bound_queue()
        self._beginnings = Beginnings()
        self._to_release: dict[TenantId, None] = {}
        """Tenants with held requests that nothing holds back."""
        self._rank = 0
        self._processed: Tokens = 0
        self._resident: Tokens = 0
        self._reference: Ticket | None = None

    @property
    def queued(self) -> int:
        """Sequences that wait, held ones included."""
        return self._queued

    @property
    def service(self) -> Mapping[TenantId, float]:
        """What tenants were charged, in `unit`."""
        return self.policy.service

    @property
    def unit(self) -> str:
        return self.policy.cost_model.unit

    @property
    def gate(self) -> GateStatus | None:
        report = self.policy.report()
        if report.burst is None or report.in_engine is None:
            return None
        return GateStatus(burst=report.burst, in_engine=report.in_engine)

    # What a request goes through.

    def check_room(self, tenant: TenantId, sequences: int = 1) -> None:
        """Raises a refusal where the pool or the tenant has no room for so many sequences."""
        own = self._limits.get(tenant, TenantLimits())
        check_room(
            sequences,
            self._config.queue.maximum_requests,
            Queue(self.load[tenant].queued, own.queued_requests),
            own.running_requests,
        )
        if not self._room.has_room(tenant, sequences):
            raise queue_full(self._config.queue.maximum_requests)

    def check_fits(self, prompt_tokens: Tokens, max_tokens: Tokens) -> None:
        """Raises a refusal with 400 where an exactly counted prompt can never be served."""
        known = [b for b in (self.engine.longest, self.engine.kv_tokens) if b is not None]
        check_fits(prompt_tokens, max_tokens, known)

    def enter(self, ticket: Ticket, now: Seconds) -> None:
        """The request waits, and another one gives way where the queue is full. Its run counts it already.

        Raises a refusal where the queue has filled since `check_room`; the request is to `leave` then, too.
        """
        self.tickets[ticket.id] = ticket
        load = self.load[ticket.tenant]
        load.queued += ticket.sequences
        self._queued += ticket.sequences
        load.held.append(ticket)
        displaced = self._room.enter(ticket.tenant, ticket.id, ticket.sequences)
        if displaced is None:
            raise queue_full(self._config.queue.maximum_requests)
        for request in displaced:
            self.tickets[request].on_displaced()
        self._release(ticket.tenant, now)

    def pump(self, now: Seconds) -> None:
        """Admit while the head fits."""
        for tenant in list(self._to_release):
            self._release(tenant, now)
        self._beginnings.look(now)
        held_back = 0
        while (head := self.policy.head()) is not None:
            ticket = self.tickets[head]
            if self._beginnings.stuck(ticket.tenant):
                if held_back == AT_A_TIME:
                    return
                held_back += 1
                self._hold_back(ticket, now)
            elif self._obstacle(ticket, now) is not None:
                return
            else:
                self._admit(ticket, now)

    def leave(self, ticket: Ticket, now: Seconds, *, completed: bool, ends_run: bool = False) -> None:
        """The request is over: completed, or aborted at whatever stage."""
        load = self.load[ticket.tenant]
        match ticket.stage:
            case Stage.HELD:
                load.held.remove(ticket)
                load.queued -= ticket.sequences
                self._queued -= ticket.sequences
            case Stage.QUEUED:
                self.policy.aborted(ticket.id, now)
                load.queued -= ticket.sequences
                load.released -= ticket.sequences
                self._queued -= ticket.sequences
            case Stage.SENT | Stage.STARTED:
                self._beginnings.over(ticket)
                self.reserved -= ticket.reserved
                self._resident -= ticket.resident
                load.running -= ticket.sequences
                load.released -= ticket.sequences
                if completed:
                    self.policy.finished(ticket.id, now)
                    self.outputs.observe(ticket.application, ticket.produced // ticket.sequences)
                else:
                    self.policy.aborted(ticket.id, now)
            case Stage.OVER:
                return
        if ticket is self._reference:
            self._reference = None
        ticket.stage = Stage.OVER
        self._room.leave(ticket.tenant, ticket.id)
        del self.tickets[ticket.id]
        self.runs.leave(ticket.run, now, ends=ends_run)
        self._release(ticket.tenant, now)
        self.pump(now)

    def waits(self, ticket: Ticket) -> bool:
        """Whether the request may still be refused because it waits."""
        return ticket.stage in (Stage.HELD, Stage.QUEUED)

    # What the engine did.

    def counted(
        self, ticket: Ticket, prompt_tokens: Tokens, produced: Tokens, now: Seconds, cached: Tokens = 0
    ) -> None:
        """The engine's count so far: `prompt_tokens` and, in all, `produced`. `cached` is told at most once, first."""
        new = produced - ticket.produced
        first = ticket.stage is Stage.SENT and new > 0
        if not ticket.prompt_exact or prompt_tokens > ticket.prompt_tokens:
            self._correct_prompt(ticket, prompt_tokens, now)
        if new <= 0:
            return
        prefilled = max(0, ticket.prompt_tokens - cached) if first else 0
        self.policy.stepped(Step((Progress(ticket.id, prefilled=prefilled, produced=new),)), now)
        ticket.produced = produced
        self._processed += prefilled + new
        self._hold(ticket, new)
        held = ticket.prompt_tokens + produced
        if held > ticket.reserved:
            grown = self._blocks(held)
            self.reserved += grown - ticket.reserved
            ticket.reserved = grown
        if ticket.streamed:
            self._time_steps(ticket, new, now)
        if first:
            self._started(ticket, now)
        else:
            # What was charged may have put another request at the head, one that fits.
            self.pump(now)

    def refused_by_engine(self, ticket: Ticket, now: Seconds) -> None:
        """The engine did not take the request: it has done nothing for it."""
        self._started(ticket, now)

    def engine_told(self, view: EngineView, now: Seconds) -> None:
        self.engine = view
        if view.kv_tokens is not None and view.kv_tokens != self.policy.capacity:
            self.policy.set_capacity(view.kv_tokens, now)
        self.pump(now)

    def tick(self, now: Seconds) -> None:
        """Housekeeping, about once a second: runs expire, time is charged by the latest fit."""
        self.policy.cost_model.learn_step_time(self.fit.step_time)
        self.runs.expire(now)
        self.pump(now)

    def abandoned(self, ticket: Ticket, now: Seconds) -> Tokens:
        """A request that was sent is over, and nothing was seen of its answer: it is charged what the engine should
        have done by the fitted step time since it was sent, with the step under way, which it does not break off.
        At most that is its prompt and, where the answer is not streamed, its output; at least a token of each.
        Returns the estimate of its output.
        """
        running, resident = len(self.policy.running), self._resident
        prefilled, produced = presumed(ticket, ticket.sent, now, self.fit.step_time, running=running, resident=resident)
        if not ticket.prompt_exact:
            self.policy.prompt_known(ticket.id, prefilled, now)
        self.policy.stepped(Step((Progress(ticket.id, prefilled=prefilled, produced=produced),)), now)
        ticket.prompt_tokens, ticket.produced = prefilled, produced
        return produced

    def next_look(self, now: Seconds) -> Seconds | None:
        """When to pump again though nothing happens: a request should have begun by then, or is overdue, or not all
        has been done that could be. None: no such moment.
        """
        if not self._queued:
            return None
        head = self.policy.head()
        if self._to_release or (head is not None and self._beginnings.stuck(self.tickets[head].tenant)):
            return now
        return self._beginnings.next_due

    # What the pool's owner changes.

    def reconfigure(self, config: PoolConfig, policy: Policy, now: Seconds, *, keep_service: bool) -> None:
        """Put a configuration in force; `policy` is the present one or a fresh one that takes over."""
        if policy is not self.policy:
            carry_over(self.policy, policy, now, keep_service=keep_service)
            self.policy = self.runs.policy = policy
        knobs = configured_knobs(config.scheduling)
        policy.tune({knob: value for knob, value in knobs.items() if knob in policy.knobs})
        self._config = config
        self._limits = {TenantId(t.name): t.limits for t in config.tenants}
        self._bound_queue()
        for tenant in config.tenants:
            if policy.weights.get(TenantId(tenant.name)) != tenant.weight:
                policy.set_weight(TenantId(tenant.name), tenant.weight, now)
        for name in list(self.load):
            self._release(name, now)
        self.pump(now)

    # What people ask.

    def waiting(self, now: Seconds) -> Iterator[tuple[Ticket, WaitingReason]]:
        """Waiting requests in order, each with why it waits."""
        order = self.policy.order()
        for request in order:
            ticket = self.tickets[request]
            obstacle = self._obstacle(ticket, now)
            if obstacle is WaitingReason.ENGINE_UNAVAILABLE:
                yield ticket, obstacle
            elif request == order[0]:
                yield ticket, obstacle or WaitingReason.BEHIND_OTHERS
            else:
                yield ticket, self.policy.why_waits(self.policy.requests[request])
        for tenant, load in self.load.items():
            reason = self._held_up_by if self._held_up(tenant) else WaitingReason.TENANT_LIMIT
            for ticket in load.held:
                yield ticket, reason

    def reservation(self, ticket: Ticket) -> Tokens:
        """KV tokens the request would reserve if it were admitted, never more than the engine has."""
        most = ticket.max_tokens
        output = most if ticket.fixed_output else self.outputs.predict(ticket.application, most)
        return self._blocks(ticket.prompt_tokens + ticket.sequences * output)

    # How.

    def _bound_queue(self) -> None:
        self._room.capacity = self._config.queue.maximum_requests
        weights = {TenantId(t.name): t.weight for t in self._config.tenants}
        self._room.reweight(weights)
        self.runs.reweight(weights)

    def _release(self, tenant: TenantId, now: Seconds) -> None:
        """Tell the policy of the tenant's held requests that nothing holds back, `AT_A_TIME`."""
        self._to_release.pop(tenant, None)
        load = self.load[tenant]
        limits = self._limits.get(tenant)
        most = limits.running_requests if limits else None
        released = 0
        while load.held and not self._held_up(tenant):
            ticket = load.held[0]
            if most is not None and load.released and load.released + ticket.sequences > most:
                return
            if released == AT_A_TIME:
                self._to_release[tenant] = None
                return
            released += 1
            load.held.popleft()
            load.released += ticket.sequences
            ticket.stage = Stage.QUEUED
            self._released(ticket)
            known = ticket.prompt_tokens if ticket.prompt_exact else 0
            self.policy.request_arrived(Request(ticket.id, ticket.run.id, known), now)

    def _held_up(self, tenant: TenantId) -> bool:
        """Whether the tenant's requests stay here because of those that it gave the engine before."""
        return self._beginnings.stuck(tenant)

    def _released(self, ticket: Ticket) -> None:
        """Nothing holds the request back."""

    def _obstacle(self, ticket: Ticket, now: Seconds) -> WaitingReason | None:
        capacity = self.engine.kv_tokens
        if not self.engine.ready or capacity is None:
            return WaitingReason.ENGINE_UNAVAILABLE
        if self._beginnings.full or self.engine.waiting - self.engine.deferred > UNSTARTED:
            return WaitingReason.ENGINE_BUSY
        if self.reserved and self.reserved + self.reservation(ticket) > capacity:
            return WaitingReason.NO_KV_SPACE
        return None

    def _admit(self, ticket: Ticket, now: Seconds) -> None:
        self._count_as_running(ticket)
        self._rank += 1
        ticket.rank = self._rank
        ticket.reserved = self.reservation(ticket)
        t = self.fit.step_time
        prefill = t.per_step + t.per_token * ticket.prompt_tokens
        self.reserved += ticket.reserved
        self._beginnings.given(ticket, now, prefill)
        self._send(ticket, now)
        ticket.on_begun()

    def _count_as_running(self, ticket: Ticket) -> None:
        load = self.load[ticket.tenant]
        load.queued -= ticket.sequences
        load.running += ticket.sequences
        self._queued -= ticket.sequences
        self._room.leave(ticket.tenant, ticket.id)

    def _send(self, ticket: Ticket, now: Seconds) -> None:
        """The request goes to the engine."""
        self.policy.admitted(ticket.id, now)
        ticket.stage = Stage.SENT
        ticket.sent = now
        self._hold(ticket, ticket.prompt_tokens)
        ticket.on_admitted()

    def _started(self, ticket: Ticket, now: Seconds) -> None:
        if ticket.stage is Stage.SENT:
            ticket.stage = Stage.STARTED
            self._beginnings.over(ticket)
            self._release(ticket.tenant, now)
            self.pump(now)

    def _hold_back(self, ticket: Ticket, now: Seconds) -> None:
        """Take a waiting request out of the policy again, for the time being."""
        self.policy.withdrawn(ticket.id, now)
        load = self.load[ticket.tenant]
        load.released -= ticket.sequences
        insort(load.held, ticket, key=lambda each: each.arrival)
        ticket.stage = Stage.HELD

    def _correct_prompt(self, ticket: Ticket, prompt_tokens: Tokens, now: Seconds) -> None:
        ticket.prompt_exact = True
        self.policy.prompt_known(ticket.id, prompt_tokens, now)
        self._hold(ticket, prompt_tokens - ticket.prompt_tokens)
        ticket.prompt_tokens = prompt_tokens

    def _hold(self, ticket: Ticket, tokens: Tokens) -> None:
        """The request has so many more tokens in the engine."""
        ticket.resident += tokens
        self._resident += tokens

    def _blocks(self, tokens: Tokens) -> Tokens:
        size = self.engine.block_size
        whole = -(-tokens // size) * size
        return whole if self.engine.kv_tokens is None else min(whole, self.engine.kv_tokens)

    def _time_steps(self, ticket: Ticket, steps: int, now: Seconds) -> None:
        """One request at a time serves as the clock of the engine's steps."""
        if self._reference is None:
            self._reference = ticket
        elif self._reference is ticket:
            processed = self._processed - ticket.processed_then
            self.fit.observe(now - ticket.last_chunk, steps, processed, self._resident)
        else:
            return
        ticket.last_chunk = now
        ticket.processed_then = self._processed
