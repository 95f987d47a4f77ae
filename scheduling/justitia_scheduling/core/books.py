"""The bookkeeping that every policy shares: what is open and running, and what tenants were charged.

Invariants kept here: a request is known once and served once; each token is charged once, to the `service` of its
tenant and of its application, in the cost model's unit; an aborted request keeps what it was charged; a run whose
requests are all done stays open until `run_ended`, because its next stage may follow. Each tenant's `kv_token_time` is
counted beside its service, whatever the cost model.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import replace

from justitia_scheduling.core.cost import CostModel, Work
from justitia_scheduling.core.model import ApplicationShare, Request, Run, Step
from justitia_scheduling.core.opened import EventOrderError, OpenRequest, OpenRun, RequestState, UnknownIdError
from justitia_vocabulary.units import ApplicationId, KVTokenTime, RequestId, RunId, Seconds, TenantId, Tokens

AS_OTHERS = ApplicationShare()


class Books(ABC):
    """What a host sets and tells; `policy.py` says in which order. `held` counts the KV tokens of the tenants' running
    requests, of those that have any. `undisclosed` is what was delivered to runs since the host took it, for the pool's
    other engines; None where nobody takes it.
    """

    def __init__(self, cost_model: CostModel) -> None:
        self.cost_model = cost_model
        self.capacity: Tokens | None = None
        self.weights: dict[TenantId, float] = {}
        self.shares: dict[ApplicationId, ApplicationShare] = {}
        self.service: dict[TenantId, float] = {}
        self.application_service: dict[ApplicationId, float] = {}
        self.kv_token_time: dict[TenantId, KVTokenTime] = {}
        self.runs: dict[RunId, OpenRun] = {}
        self.requests: dict[RequestId, OpenRequest] = {}
        self.running: dict[RequestId, OpenRequest] = {}
        self.held: dict[TenantId, Tokens] = {}
        self.undisclosed: dict[RunId, KVTokenTime] | None = None
        self._sequence = 0

    # What a host sets.

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

    # What a host tells.

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
        self._hold(request, request.tokens)
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
            if self.undisclosed is not None:
                for run_id, increment in delivered.items():
                    self.undisclosed[run_id] = self.undisclosed.get(run_id, 0.0) + increment
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

    @abstractmethod
    def on_waiting(self, request: OpenRequest, now: Seconds) -> None:
        """A request arrived, or was preempted (`request.preemptions` > 0): queue it."""

    @abstractmethod
    def on_left_queue(self, request: OpenRequest, now: Seconds) -> None:
        """A waiting request was admitted or aborted: take it out of the queue."""

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
        self._hold(request, -request.tokens)

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
