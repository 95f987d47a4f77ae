"""Tiered Justitia, the default: tenants gated by weight, runs inside the gate by stretched virtual finish time.

Five decisions, one above the other.

1. *Gate.* Tenant f may be served iff, for every tenant g that waits,

       c_f <= c_g + min(B, beta * E_g / weight_g)

   c = service / weight (VTC's counters with their lift, in the pool's cost model), E_g the estimated cost of
   g's first run, converted to the cost model's unit by the application's ratio of charge to KV token-time (else
   the pool's) when the run became the first. The tenant with the smallest counter may always be served.
   Bound, whatever is predicted: `c_f - c_g <= B + U/weight_f` for waiting f and g, U the most that the
   requests in the engine can be charged; beta only tightens it.

2. *Heartbeat.* Among the tenants that may be served, one that waits and has had no admission for H seconds goes
   first; of several, the one whose last admission is longest ago (`heartbeat.py`). Shares do not depend on it.

3. *Applications.* A tenant's applications share its service by a gate of their own, each by its weight among those of
   its priority, after those of a higher one (`applications.py`). The first run of those that may be served is the
   tenant's first run.

4. *Stretched tag.* Of a tenant's runs, the one with the smallest tag goes first; of the tenants' first runs, the one
   whose tag is least far from its tenant's clock, for the tenant's weight:

       K_j = V_i(a_j) + kappa * E_j        and        (K_j - V_i) / weight_i

   V_i is the virtual time of GPS over the tenant's runs (`tenant_clocks.py`), in the second that of the tenant's last
   arrival or admission. E_j is what the run is expected to cost (`runcost.py`): the cost that was given, or its
   application's mean, until what the run has attained and asks for exceeds theta * E_j; then E_j is raised and the run
   is keyed again, seldom. kappa is theta unless it is set: a run has the place of one that costs the most that it may
   cost before it is keyed again. The start tag is lifted at the same time, to V_i - kappa * attained: a run gains
   nothing by staying open and asking for little at first.

5. *Boosted requests.* A run that is a single boosted request goes before a tenant's, or an application's, other runs,
   by Phi in place of the tag, and so does a tenant whose first run it is (`boosted.py`).

6. *Prefix cache.* Where the host says what its cache has (`in_cache`), the tenant's first runs may change places
   (`locality.py`).

A run's cost in V_i is E, without the stretch. Preempted requests go back to their tenant's queue and pass the gate
again.

Where the host can preempt, a head that does not fit takes the place of a running request of a tenant that the gate
holds back and that holds more than `MUCH_MORE` times as many KV tokens for its weight.

Reductions: one tenant, kappa = 1, no revision: Justitia. B = 0 and runs of one request and one estimate: weighted VTC.
Derivation and proofs: docs/design/tiered-justitia.md.
"""

import heapq
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from justitia_scheduling.core.cost import CostModel, Work
from justitia_scheduling.core.estimate import Ratio
from justitia_scheduling.core.gps import Tick
from justitia_scheduling.core.model import Step
from justitia_scheduling.core.opened import OpenRequest, OpenRun, RequestState
from justitia_scheduling.core.policy import Policy
from justitia_scheduling.core.recent import RecentMaximum
from justitia_scheduling.core.report import PolicyReport
from justitia_scheduling.core.runqueue import RunKey
from justitia_scheduling.policies.applications import TenantQueue, Told
from justitia_scheduling.policies.boost import Boosting
from justitia_scheduling.policies.boosted import BoostedRuns
from justitia_scheduling.policies.gate import Gate, Place
from justitia_scheduling.policies.giving_way import Room
from justitia_scheduling.policies.heartbeat import Heartbeat, Rank
from justitia_scheduling.policies.locality import first_by_cache
from justitia_scheduling.policies.runcost import RunCosts
from justitia_scheduling.policies.tenant_clocks import TenantClocks
from justitia_vocabulary.policies import Knob
from justitia_vocabulary.units import ApplicationId, KVTokenTime, RequestId, RunId, Seconds, TenantId, Tokens
from justitia_vocabulary.waiting import WaitingReason

