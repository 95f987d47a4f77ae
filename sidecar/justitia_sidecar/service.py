"""A pool's sidecar: the configuration in force, the admission, and what happens in the background.

One event loop, one owner of all state. Documents are polled each second; an invalid one leaves the old in force.
"""

import asyncio
import math
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace

import structlog

from justitia_api.conditions import Condition
from justitia_api.config import KeyTable, PoolConfig, SchedulingConfig, digest_of
from justitia_api.wire import Refusal
from justitia_channel.messages import Configure
from justitia_scheduling.core.policy import Policy
from justitia_scheduling.core.report import PolicyReport
from justitia_scheduling.core.step_time import PRIOR
from justitia_scheduling.policies.registry import build_cost_model, build_policy
from justitia_sidecar.admission.admission import Admission, EngineView
from justitia_sidecar.admission.engine_admission import EngineAdmission
from justitia_sidecar.admission.knobs import configured_knobs
from justitia_sidecar.admission.runs import MAXIMUM_OPEN_RUNS, TrackedRun
from justitia_sidecar.admission.ticket import Ticket
from justitia_sidecar.engine.channel import EngineChannel
from justitia_sidecar.engine.client import Engine, EngineAbsentError, EngineError
from justitia_sidecar.engine.hang import HangWatch, has_work
from justitia_sidecar.engine.metrics import EngineMetrics
from justitia_sidecar.learning.learning import Learning
from justitia_sidecar.limits.memory import memory_limit, most_runs
from justitia_sidecar.metrics import Metrics
from justitia_sidecar.objectives.objectives import Objectives
from justitia_sidecar.refusals import RefusalError
from justitia_sidecar.reload import InvalidDocumentError, WatchedDocument, understood
from justitia_sidecar.report.observation import RecentValues, ShareWindow, TokenBucket
from justitia_sidecar.report.policy_condition import PolicyCondition
from justitia_sidecar.request.authentication import KeyRing
from justitia_sidecar.request.body import TokensPerByte
from justitia_sidecar.request.recognition import Directory, application_id
from justitia_sidecar.request.served_models import ServedModels
from justitia_sidecar.request.waiting import Waiting
from justitia_vocabulary.policies import INSIDE_THE_ENGINE_ONLY, PolicyName
from justitia_vocabulary.units import Seconds, TenantId

TICK: Seconds = 1.0
PROBE_BUSY: Seconds = 0.25
PROBE_IDLE: Seconds = 1.0
PROBES_TO_GIVE_UP = 2

log = structlog.get_logger("justitia.sidecar")


def build_configured_policy(config: PoolConfig) -> Policy:
    """For the order in front of the engine: FCFS in place of a policy that only the engine can keep."""
    scheduling = config.scheduling
    policy = PolicyName.FCFS if scheduling.policy in INSIDE_THE_ENGINE_ONLY else scheduling.policy
    cost_model = build_cost_model(scheduling.cost_model, PRIOR)
    return build_policy(policy, cost_model)


def engine_configuration(config: PoolConfig, gamma: tuple[float, float] | None) -> Configure:
    """What the scheduler inside the engine is told. `gamma`: its bounds, in 1/s."""
    scheduling = config.scheduling
    return Configure(
        config.generation,
        scheduling.policy,
        scheduling.cost_model,
        {tenant.name: tenant.weight for tenant in config.tenants},
        {knob.value: value for knob, value in configured_knobs(scheduling, gamma).items()},
    )


@dataclass(slots=True)
class InForce:
    """The configuration in force and what was made of it."""

    config: PoolConfig
    directory: Directory
    models: ServedModels
    admission: Admission


