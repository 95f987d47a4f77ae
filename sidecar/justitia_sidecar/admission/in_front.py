"""Keeps the order in front of the engine. Owns the policy, the KV reservations and the engine's own short queue.

A request enters, waits in the policy's order and is admitted when it is the head and fits:

- *KV space.* A request reserves its prompt and predicted output (`outputs.py`; `max_tokens` where nothing else ends the
  output, as with `ignore_eos`), in whole blocks, out of the engine's M tokens. A request that outgrows its reservation
  holds what it really has; if the engine runs out, it preempts the request of largest priority number, the one
  admitted last.
- *The engine's own queue stays short* (`beginnings.py`). The engine's own count of requests that wait for its steps
  overrules what is presumed here.

A head that does not fit blocks all others. Requests of a tenant that is at its limit of running requests, or that is
stuck, are held back from the policy, in order of arrival.

Each token of prompt and output reaches the policy once, as the engine counts it.
"""

from collections.abc import Iterator, Mapping

from justitia_api.config import PoolConfig
from justitia_api.status import GateStatus
from justitia_scheduling.core.cost import StepTime
from justitia_scheduling.core.model import Progress, Request, Run, Step
from justitia_scheduling.core.policy import Policy
from justitia_scheduling.core.step_time import StepTimeFit
from justitia_scheduling.core.takeover import carry_over
from justitia_sidecar.admission.beginnings import UNSTARTED, Beginnings
from justitia_sidecar.admission.books import AT_A_TIME, Books
from justitia_sidecar.admission.chunks import ChunkClock
from justitia_sidecar.admission.estimate import presumed
from justitia_sidecar.admission.request import TrackedRequest
from justitia_sidecar.admission.runs import RunTable, TrackedRun
from justitia_sidecar.admission.stages import Event, Stage
from justitia_sidecar.engine.configuration import configured_knobs
from justitia_sidecar.engine.view import EngineView
from justitia_vocabulary.units import ApplicationId, Seconds, TenantId, Tokens
from justitia_vocabulary.waiting import WaitingReason


