"""Puts a pool's sidecar together, and works in its background.

One event loop owns all state. Documents are polled each second.
"""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

from justitia_api.config import KeyTable, PoolConfig, ValkeyConfig
from justitia_sidecar.admission.admission import Admission
from justitia_sidecar.admission.metering import Metering
from justitia_sidecar.admission.observation import FirstTokens, ShareWindow
from justitia_sidecar.admission.order import Order
from justitia_sidecar.admission.runs import TrackedRun
from justitia_sidecar.admission.waker import Waker
from justitia_sidecar.admission.watch import EngineWatch
from justitia_sidecar.current import Current, InEffect
from justitia_sidecar.engine.channel import EngineChannel
from justitia_sidecar.engine.client import EngineClient
from justitia_sidecar.engine.hang import HangWatch
from justitia_sidecar.engine.metrics import EngineMetrics
from justitia_sidecar.learning.learner import Learner, build_learner
from justitia_sidecar.metrics import SidecarMetrics
from justitia_sidecar.objectives.objectives import Objectives
from justitia_sidecar.pool.limits import PoolLimits
from justitia_sidecar.pool.passing import PeerClient
from justitia_sidecar.pool.peers import Peers
from justitia_sidecar.pool.sharing import Sharing, share_forever
from justitia_sidecar.refusals import engine_unavailable
from justitia_sidecar.reload import WatchedDocument
from justitia_sidecar.report.policy_condition import PolicyCondition
from justitia_sidecar.report.status import SidecarReport
from justitia_sidecar.request.body import TokensPerByte
from justitia_sidecar.request.open import OpenRequests
from justitia_sidecar.request.parts import Parts
from justitia_vocabulary.units import Seconds, TenantId

TICK: Seconds = 1.0


class Sidecar:
    """A sidecar. Requests are served with `parts`; `report` says how they are served."""

    def __init__(
        self,
        engine: EngineClient,
        metrics: SidecarMetrics,
        clock: Callable[[], Seconds],
        channel: EngineChannel | None = None,
        hang_watch: HangWatch | None = None,
        *,
        learner: Learner | None = None,
        objectives: Objectives | None = None,
        peers: Peers | None = None,
        peer_client: PeerClient | None = None,
    ) -> None:
        learner = learner or build_learner(None, None, metrics, clock, time.time)
        objectives = objectives or Objectives(time.time() - clock())
        hang_watch = hang_watch or HangWatch()
        peers = peers or Peers("", clock)
        peers.takes = self._takes
        limits = PoolLimits(clock)
        order = Order(channel, clock, peers, limits)
        current = Current(order, metrics)
        self.parts = Parts(
            current=current,
            order=order,
            engine=engine,
            watch=EngineWatch(engine, hang_watch, self._admission, clock),
            waker=Waker(self._admission, clock),
            open=OpenRequests(),
            metering=Metering(metrics, clock, limits),
            held=learner.held,
            learner=learner,
            objectives=objectives,
            metrics=metrics,
            first_tokens=FirstTokens(),
            peers=peers,
            peer_client=peer_client,
            tokens_per_byte=TokensPerByte(),
            clock=clock,
        )
        self.report = SidecarReport(self.parts, ShareWindow(), ShareWindow(), hang_watch, PolicyCondition())
        self._service_is_of = ("", "")
        current.on_config = [objectives.configure, learner.configure, self._tune, self._configured]
        order.on_run_ended = self._run_ended
        order.on_other_service = self.report.restart
        order.on_moved = self._moved
        if channel is not None:
            metrics.registry.register(EngineMetrics(channel))

    # In the background.

    async def watch_engine(self) -> None:
        open_requests, waker = self.parts.open, self.parts.waker
        await self.parts.watch.watch(lambda: open_requests.count > 0, waker.set)

    async def watch_documents(self, config: WatchedDocument[PoolConfig], keys: WatchedDocument[KeyTable]) -> None:
        while True:
            self.parts.current.poll(config, keys)
            await asyncio.sleep(TICK)

    async def share_forever(self, credentials: Path | None) -> None:
        """Share with the pool's other engines. `credentials` is a folder with those for the pool's Valkey."""
        await share_forever(self._shared, credentials, self.parts.clock, self.parts.metrics)

    async def tick_forever(self) -> None:
        while True:
            self.tick()
            await asyncio.sleep(TICK)

    def tick(self) -> None:
        in_effect, order, now = self.parts.current.in_effect, self.parts.order, self.parts.clock()
        if in_effect is None:
            return
        admission = in_effect.admission
        admission.tick(now)
        books = admission.books
        active = {tenant: books.weight(tenant) for tenant, load in books.load.items() if load.queued or load.running}
        if order.channel is not None:
            self._compare_only_like(order.channel, in_effect)
        self.report.conditions()
        if self.parts.objectives.look(now, books.requests.values(), order.policy_report):
            self._tune(in_effect.config)
        self.report.shares.sample(admission.service, active, now)
        self.report.application_shares.sample(admission.application_service, {}, now)

    # How.

    def _admission(self) -> Admission | None:
        in_effect = self.parts.current.in_effect
        return None if in_effect is None else in_effect.admission

    def _takes(self) -> bool:
        """Whether the engine here takes requests."""
        admission = self._admission()
        return admission is not None and admission.engine.ready and not self.parts.open.draining

    def _shared(self) -> tuple[Sharing, ValkeyConfig] | None:
        """What is shared, and where. None while nothing is configured for it, or the order is kept in front."""
        in_effect, sharing = self.parts.current.in_effect, self.parts.order.sharing
        if in_effect is None or in_effect.config.valkey is None or sharing is None:
            return None
        return sharing, in_effect.config.valkey

    def _tune(self, config: PoolConfig) -> None:
        self.parts.order.tune(config, self.parts.objectives.bounds)

    def _moved(self) -> None:
        self.parts.open.refuse_waiting(engine_unavailable())
        if (in_effect := self.parts.current.in_effect) is not None:
            self._tune(in_effect.config)

    def _configured(self, config: PoolConfig) -> None:
        self.parts.metering.configure(config)
        self.parts.held.reweight({TenantId(tenant.name): tenant.weight for tenant in config.tenants})

    def _run_ended(self, run: TrackedRun) -> None:
        if run.led_elsewhere:
            self.parts.learner.lessons.run_left(run)
            return
        self.parts.objectives.run_ended(run)
        self.parts.learner.lessons.run_ended(run, self.parts.clock())
        if not run.aborted:
            labels = (run.application.tenant, run.application.id)
            self.parts.metrics.run_completion.labels(*labels).observe(run.took)

    def _compare_only_like(self, channel: EngineChannel, in_effect: InEffect) -> None:
        """Restart shares when another engine process counts, or in another unit: its counts do not compare."""
        counted = (channel.peer, in_effect.admission.unit)
        if counted != self._service_is_of:
            self._service_is_of = counted
            self.report.restart(in_effect.admission)
