"""The interface between a host and a policy: events, and the questions that the host asks.

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

`books.py` keeps what they all need to know. `revisions` counts how often an open run or request got another key than
before.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from operator import attrgetter
from typing import ClassVar

from justitia_scheduling.core.books import Books
from justitia_scheduling.core.cost import CostModel
from justitia_scheduling.core.lazyheap import LazyHeap
from justitia_scheduling.core.opened import OpenRequest, OpenRun
from justitia_scheduling.core.report import PolicyReport
from justitia_vocabulary.policies import Knob
from justitia_vocabulary.units import KVTokenTime, RequestId, RunId, Seconds, TenantId, Tokens
from justitia_vocabulary.waiting import WaitingReason


class Policy(Books):
    """An order of service.

    `in_cache` is the host's, where it has a prefix cache and can say how many tokens of a waiting request's prompt that
    has now. The head may then come before requests with smaller keys; `in_order` stays that of the keys.

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
        super().__init__(cost_model)
        self.revisions = 0
        self.in_cache: Callable[[RequestId], Tokens] | None = None
        self._queue: LazyHeap[RequestId] = LazyHeap()

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

    def may_give_way(self, untold: float, *, soon: bool = False) -> bool:
        """Whether `gives_way` may name a request once the policy has been told of work that it does not know yet, for
        which no tenant is charged more than `untold`. A host may ask it first, since telling costs more. `soon`:
        whether it may for somebody who should not wait for some steps.
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

    # What a host tells, beside what the books are told.

    def time_passed(self, now: Seconds) -> None: ...

    def served_elsewhere(self, tenant: TenantId, charge: float) -> None:
        """Other engines of the pool have served the tenant so much more, in the cost model's unit. It counts for who is
        served next where the policy shares between tenants, never as service of this engine.
        """

    def delivered_elsewhere(self, delivered: Mapping[RunId, KVTokenTime], now: Seconds) -> None:
        """Other engines of the pool have worked so much for runs, in the unit of a run's cost. Those that are not open
        here are passed over: they may be over already.
        """
        of_open = {run: more for run, more in delivered.items() if run in self.runs}
        for run_id, more in of_open.items():
            self.runs[run_id].attained += more
        self.on_delivered_elsewhere(of_open, now)

    # What a policy overrides, beside what the books leave to it.

    def on_waiting(self, request: OpenRequest, now: Seconds) -> None:
        self._queue.put(request.id, self.key(request))

    def on_delivered_elsewhere(self, delivered: dict[RunId, KVTokenTime], now: Seconds) -> None:
        """Other engines worked for open runs. That counts for their order as what was delivered here."""
        self.on_delivered(delivered, now)

    def on_left_queue(self, request: OpenRequest, now: Seconds) -> None:
        self._queue.remove(request.id)
