"""A tenant's waiting runs by application, and which of them is the tenant's first: the lower level of tiered Justitia.

Applications of one tenant share its service as tenants share the engine, by the same gate (`gate.py`). Of the tenant's
applications that wait,

1. once in each interval H, of those behind a higher priority that waits, the one whose silence is longest goes first,
   if that is H or more and it may be served;
2. else those of the highest priority that waits; among them, those that may be served; among these, the run with the
   smallest key.

An application f may be served iff, for every waiting g of its tenant and its priority,

    c_f <= c_g + min(B, beta * E_g / weight_g)

with counters c = service / weight, where the weights are those of applications; c_g + B where all that were seen of the
tenant have one weight: nobody has said whose work matters more, so the order of runs decides within B. So while f and g
of one priority wait, `c_f - c_g <= B + U/weight_f`, whatever the tenant's own gate does. Each priority has counters of
its own: who comes to another one is lifted there, and brings no credit along. B is that of the last change in the
tenant.

An application's *silence* begins when it begins to wait beside others and with each admission while it does. So each of
n that wait behind a higher priority has an admission after (n + 1) H and n admissions of its tenant at most, if it may
be served meanwhile. However many there are, they take one admission in H from those that the order prefers.

A tenant of which one application was ever seen has no counters on this level, and costs nothing here. Where several
wait, a change costs O(log applications + priorities).
"""

import math
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Iterator
from heapq import merge
from typing import NamedTuple

from justitia_scheduling.core.model import ApplicationShare
from justitia_scheduling.core.opened import OpenRequest, OpenRun
from justitia_scheduling.core.runqueue import RunKey, RunQueue
from justitia_scheduling.policies.gate import Gate
from justitia_scheduling.policies.heartbeat import Heartbeat
from justitia_vocabulary.units import ApplicationId, RequestId, Seconds, TenantId

Group = tuple[bool, int, bool]


class Told(NamedTuple):
    """What the queues of all tenants share: how an application shares, and when a tenant of which several wait last had
    one go first because of its silence.
    """

    share: Callable[[ApplicationId], ApplicationShare]
    beats: Heartbeat[TenantId]