class InFront:
    def __init__(self, config: PoolConfig, policy: Policy, step_time: StepTimeFit | None = None) -> None:
        self.policy = policy
        self.engine = EngineView()
        self.reserved: Tokens = 0
        self.fit = step_time or StepTimeFit()
        self._beginnings = Beginnings()
        runs = RunTable(self._run_opened, self._run_ended)
        self.books = Books(config, runs, waits=self.waits, held_up=self._beginnings.stuck)
        self._clock = ChunkClock(self.fit)
        self._rank = 0
        self._processed: Tokens = 0

    @property
    def service(self) -> Mapping[TenantId, float]:
        return self.policy.service

    @property
    def application_service(self) -> Mapping[ApplicationId, float]:
        return self.policy.application_service

    @property
    def unit(self) -> str:
        return self.policy.cost_model.unit

    @property
    def gate(self) -> GateStatus | None:
        report = self.policy.report()
        if report.burst is None or report.slack is None or report.in_engine is None:
            return None
        return GateStatus(burst=report.burst, slack=report.slack, in_engine=report.in_engine)

    @property
    def step_time(self) -> StepTime:
        return self.fit.step_time

    # What a request goes through.

    def enter(self, request: TrackedRequest, now: Seconds) -> None:
        self.books.enter(request)
        self._release(request.tenant, now)

    def pump(self, now: Seconds) -> None:
        """Admit while the head fits."""
        for tenant in list(self.books.to_release):
            self._release(tenant, now)
        self._beginnings.look(now)
        held_back = 0
        while (head := self.policy.head()) is not None:
            request = self.books.requests[head]
            if self._beginnings.stuck(request.tenant):
                if held_back == AT_A_TIME:
                    return
                held_back += 1
                self.policy.withdrawn(request.id, now)
                self.books.hold_back(request)
            elif self._obstacle(request) is not None:
                return
            else:
                self._admit(request, now)

    def leave(self, request: TrackedRequest, now: Seconds, *, completed: bool, ends_run: bool = False) -> None:
        if request.in_engine:
            self._beginnings.over(request)
            self.reserved -= request.placement.reserved
            self._clock.over(request)
        if completed and request.in_engine:
            self.policy.finished(request.id, now)
        elif request.stage is not Stage.HELD:
            self.policy.aborted(request.id, now)
        self.books.leave(request, now, completed=completed, ends_run=ends_run)
        self._release(request.tenant, now)
        self.pump(now)

    def waits(self, request: TrackedRequest) -> bool:
        return request.stage in (Stage.HELD, Stage.QUEUED)

    # What the engine did.

    def counted(
        self, request: TrackedRequest, prompt_tokens: Tokens, produced: Tokens, now: Seconds, cached: Tokens = 0
    ) -> None:
        account = request.account
        new = produced - account.produced
        first = request.stage is Stage.SENT and new > 0
        if not account.prompt_exact or prompt_tokens > account.prompt:
            self._correct_prompt(request, prompt_tokens, now)
        if new <= 0:
            return
        prefilled = max(0, account.prompt - cached) if first else 0
        self._charge(request, prefilled, new, now)
        account.produced = produced
        self._processed += prefilled + new
        self.books.hold(request, new)
        self._reserve(request, account.prompt + produced)
        if request.asks.streamed:
            self._clock.chunk(request, new, self._processed, self.books.resident, now)
        if first:
            self._started(request, now)
        else:
            # The charge may have put another request at the head, one that fits.
            self.pump(now)

    def refused_by_engine(self, request: TrackedRequest, now: Seconds) -> None:
        if request.stage is Stage.SENT:
            self._started(request, now)

    def abandoned(self, request: TrackedRequest, now: Seconds) -> Tokens:
        """Charge what the engine should have done since the request was sent, by the fitted step time."""
        account, since, running = request.account, request.timing.sent, self.books.in_engine
        prefilled, produced = presumed(
            request, since, now, self.step_time, running=running, resident=self.books.resident
        )
        if not account.prompt_exact:
            self.policy.prompt_known(request.id, prefilled, now)
        self._charge(request, prefilled, produced, now)
        account.prompt, account.produced = prefilled, produced
        return produced

    def engine_told(self, view: EngineView, now: Seconds) -> None:
        self.engine = view
        if view.kv_tokens is not None and view.kv_tokens != self.policy.capacity:
            self.policy.set_capacity(view.kv_tokens, now)
        self.pump(now)

    def tick(self, now: Seconds) -> None:
        """Runs expire, time is charged by the latest fit."""
        self.policy.cost_model.learn_step_time(self.fit.step_time)
        self.books.runs.expire(now)
        self.pump(now)

    def next_look(self, now: Seconds) -> Seconds | None:
        """When a request should have begun or is overdue; at once, if more could have been done."""
        if not self.books.queued:
            return None
        head = self.policy.head()
        if self.books.to_release or (head is not None and self._beginnings.stuck(self.books.requests[head].tenant)):
            return now
        return self._beginnings.next_due

    def reconfigure(self, config: PoolConfig, policy: Policy, now: Seconds, *, keep_service: bool) -> None:
        """Put a configuration into effect; `policy` is the present one or a fresh one that takes over."""
        if policy is not self.policy:
            carry_over(self.policy, policy, now, keep_service=keep_service)
            self.policy = policy
        knobs = configured_knobs(config.scheduling)
        policy.tune({knob: value for knob, value in knobs.items() if knob in policy.knobs})
        self.books.configure(config)
        for tenant in config.tenants:
            if policy.weights.get(TenantId(tenant.name)) != tenant.weight:
                policy.set_weight(TenantId(tenant.name), tenant.weight, now)
        for application in config.applications:
            share = (application.weight, application.priority)
            if policy.share(application.id) != share:
                policy.set_application(application.id, *share, now)
        for name in list(self.books.load):
            self._release(name, now)
        self.pump(now)

    # What people ask.

    def waiting(self, now: Seconds) -> Iterator[tuple[TrackedRequest, WaitingReason]]:
        order = self.policy.order()
        for name in order:
            request = self.books.requests[name]
            obstacle = self._obstacle(request)
            if obstacle is WaitingReason.ENGINE_UNAVAILABLE:
                yield request, obstacle
            elif name == order[0]:
                yield request, obstacle or WaitingReason.BEHIND_OTHERS
            else:
                yield request, self.policy.why_waits(self.policy.requests[name])
        for tenant, load in self.books.load.items():
            stuck = self._beginnings.stuck(tenant)
            reason = WaitingReason.TENANT_NOT_BEGUN if stuck else WaitingReason.TENANT_LIMIT
            for request in load.held:
                yield request, reason

    def order_key(self, request: TrackedRequest) -> Mapping[str, float] | None:
        opened = self.policy.requests.get(request.id)
        return None if opened is None else self.policy.order_key(opened)

    def reservation(self, request: TrackedRequest) -> Tokens:
        """The prompt and the expected output, at most what the engine has."""
        asks, output = request.asks, request.asks.max_tokens
        if not asks.fixed_output:
            output = self.books.outputs.predict(request.application, output)
        return self._blocks(request.account.prompt + asks.sequences * output)

    # How.

    def _run_opened(self, run: TrackedRun, now: Seconds) -> None:
        self.policy.run_arrived(Run(run.id, run.tenant, run.application.id, run.predicted_cost), now)

    def _run_ended(self, run: TrackedRun, now: Seconds) -> None:
        self.policy.run_ended(run.id, now)

    def _release(self, tenant: TenantId, now: Seconds) -> None:
        for request in self.books.release(tenant):
            known = request.account.prompt if request.account.prompt_exact else 0
            self.policy.request_arrived(Request(request.id, request.run.id, known), now)

    def _obstacle(self, request: TrackedRequest) -> WaitingReason | None:
        capacity = self.engine.kv_tokens
        if not self.engine.ready or capacity is None:
            return WaitingReason.ENGINE_UNAVAILABLE
        if self._beginnings.full or self.engine.waiting - self.engine.deferred > UNSTARTED:
            return WaitingReason.ENGINE_BUSY
        if self.reserved and self.reserved + self.reservation(request) > capacity:
            return WaitingReason.NO_KV_SPACE
        return None

    def _admit(self, request: TrackedRequest, now: Seconds) -> None:
        placement, t = request.placement, self.step_time
        self._rank += 1
        placement.rank = self._rank
        placement.reserved = self.reservation(request)
        self.reserved += placement.reserved
        self._beginnings.given(request, now, t.per_step + t.per_token * request.account.prompt)
        self.policy.admitted(request.id, now)
        self.books.send(request, now)
        self.books.begin(request)
        request.observer.admitted(request)
        request.observer.begun(request)

    def _started(self, request: TrackedRequest, now: Seconds) -> None:
        request.advance(Event.START)
        self._beginnings.over(request)
        self._release(request.tenant, now)
        self.pump(now)

    def _charge(self, request: TrackedRequest, prefilled: Tokens, produced: Tokens, now: Seconds) -> None:
        self.policy.stepped(Step((Progress(request.id, prefilled=prefilled, produced=produced),)), now)
        request.run.cost = self.policy.runs[request.run.id].kv_token_time

    def _correct_prompt(self, request: TrackedRequest, prompt_tokens: Tokens, now: Seconds) -> None:
        self.policy.prompt_known(request.id, prompt_tokens, now)
        self.books.hold(request, prompt_tokens - request.account.prompt)
        request.account.prompt, request.account.prompt_exact = prompt_tokens, True

    def _reserve(self, request: TrackedRequest, held: Tokens) -> None:
        """Reserve at least what the request holds."""
        placement = request.placement
        if held > placement.reserved:
            grown = self._blocks(held)
            self.reserved += grown - placement.reserved
            placement.reserved = grown

    def _blocks(self, tokens: Tokens) -> Tokens:
        size = self.engine.block_size
        whole = -(-tokens // size) * size
        return whole if self.engine.kv_tokens is None else min(whole, self.engine.kv_tokens)