class Sidecar:
    def __init__(
        self,
        engine: Engine,
        metrics: Metrics,
        clock: Callable[[], Seconds],
        channel: EngineChannel | None = None,
        hang_watch: HangWatch | None = None,
        *,
        learning: Learning | None = None,
        objectives: Objectives | None = None,
    ) -> None:
        self.engine = engine
        self.objectives = objectives or Objectives(time.time() - clock())
        self.learning = learning or Learning(None, None, metrics, clock, time.time)
        self.hang_watch = hang_watch or HangWatch()
        self.engine_channel = channel
        self._in_front = channel is None
        self.metrics = metrics
        self.clock = clock
        self.keys: KeyRing | None = None
        self.in_force: InForce | None = None
        self._given: dict[type, object] = {}
        self.not_understood = ""
        self.shares = ShareWindow()
        self._shares_of = ("", "")
        self._policy_condition = PolicyCondition()
        if channel is not None:
            channel.on_hello = self._engine_said_what_it_is
            metrics.registry.register(EngineMetrics(channel))
        self.first_token: defaultdict[TenantId, RecentValues] = defaultdict(RecentValues)
        self.tokens_per_byte = TokensPerByte()
        self.buckets: dict[TenantId, TokenBucket] = {}
        self.draining = False
        self.waiters: set[Waiting] = set()
        self.held = self.learning.held
        self.heard = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._open = 0
        self._wake: asyncio.TimerHandle | None = None
        self._wakes_at: Seconds = math.inf

    # Configuration.

    def configured(self) -> InForce:
        """Raises a refusal with 503 until both documents have been read."""
        if self.in_force is None or self.keys is None:
            raise RefusalError(
                Refusal.NOT_CONFIGURED, "This server has no valid configuration yet: retry shortly.", retry_after=2
            )
        return self.in_force

    def tenant(self, authorization: bytes | None) -> TenantId:
        """Raises a refusal: 401 for a wrong key, 503 before there is a table of keys."""
        self.configured()
        assert self.keys is not None
        return self.keys.tenant(authorization)

    @property
    def documents(self) -> str:
        """A digest of both documents in force, as they were given."""
        return digest_of(self._given.get(PoolConfig), self._given.get(KeyTable))

    def put_keys(self, table: KeyTable, given: object = None, *, anyway: bool = False) -> None:
        """Put a table in force, whose JSON was `given`. An older generation is ignored, or taken `anyway`."""
        if self.keys is not None and table.generation < self.keys.generation and not anyway:
            log.warning("older keys ignored", generation=table.generation, in_force=self.keys.generation)
            return
        self.keys = KeyRing(table)
        self._given[KeyTable] = given

    def put_config(self, config: PoolConfig, given: object = None, *, anyway: bool = False) -> None:
        """Put a configuration in force, whose JSON was `given`, carrying over whatever is open. An older generation is
        ignored, or taken `anyway`.
        """
        now = self.clock()
        directory = Directory(config)
        if self.in_force is None:
            admission = self._admission(config, now)
        else:
            old = self.in_force.config
            if config.generation < old.generation and not anyway:
                log.warning("older configuration ignored", generation=config.generation, in_force=old.generation)
                return
            admission = self.in_force.admission
            same_unit = config.scheduling.cost_model is old.scheduling.cost_model
            same = same_unit and config.scheduling.policy is old.scheduling.policy
            policy = admission.policy if same or self.channel is not None else build_configured_policy(config)
            admission.reconfigure(config, policy, now, keep_service=same_unit)
            if not same_unit and self.channel is None:
                self.shares.restart()
        self.objectives.configure(config)
        self.learning.configure(config)
        if self.engine_channel is not None:
            self.engine_channel.configure(engine_configuration(config, self.objectives.bounds))
        self.in_force = InForce(config, directory, ServedModels(config), admission)
        self._given[PoolConfig] = given
        self.not_understood = ""
        self._put_limits(config, now)
        self.held.reweight({TenantId(tenant.name): tenant.weight for tenant in config.tenants})
        self.metrics.generation.set(config.generation)
        log.info("configuration in force", generation=config.generation, policy=config.scheduling.policy.value)

    def take_config(self, given: object, *, anyway: bool) -> None:
        """Put in force what is understood of a configuration, maybe of a later release, given as JSON. Raises
        ValidationError where that is not enough to serve by.
        """
        before = SchedulingConfig() if self.in_force is None else self.in_force.config.scheduling
        config, problem = understood(given, before)
        self.put_config(config, given, anyway=anyway)
        if self.in_force is not None and self.in_force.config is config:
            self.not_understood = problem

    def _admission(self, config: PoolConfig, now: Seconds) -> Admission:
        admission = (
            Admission(config, build_configured_policy(config))
            if self.channel is None
            else EngineAdmission(config, self.channel, self.clock)
        )
        admission.runs.on_ended = self._run_ended
        admission.runs.maximum = min(MAXIMUM_OPEN_RUNS, most_runs(memory_limit()))
        admission.reconfigure(config, admission.policy, now, keep_service=True)
        return admission

    def _engine_said_what_it_is(self) -> None:
        """The order is kept here from now on where the engine's scheduler cannot keep it. An engine says so while it
        starts, when nothing is open in it. Should something be, it ends with the books it began with; what still waits
        is refused.
        """
        assert self.engine_channel is not None
        in_front = self.engine_channel.unsupported is not None
        if in_front is self._in_front:
            return
        self._in_front = in_front
        log.warning("the order is kept", where="in front of the engine" if in_front else "in the engine")
        if self.in_force is None:
            return
        for waiter in list(self.waiters):
            waiter.refuse(engine_unavailable())
        now, before = self.clock(), self.in_force.admission
        admission = self._admission(self.in_force.config, now)
        admission.engine_told(before.engine, now)
        self.in_force = replace(self.in_force, admission=admission)
        self.shares.restart()

    def _put_limits(self, config: PoolConfig, now: Seconds) -> None:
        limits = {TenantId(t.name): t.limits.tokens_per_minute for t in config.tenants}
        buckets: dict[TenantId, TokenBucket] = {}
        for tenant, per_minute in limits.items():
            if per_minute is not None:
                kept = self.buckets.get(tenant)
                same = kept is not None and kept.per_minute == per_minute
                buckets[tenant] = kept if same and kept else TokenBucket(per_minute, per_minute, now)
        self.buckets = buckets

    def _run_ended(self, run: TrackedRun) -> None:
        self.objectives.run_ended(run)
        self.learning.ended(run)
        if not run.aborted:
            labels = (run.application.tenant, application_id(run.application))
            self.metrics.run_completion.labels(*labels).observe(run.took)

    @property
    def policy_in_engine(self) -> PolicyReport:
        """What the policy inside the engine last told of itself; nothing where there is none."""
        return self.channel.state.policy if self.channel is not None and self.channel.telling else PolicyReport()

    @property
    def channel(self) -> EngineChannel | None:
        """To the scheduler inside the engine, where it is to keep the order; None where the order is kept here."""
        return None if self._in_front else self.engine_channel

    @property
    def in_engine(self) -> bool:
        """Whether the engine's scheduler keeps the order."""
        return self.channel is not None

    # Requests in the sidecar.

    def opened(self) -> None:
        self._open += 1
        self._idle.clear()

    def closed(self) -> None:
        self._open -= 1
        if self._open == 0:
            self._idle.set()

    @property
    def open_requests(self) -> int:
        return self._open

    def meter(self, ticket: Ticket) -> None:
        """Count the tokens that have been counted for the request since the last time. Where an estimate was too high,
        the tenant gets back what was taken of its tokens per minute; the metrics' counters do not fall.
        """
        if not (ticket.produced or ticket.counted):
            return
        prompt, output = ticket.prompt_tokens - ticket.metered_prompt, ticket.produced - ticket.metered_output
        ticket.metered_prompt, ticket.metered_output = ticket.prompt_tokens, ticket.produced
        labels = (ticket.tenant, ticket.application)
        self.metrics.prompt_tokens.labels(*labels).inc(max(0, prompt))
        self.metrics.output_tokens.labels(*labels).inc(max(0, output))
        if (bucket := self.buckets.get(ticket.tenant)) is not None:
            bucket.take(prompt + output, self.clock())

    async def drain(self) -> None:
        """Refuse what is new and what still waits; return when the started requests are over."""
        if not self.draining:
            self.draining = True
            log.info("draining", open_requests=self._open)
            for waiter in list(self.waiters):
                waiter.refuse(draining_refusal())
        await self._idle.wait()

    def wake_when_begun(self) -> None:
        """Pump again when a request should have begun that shows no first chunk."""
        if self.in_force is None:
            return
        now = self.clock()
        when = self.in_force.admission.next_look(now)
        if when is None or when >= self._wakes_at:
            return
        if self._wake is not None:
            self._wake.cancel()
        self._wakes_at = when
        self._wake = asyncio.get_running_loop().call_later(max(0.0, when - now), self._woken)

    def _woken(self) -> None:
        self._wake, self._wakes_at = None, math.inf
        if self.in_force is not None:
            self.in_force.admission.pump(self.clock())
        self.wake_when_begun()

    def engine_lost(self) -> None:
        """A request could not be sent: hold the queue until the engine answers a probe."""
        if self.in_force is not None:
            admission = self.in_force.admission
            admission.engine_told(replace(admission.engine, ready=False), self.clock())

    # In the background.

    async def watch_engine(self) -> None:
        failures = 0
        while True:
            if self.in_force is not None:
                admission = self.in_force.admission
                before = admission.engine
                try:
                    view = await self.engine.probe(before)
                    failures = 0
                    self._judge_progress(view, owed=len(admission.policy.running))
                    view.ready = not self.hang_watch.hangs
                except EngineError as error:
                    failures += 1
                    view = replace(before, ready=before.ready and failures < PROBES_TO_GIVE_UP)
                    if isinstance(error, EngineAbsentError):
                        self.hang_watch.absent(self.clock())
                    else:
                        self.hang_watch.silent(self.clock())
                    if before.ready and not view.ready:
                        log.warning("engine lost", reason=str(error))
                if view.ready and not before.ready:
                    log.info("engine ready", kv_tokens=view.kv_tokens, longest_request=view.longest)
                self.in_force.admission.engine_told(view, self.clock())
                self.wake_when_begun()
            await asyncio.sleep(PROBE_BUSY if self._open else PROBE_IDLE)

    def _judge_progress(self, view: EngineView, owed: int) -> None:
        """What an engine says in answers it has made steps for, and its server may be behind with saying it."""
        progress = None if view.progress is None else (*view.progress, str(self.heard))
        self.hang_watch.answered(progress, has_work(view, owed), self.clock())

    async def watch_documents(self, config: WatchedDocument[PoolConfig], keys: WatchedDocument[KeyTable]) -> None:
        while True:
            self.poll_documents(config, keys)
            await asyncio.sleep(TICK)

    def poll_documents(self, config: WatchedDocument[PoolConfig], keys: WatchedDocument[KeyTable]) -> None:
        try:
            if (table := keys.poll()) is not None:
                self.put_keys(table, keys.content)
        except InvalidDocumentError as error:
            self._not_in_force("keys", error)
        try:
            if (document := config.poll()) is not None:
                self.put_config(document, config.content)
        except InvalidDocumentError as error:
            self._not_in_force("config", error)

    def _not_in_force(self, document: str, error: InvalidDocumentError) -> None:
        self.metrics.reload_failures.labels(document).inc()
        log.error("document not put in force, the old one stays", document=document, reason=str(error))

    async def tick_forever(self) -> None:
        while True:
            self.tick()
            await asyncio.sleep(TICK)

    def tick(self) -> None:
        if self.in_force is None:
            return
        now = self.clock()
        admission = self.in_force.admission
        admission.tick(now)
        active = {
            tenant: admission.policy.weight(tenant)
            for tenant, load in admission.load.items()
            if load.queued or load.running
        }
        if self.channel is not None:
            self._compare_only_like(self.channel, admission)
        self.conditions()
        if self.objectives.look(now, admission.tickets.values(), self.policy_in_engine) and self.channel:
            self.channel.configure(engine_configuration(self.in_force.config, self.objectives.bounds))
        self.shares.sample(admission.service, active, now)

    def conditions(self) -> tuple[Condition, ...]:
        """Of the configuration in force."""
        channel = self.engine_channel
        if channel is None or self.in_force is None:
            return ()
        generation = self.in_force.config.generation
        return (self._policy_condition.observe(channel.status, generation, channel.unsupported),)

    def _compare_only_like(self, channel: EngineChannel, admission: Admission) -> None:
        """An engine that starts counts from 0, and the unit is another from the moment at which it says so."""
        counted = (channel.peer, admission.unit)
        if counted != self._shares_of:
            self._shares_of = counted
            self.shares.restart(admission.service)


def draining_refusal() -> RefusalError:
    return RefusalError(
        Refusal.DRAINING, "This server is shutting down: retry, and another one will take the request.", retry_after=1
    )


def engine_unavailable() -> RefusalError:
    return RefusalError(
        Refusal.ENGINE_UNAVAILABLE, "The engine does not answer at the moment: retry shortly.", retry_after=2
    )