THETA = 2.0
THETA_LEARNED = 3.0
BETA = 2.5
HEARTBEAT: Seconds = 60.0
RECENT_REQUESTS = 1000


class TieredJustitia(Policy):
    """`burst` is the gate's B in units of the cost model, `heartbeat` H in seconds, `kappa` the stretch of runs that
    arrive: each unless its knob sets another one. Without a burst it is the cost model's, or U/4 where that has none
    (0, which is strict sharing, until the host has told the KV space); without kappa it is each run's theta.
    `theta` fixes one theta for all runs; None takes `THETA` where a run's cost was told and `THETA_LEARNED` where it is
    its application's mean.
    """

    takes_back: ClassVar[bool] = True
    knobs: ClassVar[frozenset[Knob]] = frozenset(
        {Knob.BURST, Knob.HEARTBEAT, Knob.STRETCH, Knob.GAMMA_FLOOR, Knob.GAMMA_CEILING}
    )
    parts: ClassVar[tuple[str, ...]] = ("gated", "inTime", "overdueSince", "groupsBefore", "unboosted", "phiOrDistance")

    def __init__(
        self,
        cost_model: CostModel,
        *,
        kappa: float | None = None,
        theta: float | None = None,
        beta: float = BETA,
        burst: float | None = None,
        heartbeat: Seconds = HEARTBEAT,
    ) -> None:
        if (kappa is not None and kappa <= 0) or (theta is not None and theta <= 1) or beta < 0 or not heartbeat > 0:
            raise ValueError(
                f"kappa={kappa}, theta={theta}, beta={beta}, heartbeat={heartbeat}: "
                "need kappa > 0, theta > 1, beta >= 0, heartbeat > 0"
            )
        if theta == math.inf and kappa is None:
            raise ValueError("theta=inf: need kappa, which is theta where it is not given")
        super().__init__(cost_model)
        self.beta = beta
        self.clocks = TenantClocks()
        self.gate: Gate[TenantId] = Gate()
        self.counters = self.gate.counters
        self._own_burst, self._own_heartbeat, self._own_kappa = burst, heartbeat, kappa
        self._burst = burst
        self._heartbeat: Heartbeat[TenantId] = Heartbeat(heartbeat)
        self._longest_output = RecentMaximum(RECENT_REQUESTS, 1)
        self._widest_slack = RecentMaximum(RECENT_REQUESTS, 0.0)
        self._charge_per_cost = Ratio()
        self._boosted = BoostedRuns(cost_model)
        self._costs = RunCosts(theta or THETA, theta or THETA_LEARNED, kappa)
        self._beats: Heartbeat[TenantId] = Heartbeat(heartbeat)
        self._told = Told(self.share, self._beats)
        self._queues: dict[TenantId, TenantQueue] = {}
        self._tenants_of: defaultdict[ApplicationId, set[TenantId]] = defaultdict(set)
        self._unsettled: dict[TenantId, None] = {}
        """Tenants whose first run may be another one, because applications of it were charged."""
        self.room = Room(self, self.place_in_application)

    def tune(self, values: Mapping[Knob, float]) -> None:
        super().tune(values)
        burst = values.get(Knob.BURST, self._own_burst)
        heartbeat = values.get(Knob.HEARTBEAT, self._own_heartbeat)
        kappa = values.get(Knob.STRETCH, self._own_kappa)
        name = type(self).__name__
        if burst is not None and not burst >= 0:
            raise ValueError(f"policy {name} takes no burst of {burst:g}: it must not be negative")
        if not heartbeat > 0:
            raise ValueError(f"policy {name} takes no heartbeat of {heartbeat:g}: it must be positive")
        if kappa is not None and not kappa > 0:
            raise ValueError(f"policy {name} takes no stretch of {kappa:g}: it must be positive")
        self.boosting.bound(values, name)
        self._burst, self._costs.kappa = burst, kappa
        self._heartbeat.interval = self._beats.interval = heartbeat

    @property
    def burst(self) -> float:
        """B: how far a tenant may run ahead of its share, in units of the cost model per unit of weight."""
        if self._burst is not None:
            return self._burst
        usual = self.cost_model.burst
        return self.in_engine / 4 if usual is None else usual

    @property
    def in_engine(self) -> float:
        """U: the most that the requests in the engine can be charged, if none has a longer output than one of the
        last `RECENT_REQUESTS` to twice as many, and steps are as slow as the slowest of late (`cost.py`). 0 until the
        host has told the KV space.
        """
        return self.cost_model.in_engine(self.capacity, self._longest_output.value) if self.capacity else 0.0

    def key(self, request: OpenRequest) -> tuple[float, ...]:
        """(whether the tenant is gated, whether it is in time, since when it is overdue, how many groups of its
        applications go before the request's, 0 and Phi twice where its run is boosted, else 1, how far its tenant's
        clock is from K in KV token-time per weight and K in ticks, arrival of the run, arrival).
        """
        run, gated, rank = request.run, int(self.gated(request.tenant)), self._heartbeat.rank(request.tenant)
        place = self.place_in_application(run)
        between = (self._groups_before(request), *self._among_tenants(place, run.tenant))
        return (gated, *rank, *between, *place[1:], run.sequence, request.place_in_line)

    def head(self) -> RequestId | None:
        tenant = self._first_tenant()
        if tenant is None or self.in_cache is None:
            return None if tenant is None else self._queues[tenant].first()
        return first_by_cache(self._queues[tenant].firsts(), self.in_cache, self._tokens, self._prompt_work)

    def _first_tenant(self) -> TenantId | None:
        """The tenant that is served next."""
        if self._unsettled:
            self._settle()
        return self.gate.best(self.burst)

    def in_order(self) -> Iterator[RequestId]:
        self._settle()
        limit = self.gate.limit(self.burst)
        ranked = heapq.merge(*(self._ranked(tenant, limit) for tenant in self.counters.waiting))
        return (request for *_, request in ranked)

    def why_waits(self, request: OpenRequest) -> WaitingReason:
        if self.gated(request.tenant):
            return WaitingReason.TENANT_GATED
        return WaitingReason.APPLICATION_HELD_BACK if self._groups_before(request) else super().why_waits(request)

    @property
    def boosting(self) -> Boosting:
        """What orders boosted requests."""
        return self._boosted.boosting

    def report(self) -> PolicyReport:
        return replace(
            self._boosted.report(len(self.running)),
            burst=self.burst,
            slack=self._widest_slack.value,
            in_engine=self.in_engine,
        )

    def gated(self, tenant: TenantId) -> bool:
        """Whether the gate holds the tenant back until others have caught up."""
        self._settle()
        return self.counters[tenant] > self.gate.limit(self.burst)

    def _groups_before(self, request: OpenRequest) -> int:
        """How many groups of its tenant's applications go before that of the request."""
        self._settle()
        return self._queues[request.tenant].groups_before(request.run.run.application)

    def _ranked(self, tenant: TenantId, limit: float) -> Iterator[tuple[bool, Rank, int, Place, RunKey, RequestId]]:
        """The tenant's waiting requests in order."""
        gated, rank = self.counters[tenant] > limit, self._heartbeat.rank(tenant)
        return (
            (gated, rank, before, self._among_tenants(key, tenant), key, request)
            for before, key, request in self._queues[tenant].in_order()
        )

    def victim(self) -> RequestId | None:
        return self.room.first_to_go(self.running.values()) if len(self.running) > 1 else None

    def gives_way(self) -> RequestId | None:
        ahead = self._ahead(0.0)
        first = self._first_tenant() if ahead else None
        if first is None or not self.room.may_be_made(ahead, (first,)):
            return None
        head = self.head()
        return None if head is None else self.room.for_head(self.requests[head], ahead, self._prompt_work)

    def may_give_way(self, untold: float, *, soon: bool = False) -> bool:
        if not soon:
            return self.room.may_be_made(self._ahead(untold), self.counters.waiting)
        first = self._first_tenant()
        if first is None or not self.room.asks_for_little(first):
            return False
        return self.room.may_be_made(self._ahead(untold), (first,))

    def _ahead(self, untold: float) -> list[TenantId]:
        """The tenants with running requests that the gate holds back, if each is charged so much more. The gate lets in
        more when others are charged.
        """
        self._settle()
        counter, limit = self.counters.by_member, self.gate.limit(self.burst)
        return [tenant for tenant in self.held if counter[tenant] + untold / self.weight(tenant) > limit]

    def _tokens(self, request: RequestId) -> Tokens:
        """What is to be read for a waiting request."""
        return self.requests[request].tokens

    def place(self, run: OpenRun) -> tuple[float, ...]:
        rank = self._heartbeat.rank(run.tenant)
        return (
            self.gated(run.tenant),
            *rank,
            *self._among_tenants(self.place_in_application(run), run.tenant),
            run.sequence,
        )

    def stretched_tag(self, run: OpenRun) -> Tick:
        """K_j of an open run, on its tenant's clock."""
        return self.clocks.tag(run, self._costs.stretched(run.id))

    def place_in_application(self, run: OpenRun) -> Place:
        """An open run's place among those of its application: 0 and Phi where it is boosted, else 1 and K."""
        phi = self._boosted.get(run.id)
        return (1, self.stretched_tag(run)) if phi is None else (0, phi)

    def _among_tenants(self, place: Sequence[float], tenant: TenantId) -> Place:
        """A place among those of all tenants. It does not change the order of the tenant's own."""
        return (1, self.clocks.distance(tenant, place[1])) if place[0] else (0, place[1])

    def run_cost(self, work: Work, kv_token_time: KVTokenTime) -> float:
        prefilled = work.progress.prefilled
        return kv_token_time + prefilled * self._prompt_work if prefilled else kv_token_time

    @property
    def _prompt_work(self) -> KVTokenTime:
        """rho: the cost of reading a prompt token."""
        return self.cost_model.prompt_work(self.capacity) if self.capacity else 0.0

    def set_application(self, application: ApplicationId, weight: float, priority: int, now: Seconds) -> None:
        super().set_application(application, weight, priority, now)
        for tenant in self._tenants_of.get(application, ()):
            self._queues[tenant].share_changed(application)
            self._update_gate(tenant)

    def on_run_arrived(self, run: OpenRun, now: Seconds) -> None:
        self._costs.opened(run, self._prompt_work)
        self.clocks.arrive(run, self._costs[run.id])
        self._renew(run.run.application)

    def on_waiting(self, request: OpenRequest, now: Seconds) -> None:
        if not request.preemptions and self._costs.asked(request, self._prompt_work):
            self._key_again(request.run)
        tenant = request.tenant
        queue = self._queues.get(tenant)
        if queue is None:
            queue = self._queues[tenant] = TenantQueue(tenant, self._told)
        if not queue:
            self._heartbeat.silent_since(tenant, now)
        if self._boosted.waits(request, len(self.running)):
            queue.rekey(request.run, self.place_in_application(request.run))
        self.counters.enqueue(tenant)
        self.room.waits(request)
        self.clocks.compare_from_now_on(tenant, self.weight(tenant))
        if queue.push(request, self.place_in_application(request.run), now):
            self._tenants_of[request.run.run.application].add(tenant)
        self._update_gate(tenant)

    def on_left_queue(self, request: OpenRequest, now: Seconds) -> None:
        queue = self._queues[request.tenant]
        self.counters.dequeue(request.tenant)
        self.clocks.compare_from_now_on(request.tenant, self.weight(request.tenant))
        admitted = request.status is RequestState.RUNNING
        queue.remove(request, now, admitted=admitted)
        if not queue:
            self._heartbeat.drop(request.tenant)
        elif admitted:
            self._heartbeat.silent_since(request.tenant, now)
        self._update_gate(request.tenant)
        self.room.left(request)
        if request.preemptions:
            return
        self._costs.left(request)
        self._longest_output.count()
        self._widest_slack.count()

    def on_charged(self, request: OpenRequest, charge: float) -> None:
        self._count(request.run, charge)
        self._longest_output.observe(request.produced)
        self._charge_per_cost.add_upper(request.run.run.application, charge)

    def on_delivered(self, delivered: dict[RunId, KVTokenTime], now: Seconds) -> None:
        for run_id, increment in delivered.items():
            self._charge_per_cost.add_lower(self.runs[run_id].run.application, increment)
        self._advance(delivered)

    def on_delivered_elsewhere(self, delivered: dict[RunId, KVTokenTime], now: Seconds) -> None:
        self._advance(delivered)

    def _advance(self, delivered: dict[RunId, KVTokenTime]) -> None:
        """Raise what runs have attained, and move their tenants' clocks."""
        by_tenant: defaultdict[TenantId, KVTokenTime] = defaultdict(float)
        for run_id, increment in delivered.items():
            run = self.runs[run_id]
            by_tenant[run.tenant] += increment
            if self._costs.attained(run, increment):
                self._key_again(run)
        self.clocks.advance(by_tenant.items())

    def time_passed(self, now: Seconds) -> None:
        self.room.now = now
        for run in self._boosted.lapsed(now):
            self._place_again(self.runs[run])
        for tenant in self._heartbeat.late(now):
            self._update_gate(tenant)
        for tenant in self._beats.late(now):
            self._settle()
            self._queues[tenant].look(now)
            self._update_gate(tenant)

    def served_elsewhere(self, tenant: TenantId, charge: float) -> None:
        self.counters.charge(tenant, charge, self.weight(tenant))

    def on_stepped(self, step: Step, now: Seconds) -> None:
        """The next answer is made ready here, while the engine computes, and not when the host waits for it."""
        self._boosted.stepped(step)
        self.time_passed(now)
        self._first_tenant()

    def on_closed(self, request: OpenRequest, finished: bool, now: Seconds) -> None:
        self._costs.closed(request, finished)
        self._boosted.closed(request, finished, now)
        self.room.closed(request)

    def on_run_ended(self, run: OpenRun, now: Seconds) -> None:
        self._costs.ended(run)
        self._boosted.ended(run.id)
        self.clocks.end(run)
        self._renew(run.run.application)

    def on_kept(self, run: OpenRun, charge: float) -> None:
        self._count(run, charge)

    def _count(self, run: OpenRun, charge: float) -> None:
        """Raise the counters of the run's tenant and of its application."""
        tenant = run.tenant
        self.counters.charge(tenant, charge, self.weight(tenant))
        queue = self._queues[tenant]
        if queue.several_seen and queue.charge(run.run.application, charge):
            self._unsettled[tenant] = None

    def _key_again(self, run: OpenRun) -> None:
        """The run's estimate has been raised by what it showed."""
        self.clocks.lift(run, self._costs.stretch(run.id) * run.attained)
        self._retag(run)

    def _renew(self, application: ApplicationId) -> None:
        """More is known of the application: runs whose estimates fall get a new key. Their start tags stay."""
        for run in self._costs.renewed(application):
            self._retag(run)

    def _retag(self, run: OpenRun) -> None:
        self.revisions += 1
        self.clocks.retag(run, self._costs[run.id])
        self._place_again(run)

    def _place_again(self, run: OpenRun) -> None:
        """The run has another place among its application's."""
        if (queue := self._queues.get(run.tenant)) is not None:
            queue.rekey(run, self.place_in_application(run))
            self._update_gate(run.tenant)

    def _settle(self) -> None:
        """Find the first runs anew of tenants whose applications were charged."""
        while self._unsettled:
            self._update_gate(self._unsettled.popitem()[0])

    def _update_gate(self, tenant: TenantId) -> None:
        """Tell the gate if the tenant's first run, or its key, is another one."""
        queue = self._queues[tenant]
        if queue.several_wait:
            queue.settle(self.burst, self._slack)
        first = queue.first_run()
        if first is None:
            self.gate.drop(tenant)
            return
        run_key, run = first
        key = (*self._heartbeat.rank(tenant), *self._among_tenants(run_key, tenant), *run_key[1:])
        if key != self.gate.key(tenant):
            slack = self._slack(run, self.weight(tenant))
            self._widest_slack.observe(min(slack, self.burst))
            self.gate.put_first(tenant, key, slack)

    def _slack(self, run: OpenRun, weight: float) -> float:
        """What a waiting run allows others, in the cost model's unit for this weight."""
        if self.beta == math.inf:
            return self.beta
        cost = self._costs[run.id] * self._charge_per_cost.of(run.run.application)
        return self.beta * cost / weight
