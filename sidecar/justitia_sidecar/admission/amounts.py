"""How much waits of each application and how much is begun, in sequences and tokens of prompts: what a request that
arrives has before it. A change costs O(log requests).
"""

from collections import defaultdict
from dataclasses import dataclass, field

from justitia_scheduling.core.asked import Asked
from justitia_scheduling.core.lazyheap import LazyHeap
from justitia_sidecar.admission.request import TrackedRequest
from justitia_vocabulary.units import ApplicationId, RequestId, Seconds, TenantId, Tokens


@dataclass(slots=True)
class Amount:
    """So many sequences, with so many tokens of prompts together."""

    sequences: int = 0
    prompts: Tokens = 0

    def count(self, sequences: int, prompts: Tokens) -> None:
        self.sequences += sequences
        self.prompts += prompts


@dataclass(slots=True)
class WaitingAmount:
    """What waits of an application: its boosted requests, and the others."""

    boosted: Amount = field(default_factory=Amount)
    others: Amount = field(default_factory=Amount)


@dataclass(slots=True)
class _Counted:
    """A request that is here: where it is counted, with which prompt."""

    request: TrackedRequest
    amount: Amount
    prompts: Tokens
    asked: Asked
    begun: bool = False


class Amounts:
    """`waiting` has the applications of which something waits. A prompt counts as it was known when it came."""

    def __init__(self) -> None:
        self.waiting: defaultdict[TenantId, dict[ApplicationId, WaitingAmount]] = defaultdict(dict)
        self.asked: dict[TenantId, Asked] = {}
        """What waits of each tenant, with the outputs that were expected of requests when they came."""
        self.begun = Amount()
        self._counted: dict[RequestId, _Counted] = {}
        self._lapses: LazyHeap[RequestId] = LazyHeap()
        """Boosted requests that wait, by the moment at which their boost is over."""

    def enter(self, request: TrackedRequest, output: Tokens) -> None:
        """So much output is expected of each of its sequences."""
        amount = self.waiting[request.tenant].setdefault(request.application, WaitingAmount())
        part = amount.others if request.boosted_for is None else amount.boosted
        sequences, prompts = request.asks.sequences, request.account.prompt
        counted = _Counted(request, part, prompts, Asked.of(sequences, prompts, output))
        self._counted[request.id] = counted
        part.count(sequences, prompts)
        self.asked[request.tenant] = self.asked.get(request.tenant, Asked()).plus(counted.asked)
        if request.boosted_for is not None:
            self._lapses.put(request.id, (request.timing.arrival + request.boosted_for,))

    def begin(self, request: TrackedRequest) -> None:
        """The request waits no more."""
        self._not_boosted(request)
        self._move(request, self.begun)
        counted = self._counted[request.id]
        counted.begun = True
        self._waits_no_more(request.tenant, counted)

    def leave(self, request: TrackedRequest) -> None:
        self._not_boosted(request)
        counted = self._counted.pop(request.id)
        counted.amount.count(-request.asks.sequences, -counted.prompts)
        if not counted.begun:
            self._waits_no_more(request.tenant, counted)

    def lapse(self, now: Seconds) -> None:
        """Requests whose boost is over by now count with the others of their application."""
        while (name := self._lapses.first()) is not None and self._lapses.key(name)[0] <= now:
            request = self._counted[name].request
            self._not_boosted(request)
            self._move(request, self.waiting[request.tenant][request.application].others)

    def _not_boosted(self, request: TrackedRequest) -> None:
        """It no longer waits to lapse, if it did."""
        if self._is_boosted(request):
            self._lapses.remove(request.id)

    def _is_boosted(self, request: TrackedRequest) -> bool:
        amount = self.waiting.get(request.tenant, {}).get(request.application)
        return amount is not None and self._counted[request.id].amount is amount.boosted

    def _move(self, request: TrackedRequest, to: Amount) -> None:
        counted = self._counted[request.id]
        counted.amount.count(-request.asks.sequences, -counted.prompts)
        to.count(request.asks.sequences, counted.prompts)
        counted.amount = to

    def _waits_no_more(self, tenant: TenantId, counted: _Counted) -> None:
        self.asked[tenant] = self.asked[tenant].plus(counted.asked, -1)
        of_tenant, application = self.waiting[tenant], counted.request.application
        amount = of_tenant[application]
        if not amount.boosted.sequences and not amount.others.sequences:
            del of_tenant[application]
            if not of_tenant:
                del self.waiting[tenant], self.asked[tenant]
