"""How much waits of each application and how much is begun, in sequences and tokens of prompts: what a request that
arrives has before it. A change costs O(log requests).
"""

from collections import defaultdict
from dataclasses import dataclass, field
from heapq import heappop, heappush

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

    amount: Amount
    prompts: Tokens
    begun: bool = False


class Amounts:
    """`waiting` has the applications of which something waits. A prompt counts as it was known when it came."""

    def __init__(self) -> None:
        self.waiting: defaultdict[TenantId, dict[ApplicationId, WaitingAmount]] = defaultdict(dict)
        self.begun = Amount()
        self._counted: dict[RequestId, _Counted] = {}
        self._lapses: list[tuple[Seconds, RequestId, TrackedRequest]] = []

    def enter(self, request: TrackedRequest) -> None:
        amount = self.waiting[request.tenant].setdefault(request.application, WaitingAmount())
        part = amount.others if request.boosted_for is None else amount.boosted
        counted = self._counted[request.id] = _Counted(part, request.account.prompt)
        part.count(request.asks.sequences, counted.prompts)
        if request.boosted_for is not None:
            heappush(self._lapses, (request.timing.arrival + request.boosted_for, request.id, request))

    def begin(self, request: TrackedRequest) -> None:
        """The request waits no more."""
        self._move(request, self.begun)
        self._counted[request.id].begun = True
        self._forget_if_empty(request)

    def leave(self, request: TrackedRequest) -> None:
        counted = self._counted.pop(request.id)
        counted.amount.count(-request.asks.sequences, -counted.prompts)
        if not counted.begun:
            self._forget_if_empty(request)

    def lapse(self, now: Seconds) -> None:
        """Requests whose boost is over by now count with the others of their application."""
        while self._lapses and self._lapses[0][0] <= now:
            _, name, request = heappop(self._lapses)
            counted = self._counted.get(name)
            if counted is not None and not counted.begun:
                self._move(request, self.waiting[request.tenant][request.application].others)

    def _move(self, request: TrackedRequest, to: Amount) -> None:
        counted = self._counted[request.id]
        counted.amount.count(-request.asks.sequences, -counted.prompts)
        to.count(request.asks.sequences, counted.prompts)
        counted.amount = to

    def _forget_if_empty(self, request: TrackedRequest) -> None:
        of_tenant = self.waiting[request.tenant]
        amount = of_tenant[request.application]
        if not amount.boosted.sequences and not amount.others.sequences:
            del of_tenant[request.application]
            if not of_tenant:
                del self.waiting[request.tenant]
