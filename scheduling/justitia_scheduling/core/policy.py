"""The event interface between a host and a policy, and the bookkeeping that every policy shares.

A host tells a policy what happened, in order, each time with the moment `now` (seconds on the host's clock):

    run_arrived -> request_arrived -> admitted -> stepped* -> finished | aborted -> run_ended
                                         ^------- preempted

and asks three things: :meth:`Policy.head`, the request to admit next; :meth:`Policy.gives_way`, the running request
that makes room for a head that does not fit; and :meth:`Policy.victim`, the running request to preempt when the
engine has run out of KV. The head that does not fit blocks: a host never skips it. So the admission loop of a host is

    while (head := policy.head()) is not None:
        if fits(head):
            policy.admitted(head, now)
        elif preemption is possible and (loser := policy.gives_way()) is not None:
            policy.preempted(loser, now)
        else:
            break

Some policies decide by the time, which they learn by `time_passed`. Those that hold requests back until a point in time
say with `held_until` when to ask again. All others offer a head whenever a request waits.

Invariants kept here, for all policies: a request is known once and served once; each token is charged once,
to the `service` of its tenant and of its application, in the cost model's unit; an aborted request keeps what it
was charged; a run whose requests are all done stays open until `run_ended`, because its next stage may follow. Each
tenant's `kv_token_time` is counted beside its service, whatever the cost model. `revisions` counts how often an open
run or request got another key than before.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from operator import attrgetter
from typing import ClassVar

from justitia_scheduling.core.cost import CostModel, Work
from justitia_scheduling.core.lazyheap import LazyHeap
from justitia_scheduling.core.model import ApplicationShare, Request, Run, Step
from justitia_scheduling.core.opened import EventOrderError, OpenRequest, OpenRun, RequestState, UnknownIdError
from justitia_scheduling.core.report import PolicyReport
from justitia_vocabulary.policies import Knob
from justitia_vocabulary.units import ApplicationId, KVTokenTime, RequestId, RunId, Seconds, TenantId, Tokens
from justitia_vocabulary.waiting import WaitingReason

AS_OTHERS = ApplicationShare()


class Policy(ABC):
    """An order of service. Subclasses decide; this class keeps the books.

    `in_cache` is the host's, where it has a prefix cache and can say how many tokens of a waiting request's prompt that
    has now. The head may then come before requests with smaller keys; `in_order` stays that of the keys.

    `held` counts the KV tokens of the tenants' running requests, of those that have any.

    `oracle` tells that the policy is defined with true output lengths: only a simulation can be its host. `takes_back`
    tells that `gives_way` may name a request. `knobs` are what `tune` sets. `parts` names the parts of `key`.

    A policy states its order once, with `key`, from which this class makes the queue and the victim. A policy that
    finds its head faster than by a heap of all that waits has a queue of its own, which answers as `key` does.
    """

    oracle: ClassVar[bool] = False
    takes_back: ClassVar[bool] = False
    knobs: ClassVar[frozenset[Knob]] = frozenset()
    parts: ClassVar[tuple[str, ...]]

    def __init__(self, cost_model: CostModel) -> None:
        self.cost_model = cost_model
        self.capacity: Tokens | None = None
        self.weights: dict[TenantId, float] = {}
        self.shares: dict[ApplicationId, ApplicationShare] = {}
        self.service: dict[TenantId, float] = {}
        self.application_service: dict[ApplicationId, float] = {}
        self.kv_token_time: dict[TenantId, KVTokenTime] = {}
        self.revisions = 0
        self.runs: dict[RunId, OpenRun] = {}
        self.requests: dict[RequestId, OpenRequest] = {}
        self.running: dict[RequestId, OpenRequest] = {}
        self.held: dict[TenantId, Tokens] = {}
        self.in_cache: Callable[[RequestId], Tokens] | None = None
        self._queue: LazyHeap[RequestId] = LazyHeap()
        self._sequence = 0

    # The order.

    @abstractmethod
    def key(self, request: OpenRequest) -> tuple[float, ...]:
        """The request's place in the policy's order, waiting or running.

        The waiting request with the smallest key is served first; the running one with the largest is preempted first.
        No two waiting requests have equal keys, nor have two running ones: the last part is the number of an event,
        the request's arrival or its preemption. `parts` names the parts before it, or the first of them.

        A request in this class's queue keeps its key while it waits, unless the policy puts it there again.
        """

    def order_key(self, request: OpenRequest) -> dict[str, float]:
        """The parts of the key that have names, most significant first. For people.

        Parts that several policies have: `fresh` is 0 for a request that waits since a preemption, which goes before
        all others and has no other part; `arrival` and `runArrival` are numbers in the order of arrival.
        """
        return dict(zip(self.parts, self.key(request)[:-1], strict=False))

    # What a host asks.

    def head(self) -> RequestId | None:
        """The waiting request to admit next, None when none waits. Asking changes no decision."""
        return self._queue.first()

    def in_order(self) -> Iterator[RequestId]:
        """The waiting requests in the order they would be admitted if nothing else happened. For people.

        Nothing may happen while it is read. The first k of n cost O(k log k), and what tenants and applications cost,
        not O(n).
        """
        return self._queue.in_order()

    def order(self, limit: int | None = None) -> list[RequestId]:
        """The waiting requests in order: all, or the first `limit`."""
        return list(islice(self.in_order(), limit))

    def victim(self) -> RequestId | None:
        """The running request to preempt, never the only one: the last in order, unless the policy says otherwise."""
        if len(self.running) < 2:
            return None
        return max(self.running.values(), key=self.key).id

    def latest_to_arrive(self) -> RequestId | None:
        """The victim, as in vLLM itself, where the policy's order does not say which running request to keep."""
        if len(self.running) < 2:
            return None
        return max(self.running.values(), key=attrgetter("sequence")).id

    def gives_way(self) -> RequestId | None:
        """The running request to preempt for the head, which does not fit; None: the head waits.

        Each answer that the host follows makes the next one different, so asking again and again comes to an end.
        Most policies never take back what they admitted: only one that does says so with `takes_back`.
        """
        return None

    def may_give_way(self, untold: float) -> bool:
        """Whether `gives_way` may name a request once the policy has been told of work that it does not know yet, for
        which no tenant is charged more than `untold`. A host may ask it first, since telling costs more.
        """
        head = self.head()
        return head is not None and any(tenant != self.requests[head].tenant for tenant in self.held)

    def place(self, run: OpenRun) -> tuple[float, ...]:
        """The run's place in the order while none of its requests waits. KV kept for the last one goes first."""
        return (float(run.sequence),)

    def held_until(self) -> Seconds | None:
        """The moment at which a request that is held back may be offered; None if none is held back."""
        return None

    def why_waits(self, request: OpenRequest) -> WaitingReason:
        """Why a waiting request that is not the head waits. For people."""
        return WaitingReason.BEHIND_OTHERS

    def report(self) -> PolicyReport:
        """What the policy says of itself, for people and for the controller that sets its knobs."""
        return PolicyReport()

    # What a host sets.

    def tune(self, values: Mapping[Knob, float]) -> None:
        """Set the knobs that are named, and every other one back to its default.

        Raises ValueError, and changes nothing, if the policy has no such knob or does not take the value.
        """
        for knob, value in values.items():
            if knob not in self.knobs:
                raise ValueError(f"policy {type(self).__name__} has no {knob.value}, which is set to {value:g}")

    # What a host tells.

    def time_passed(self, now: Seconds) -> None: ...  # noqa: B027

    def set_weight(self, tenant: TenantId, weight: float, now: Seconds) -> None:
        """Give a tenant its weight (1 until told). Later charges and tags follow it; earlier ones stand."""
        if not 0 < weight < float("inf"):
            raise ValueError(f"weight of tenant {tenant!r} is {weight}: it must be positive and finite")
        self.weights[tenant] = weight

    def set_application(self, application: ApplicationId, weight: float, priority: int, now: Seconds) -> None:
        """Give an application its part in its tenant's service: weight 1 and priority 0 until told. Later charges
        follow its weight; earlier ones stand. Not all policies share a tenant's service between its applications.
        """
        if not 0 < weight < float("inf"):
            raise ValueError(f"weight of application {application!r} is {weight}: it must be positive and finite")
        self.shares[application] = ApplicationShare(weight, priority)

    def set_capacity(self, kv_tokens: Tokens, now: Seconds) -> None:
        """Tell the engine's KV space M, in tokens (never in blocks)."""
        if kv_tokens <= 0:
            raise ValueError(f"KV space is {kv_tokens} tokens: it must be positive")
        self.capacity = kv_tokens

    def run_arrived(self, run: Run, now: Seconds) -> None:
        if run.id in self.runs:
            raise EventOrderError(f"run {run.id!r} has arrived already")
        opened = OpenRun(run, self._next(), now)
        self.runs[run.id] = opened
        self.service.setdefault(run.tenant, 0.0)
        self.application_service.setdefault(run.application, 0.0)
        self.kv_token_time.setdefault(run.tenant, 0.0)
        self.on_run_arrived(opened, now)

    def request_arrived(self, request: Request, now: Seconds) -> None:
        if request.id in self.requests:
            raise EventOrderError(f"request {request.id!r} has arrived already")
        self._take_in(OpenRequest(request, self._run(request.run), self._next(), now))

    def run_resumed(self, before: OpenRun) -> None:
        """Take over a run from another policy, with its moment of arrival."""
        self.run_arrived(before.run, before.arrival)
        self.runs[before.id].aborted = before.aborted

    def delivery_resumed(self, delivered: dict[RunId, KVTokenTime], now: Seconds) -> None:
        """Take over what has been delivered to resumed runs, in KV token-time."""
        for run_id, cost in delivered.items():
            self.runs[run_id].kv_token_time = self.runs[run_id].attained = cost
        self.on_delivered(delivered, now)

    def request_resumed(self, before: OpenRequest, charged: float) -> None:
        """Take over a request from another policy. It waits; the tokens processed for it stay counted.

        `charged` is in this policy's unit. If the request has begun, its admission is not charged again.
        """
        self._take_in(
            OpenRequest(
                before.request,
                self._run(before.run.id),
                self._next(),
                before.arrival,
                prefilled=before.prefilled,
                produced=before.produced,
                cached=before.cached,
                charged=charged,
                begun=before.begun,
            )
        )

    def admission_resumed(self, request_id: RequestId, now: Seconds) -> None:
        """A resumed request is in the batch already, whatever this policy would have chosen."""
        self.admitted(request_id, now)

    def admitted(self, request_id: RequestId, now: Seconds, cached_tokens: Tokens = 0) -> None:
        """The request joins the batch. `cached_tokens` of its prompt were in the prefix cache: they cost nothing."""
        request = self._in(request_id, RequestState.WAITING)
        if not 0 <= cached_tokens <= request.request.prompt_tokens:
            raise ValueError(
                f"{cached_tokens} cached tokens of {request_id!r}, whose prompt has {request.request.prompt_tokens}"
            )
        request.status = RequestState.RUNNING
        self.running[request_id] = request
        self._hold(request, request.request.prompt_tokens + request.produced)
        self.on_left_queue(request, now)
        if not request.begun:
            request.begun = True
            request.cached = cached_tokens
            self._charge(request, self.cost_model.admission(request.request.prompt_tokens - cached_tokens))

    def prompt_known(self, request_id: RequestId, prompt_tokens: Tokens, now: Seconds) -> None:
        """A running request's prompt has been counted. The host had announced a lower bound of it."""
        request = self._in(request_id, RequestState.RUNNING)
        before = request.request.prompt_tokens
        if prompt_tokens < before:
            raise ValueError(f"prompt of {request_id!r} shrinks from {before} to {prompt_tokens} tokens: charges stand")
        request.request = replace(request.request, prompt_tokens=prompt_tokens)
        self._hold(request, prompt_tokens - before)
        admission, cached = self.cost_model.admission, request.cached
        self._charge(request, admission(prompt_tokens - cached) - admission(before - cached))

    def stepped(self, step: Step, now: Seconds) -> None:
        """Tokens were processed. Charges tenants, advances the runs' attained cost and the policy's clock."""
        requests = self._running(step)
        work = [
            Work(p, r.request.prompt_tokens, r.produced, r.cached) for p, r in zip(step.progress, requests, strict=True)
        ]
        charges = self.cost_model.step(work, step.duration, len(self.running))
        delivered: dict[RunId, float] = {}
        for request, done, charge in zip(requests, work, charges, strict=True):
            _, prefilled, produced, _ = done.progress
            request.prefilled += prefilled
            request.produced += produced
            self._charge(request, charge)
            run = request.run
            self.held[run.tenant] = self.held.get(run.tenant, 0) + produced
            kv_token_time = done.kv_token_time
            run.kv_token_time += kv_token_time
            self.kv_token_time[run.tenant] += kv_token_time
            if increment := self.run_cost(done, kv_token_time):
                run.attained += increment
                delivered[run.id] = delivered.get(run.id, 0.0) + increment
        if delivered:
            self.on_delivered(delivered, now)
        self.on_stepped(step, now)

    def preempted(self, request_id: RequestId, now: Seconds) -> None:
        """The engine took the request's KV away; it waits again and will be recomputed."""
        request = self._in(request_id, RequestState.RUNNING)
        self._leave_batch(request)
        request.status = RequestState.WAITING
        request.preemptions += 1
        request.waits_since = self._next()
        self.on_waiting(request, now)

    def finished(self, request_id: RequestId, now: Seconds) -> None:
        request = self._in(request_id, RequestState.RUNNING)
        self._forget(request_id, now)
        self.on_closed(request, True, now)

    def aborted(self, request_id: RequestId, now: Seconds) -> None:
        """The client or the host gave up, waiting or running. What was produced stays charged."""
        request = self._in(request_id)
        request.run.aborted = True
        self._forget(request_id, now)
        self.on_closed(request, False, now)

    def withdrawn(self, request_id: RequestId, now: Seconds) -> None:
        """The host takes back a request that has not begun. It may arrive again, and its run was not aborted."""
        request = self._in(request_id, RequestState.WAITING)
        if request.begun:
            raise EventOrderError(f"request {request_id!r} has begun: it cannot be taken back")
        self._forget(request_id, now)
        self.on_closed(request, False, now)

    def kept(self, run_id: RunId, kv_token_time: KVTokenTime, now: Seconds) -> None:
        """KV was kept for the run between two of its requests: its tenant is charged what that took from others."""
        run = self._run(run_id)
        charge = self.cost_model.keeping(kv_token_time, self.capacity) if self.capacity else 0.0
        self.kv_token_time[run.tenant] += kv_token_time
        self.service[run.tenant] += charge
        self.application_service[run.run.application] += charge
        self.on_kept(run, charge)

    def run_ended(self, run_id: RunId, now: Seconds) -> None:
        """No request of the run will come again; its attained cost is its true cost."""
        run = self._run(run_id)
        if run.requests:
            raise EventOrderError(f"run {run_id!r} ends with {len(run.requests)} requests open")
        del self.runs[run_id]
        self.on_run_ended(run, now)

    # What a policy overrides.

    def run_cost(self, work: Work, kv_token_time: KVTokenTime) -> float:
        """What this work adds to the cost of its run: KV token-time, unless the policy says otherwise."""
        return kv_token_time

    def on_run_arrived(self, run: OpenRun, now: Seconds) -> None: ...  # noqa: B027

    def on_waiting(self, request: OpenRequest, now: Seconds) -> None:
        """A request arrived, or was preempted (`request.preemptions` > 0): queue it."""
        self._queue.put(request.id, self.key(request))

    def on_left_queue(self, request: OpenRequest, now: Seconds) -> None:
        """A waiting request was admitted or aborted: take it out of the queue."""
        self._queue.remove(request.id)

    def on_charged(self, request: OpenRequest, charge: float) -> None: ...  # noqa: B027

    def on_delivered(self, delivered: dict[RunId, float], now: Seconds) -> None: ...  # noqa: B027

    def on_stepped(self, step: Step, now: Seconds) -> None: ...  # noqa: B027

    def on_closed(self, request: OpenRequest, finished: bool, now: Seconds) -> None: ...  # noqa: B027

    def on_run_ended(self, run: OpenRun, now: Seconds) -> None: ...  # noqa: B027

    def on_kept(self, run: OpenRun, charge: float) -> None: ...  # noqa: B027

    # Shared bookkeeping.

    def weight(self, tenant: TenantId) -> float:
        return self.weights.get(tenant, 1.0)

    def share(self, application: ApplicationId) -> ApplicationShare:
        return self.shares.get(application, AS_OTHERS)

    def waiting(self) -> Iterable[OpenRequest]:
        return (r for r in self.requests.values() if r.status is RequestState.WAITING)

    def _next(self) -> int:
        self._sequence += 1
        return self._sequence

    def _take_in(self, request: OpenRequest) -> None:
        self.requests[request.id] = request
        request.run.requests.add(request.id)
        self.on_waiting(request, request.arrival)

    def _charge(self, request: OpenRequest, charge: float) -> None:
        if charge:
            self.service[request.tenant] += charge
            self.application_service[request.run.run.application] += charge
            request.charged += charge
            self.on_charged(request, charge)

    def _forget(self, request_id: RequestId, now: Seconds) -> None:
        request = self.requests.pop(request_id)
        request.run.requests.discard(request_id)
        if request.status is RequestState.WAITING:
            self.on_left_queue(request, now)
        else:
            self._leave_batch(request)

    def _leave_batch(self, request: OpenRequest) -> None:
        del self.running[request.id]
        self._hold(request, -request.request.prompt_tokens - request.produced)

    def _hold(self, request: OpenRequest, more: Tokens) -> None:
        """The request holds so many more KV tokens, fewer if negative."""
        if held := self.held.get(request.tenant, 0) + more:
            self.held[request.tenant] = held
        else:
            self.held.pop(request.tenant, None)

    def _running(self, step: Step) -> list[OpenRequest]:
        try:
            return [self.running[p.request] for p in step.progress]
        except KeyError as unknown:
            self._in(unknown.args[0], RequestState.RUNNING)
            raise

    def _run(self, run_id: RunId) -> OpenRun:
        try:
            return self.runs[run_id]
        except KeyError:
            raise UnknownIdError(f"run {run_id!r} is not open") from None

    def _in(self, request_id: RequestId, status: RequestState | None = None) -> OpenRequest:
        try:
            request = self.requests[request_id]
        except KeyError:
            raise UnknownIdError(f"request {request_id!r} is not open") from None
        if status is not None and request.status is not status:
            raise EventOrderError(f"request {request_id!r} is {request.status.value}, not {status.value}")
        return request