class TenantQueue:
    """The waiting runs of one tenant. `several_seen` and `several_wait` tell whether that is true of its applications.
    Where several wait, it is to be settled after a change, before it is asked.
    """

    def __init__(self, tenant: TenantId, told: Told) -> None:
        self.several_seen = False
        self.several_wait = False
        self._tenant = tenant
        self._told = told
        self._runs: dict[ApplicationId, RunQueue] = {}
        """Those of all applications seen."""
        self._waiting: dict[ApplicationId, RunQueue] = {}
        self._gates: defaultdict[int, Gate[ApplicationId]] = defaultdict(Gate)
        self._priority: dict[ApplicationId, int] = {}
        """Whose gate and counters an application is at. Empty until a second application is seen."""
        self._weights: dict[ApplicationId, float] = {}
        self._with_weight: Counter[float] = Counter()
        """How many of the applications seen have each weight."""
        self._changed: dict[ApplicationId, None] = {}
        self._silent_since: OrderedDict[ApplicationId, Seconds] = OrderedDict()
        """Applications that wait beside others, the longest silence first."""
        self._overdue: ApplicationId | None = None
        """The one that goes first, because its silence is longest."""
        self._looked: Seconds = 0.0
        self._burst = 0.0
        self._front: RunQueue | None = None
        self._groups_before: dict[ApplicationId, int] | None = None

    def __bool__(self) -> bool:
        return bool(self._waiting)

    # What happens.

    def push(self, request: OpenRequest, key: tuple[float, ...], now: Seconds) -> bool:
        """The request waits; a preempted one at the front of its run, whose key is `key`. True if its application was
        never seen before.
        """
        application = request.run.run.application
        runs = self._runs.get(application)
        if new := runs is None:
            runs = self._runs[application] = RunQueue()
            self._weigh(application)
            if len(self._runs) == 2:
                self._share_from_now_on()
        begins = not runs
        runs.push(request, *key)
        if begins:
            self._begins(application, runs, now)
        elif self.several_seen:
            self._changed[application] = None
        return new

    def remove(self, request: OpenRequest, now: Seconds, *, admitted: bool) -> None:
        """The request does not wait any longer."""
        application = request.run.run.application
        runs = self._runs[application]
        runs.remove(request)
        if not runs:
            self._ends(application, now)
        elif self.several_seen:
            self._changed[application] = None
            if admitted and self.several_wait:
                self._silent(application, now)

    def rekey(self, run: OpenRun, key: tuple[float, ...]) -> None:
        """The run has another key."""
        application = run.run.application
        if (runs := self._runs.get(application)) is not None:
            runs.rekey(run.id, *key)
            self.change(application)

    def change(self, application: ApplicationId) -> None:
        """The application's first run, or its share, may be another one."""
        if application in self._priority:
            self._changed[application] = None

    def share_changed(self, application: ApplicationId) -> None:
        """An application that was seen shares in another way."""
        self._weigh(application)
        self.change(application)

    def charge(self, application: ApplicationId, charge: float) -> bool:
        """Count what the application was charged, where several were seen. True if that may change who is first."""
        weight, gate = self._told.share(application).weight, self._gates[self._priority[application]]
        gate.counters.charge(application, charge, weight)
        return self.several_wait and application in self._waiting

    def settle(self, burst: float, slack: Callable[[OpenRun, float], float]) -> None:
        """Find the first run of several applications. `slack` tells what a run allows others, for a weight."""
        self._burst, self._groups_before = burst, None
        for application in self._changed:
            if (runs := self._waiting.get(application)) is not None:
                self._put_first(application, runs, slack)
        self._changed.clear()
        if self._overdue is not None:
            if not self._held(self._overdue):
                self._front = self._waiting[self._overdue]
                return
            self._no_longer_overdue(self._looked)
        firsts = ((priority, gate.best(burst)) for priority, gate in self._gates.items())
        _, front = max((priority, application) for priority, application in firsts if application is not None)
        self._front = self._waiting[front]

    def look(self, now: Seconds) -> None:
        """The tenant's last beat was H ago: another application may go first, where one is due."""
        self._looked, latest = now, now - self._told.beats.interval
        highest = max((self._priority[each] for each in self._waiting), default=0)
        for application, since in self._silent_since.items():
            if since > latest:
                break
            if self._priority[application] < highest and not self._held(application):
                self._overdue = application
                return
        self._no_longer_overdue(now)

    # What it is asked.

    def first(self) -> RequestId | None:
        """The first request of the first run, None if none waits."""
        return None if self._front is None else self._front.first()

    def first_run(self) -> tuple[RunKey, OpenRun] | None:
        """The first run, behind its (key, arrival); None if none waits."""
        return None if self._front is None else self._front.first_run()

    def firsts(self) -> Iterator[tuple[RunKey, RequestId]]:
        """The waiting requests of the application that has the first run, in order."""
        return iter(()) if self._front is None else self._front.in_order()

    def groups_before(self, application: ApplicationId) -> int:
        """How many groups of the tenant's waiting applications go before it: 0 if it may be served, or if nothing of it
        waits. Applications in one group are ordered by the keys of their runs.
        """
        if not self.several_wait:
            return 0
        if self._groups_before is None:
            groups = {each: self._group(each) for each in self._waiting}
            number = {group: number for number, group in enumerate(sorted(set(groups.values())))}
            self._groups_before = {each: number[group] for each, group in groups.items()}
        return self._groups_before.get(application, 0)

    def in_order(self) -> Iterator[tuple[int, RunKey, RequestId]]:
        """All waiting requests in order, each with the groups before it and its run's (key, arrival)."""
        return merge(*(self._numbered(application) for application in self._waiting))

    # How.

    def _numbered(self, application: ApplicationId) -> Iterator[tuple[int, RunKey, RequestId]]:
        before = self.groups_before(application)
        return ((before, key, request) for key, request in self._waiting[application].in_order())

    def _share_from_now_on(self) -> None:
        """A second application is seen. Both begin at 0, which is where the lift would put the second one beside the
        first: only differences count.
        """
        self.several_seen = True
        first = next(iter(self._runs))
        self._enter(first)
        if first not in self._waiting:
            self._gates[self._priority[first]].counters.dequeue(first)

    def _begins(self, application: ApplicationId, runs: RunQueue, now: Seconds) -> None:
        """The application begins to wait."""
        self._waiting[application] = runs
        if len(self._waiting) == 1:
            self._front = runs
        else:
            self.several_wait = True
        if self.several_seen:
            self._enter(application)
        if len(self._waiting) == 2:
            self._told.beats.silent_since(self._tenant, now)
            for each in self._waiting:
                self._silent_since[each] = now
        elif self.several_wait:
            self._silent_since[application] = now

    def _ends(self, application: ApplicationId, now: Seconds) -> None:
        """Nothing of the application waits any longer."""
        del self._waiting[application]
        if not self.several_seen:
            self._front = None
            return
        gate = self._gates[self._priority[application]]
        gate.drop(application)
        gate.counters.dequeue(application)
        self._silent_since.pop(application, None)
        if self._overdue == application:
            self._no_longer_overdue(now)
        if len(self._waiting) < 2:
            self.several_wait = False
            self._front = next(iter(self._waiting.values()), None)
            self._silent_since.clear()
            self._overdue = None
            self._told.beats.drop(self._tenant)

    def _enter(self, application: ApplicationId) -> None:
        """Bring a waiting application to the gate of its priority."""
        priority = self._priority[application] = self._told.share(application).priority
        self._gates[priority].counters.enqueue(application)
        self._changed[application] = None

    @property
    def _alike(self) -> bool:
        """Whether all applications seen have one weight."""
        return len(self._with_weight) < 2

    def _weigh(self, application: ApplicationId) -> None:
        """Count the application's weight. All first runs are put anew where weights are alike no longer, or again."""
        before, weight, were_alike = self._weights.get(application), self._told.share(application).weight, self._alike
        self._weights[application] = weight
        self._with_weight[weight] += 1
        if before is not None:
            self._with_weight[before] -= 1
            if not self._with_weight[before]:
                del self._with_weight[before]
        if self._alike is not were_alike:
            for each in filter(self._priority.__contains__, self._waiting):
                self._gates[self._priority[each]].drop(each)
                self._changed[each] = None

    def _put_first(self, application: ApplicationId, runs: RunQueue, slack: Callable[[OpenRun, float], float]) -> None:
        """Tell the application's gate if its first run, or that run's key, is another one."""
        share, before = self._told.share(application), self._priority[application]
        if share.priority != before:
            gate = self._gates[before]
            gate.drop(application)
            gate.counters.dequeue(application)
            self._enter(application)
        gate, first = self._gates[share.priority], runs.first_run()
        assert first is not None
        run_key, run = first
        if run_key != gate.key(application):
            gate.put_first(application, run_key, math.inf if self._alike else slack(run, share.weight))

    def _silent(self, application: ApplicationId, now: Seconds) -> None:
        """The application was admitted, and waits on."""
        self._silent_since[application] = now
        self._silent_since.move_to_end(application)
        if self._overdue == application:
            self._no_longer_overdue(now)

    def _no_longer_overdue(self, now: Seconds) -> None:
        """The next application may go first H after this moment."""
        self._overdue = None
        self._told.beats.silent_since(self._tenant, now)

    def _held(self, application: ApplicationId) -> bool:
        """Whether the gate of its priority holds the application back."""
        gate = self._gates[self._priority[application]]
        return gate.counters[application] > gate.limit(self._burst)

    def _group(self, application: ApplicationId) -> Group:
        return (application != self._overdue, -self._priority[application], self._held(application))
