"""Keeps the order in front of the engine. Owns the policy, and the account of what the engine has.

A request enters, waits in the policy's order and is sent when it is the head and the engine's own queue is short of
what goes before it (`beginnings.py`). Its priority number is its place in that queue. Whether there is KV space for it
is the engine's decision: it admits by what it really holds, and preempts the request of the largest number when it runs
out. A head that is not sent blocks all others. Requests of a tenant that is at its limit of running requests, or that
is stuck, are held back from the policy, in order of arrival.

Each token of prompt and output reaches the policy once, as the engine counts it. Of a prompt that is not counted yet,
the policy gets an estimate, which orders runs and is never charged.
"""

from collections.abc import Iterator, Mapping

from justitia_api.config import PoolConfig
from justitia_api.status import GateStatus
from justitia_scheduling.core.cost import StepTime
from justitia_scheduling.core.model import Progress, Request, Run, Step
from justitia_scheduling.core.policy import Policy
from justitia_scheduling.core.step_time import StepTimeFit
from justitia_scheduling.core.takeover import carry_over
from justitia_sidecar.admission.admission import gate_of
from justitia_sidecar.admission.beginnings import Beginnings
from justitia_sidecar.admission.books import AT_A_TIME, Books
from justitia_sidecar.admission.chunks import ChunkClock
from justitia_sidecar.admission.estimate import presumed
from justitia_sidecar.admission.request import TrackedRequest
from justitia_sidecar.admission.runs import RunTable, TrackedRun
from justitia_sidecar.admission.stages import Event, Stage
from justitia_sidecar.engine.configuration import configured_knobs
from justitia_sidecar.engine.view import EngineView
from justitia_vocabulary.policies import Knob
from justitia_vocabulary.units import ApplicationId, Seconds, TenantId, Tokens
from justitia_vocabulary.waiting import WaitingReason


class InFront:
    def __init__(self, config: PoolConfig, policy: Policy, step_time: StepTimeFit | None = None) -> None:
        self.policy = policy
        self.engine = EngineView()
        self.fit = step_time or StepTimeFit()
        self._beginnings = Beginnings(lambda request: self.policy.key(self.policy.requests[request]))
        runs = RunTable(self._run_opened, self._run_ended)
        self.books = Books(config, runs, waits=self.waits, held_up=self._beginnings.stuck)
        self._clock = ChunkClock(self.fit)
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
        return gate_of(self.policy.report())

    @property
    def held(self) -> Tokens:
        return self.books.resident

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
            elif self._engine_away or not self._beginnings.lets(request):
                return
            else:
                self._admit(request, now)

    def leave(self, request: TrackedRequest, now: Seconds, *, completed: bool, ends_run: bool = False) -> None:
        if request.in_engine:
            self._beginnings.over(request)
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
        if request.asks.streamed:
            self._clock.chunk(request, new, self._processed, self.books.resident, now)
        if first:
            self._beginnings.begun(request, now, self._step)
            self._started(request, now)
        else:
            # The charge may have put another request at the head, one that fits.
            self.pump(now)

    def refused_by_engine(self, request: TrackedRequest, now: Seconds) -> None:
        if request.stage is Stage.SENT:
            self._beginnings.refused(request)
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
        confirmed = self._beginnings.told(view.waiting, view.for_capacity, now)
        if view.kv_tokens is not None and view.kv_tokens != self.policy.capacity:
            self.policy.set_capacity(view.kv_tokens, now)
        for tenant in confirmed:
            self._release(tenant, now)
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
        self.tune(configured_knobs(config.scheduling))
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

    def tune(self, knobs: Mapping[Knob, float]) -> None:
        """Set the knobs that the policy has of these, and its others to their defaults."""
        self.policy.tune({knob: value for knob, value in knobs.items() if knob in self.policy.knobs})

    # What people ask.

    def waiting(self, now: Seconds) -> Iterator[tuple[TrackedRequest, WaitingReason]]:
        for place, name in enumerate(self.policy.order()):
            request = self.books.requests[name]
            if self._engine_away:
                yield request, WaitingReason.ENGINE_UNAVAILABLE
            elif not place:
                yield (
                    request,
                    WaitingReason.BEHIND_OTHERS if self._beginnings.lets(request) else WaitingReason.ENGINE_BUSY,
                )
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

    def expected_tokens(self, request: TrackedRequest) -> Tokens:
        """The prompt and the expected output."""
        asks, output = request.asks, request.asks.max_tokens
        if not asks.fixed_output:
            output = self.books.outputs.predict(request.application, output)
        return request.account.prompt + asks.sequences * output

    # How.

    def _run_opened(self, run: TrackedRun, now: Seconds) -> None:
        self.policy.run_arrived(Run(run.id, run.tenant, run.application.id, run.predicted_cost), now)

    def _run_ended(self, run: TrackedRun, now: Seconds) -> None:
        self.policy.run_ended(run.id, now)

    def _release(self, tenant: TenantId, now: Seconds) -> None:
        for request in self.books.release(tenant):
            prompt, exact = request.account.prompt, request.account.prompt_exact
            counted = prompt if exact else 0
            announced = Request(
                request.id, request.run.id, counted, expected_prompt=prompt, boosted_for=request.boost_left(now)
            )
            self.policy.request_arrived(announced, now)

    @property
    def _engine_away(self) -> bool:
        return not self.engine.ready or self.engine.kv_tokens is None

    @property
    def _step(self) -> Seconds:
        """The duration of a step at present, as fitted."""
        t = self.step_time
        return t.per_step + t.per_token * self.books.in_engine + t.per_kv_token * self.books.resident

    def _admit(self, request: TrackedRequest, now: Seconds) -> None:
        t = self.step_time
        prefill = t.per_step + t.per_token * request.account.prompt
        request.placement.number = self._beginnings.given(request, now, prefill)
        self.policy.admitted(request.id, now)
        self.books.send(request, now)
        self.books.begin(request)
        request.observer.admitted(request)
        request.observer.begun(request)

    def _started(self, request: TrackedRequest, now: Seconds) -> None:
        request.advance(Event.START)
        self._release(request.tenant, now)
        self.pump(now)

    def _charge(self, request: TrackedRequest, prefilled: Tokens, produced: Tokens, now: Seconds) -> None:
        self.policy.stepped(Step((Progress(request.id, prefilled=prefilled, produced=produced),)), now)
        request.run.cost = self.policy.runs[request.run.id].kv_token_time

    def _correct_prompt(self, request: TrackedRequest, prompt_tokens: Tokens, now: Seconds) -> None:
        self.policy.prompt_known(request.id, prompt_tokens, now)
        self.books.hold(request, prompt_tokens - request.account.prompt)
        request.account.prompt, request.account.prompt_exact = prompt_tokens, True
