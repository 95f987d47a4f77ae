"""UniBoost: one priority for waiting and running requests, kept still by MemGuard (tail-aware scheduling, 3.2 - 3.4).

    Phi = arrival - b_gamma(work)        smaller is served earlier

*Signal.* w = max(tokens processed, prompt tokens), never falling. Recomputation does not count. A cached prefix
that is found at admission makes no difference: the whole prompt has been counted by then.

*MemGuard.* Phi is computed at arrival and again only when w crosses k * 2^i, from w rounded down to such a threshold,

    k * 2^floor(log2(max(w, k) / k)),   k = 256 tokens

turned into engine seconds with the mix of prefill and decode that w has, the token times and gamma of that moment
(`boost.py`). In between Phi is frozen, whatever becomes of gamma. So a request of S = prompt + output tokens has at
most 1 + max(0, floor(log2(S / k))) keys.

*Preemption.* A running request has done its minimum run when it has crossed a threshold since it was admitted. The
worst of those that have makes way for the head if Phi_head < Phi - delta / gamma; so a request makes way at most
max(0, floor(log2(S / k))) times. When the engine has run out of KV, the worst of all is preempted regardless. The
paper's delta is .1; ours is 2, because each preemption is paid for by all (`docs/design/uniboost.md`).

*No starvation.* No boost exceeds b_max = b_gamma(k tokens of the cheaper kind), so a request that arrives more than
b_max after another never overtakes it, under fixed gamma and token times.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from justitia_scheduling.core.cost import CostModel
from justitia_scheduling.core.model import Step
from justitia_scheduling.core.opened import OpenRequest, RequestState
from justitia_scheduling.policies.boost import Boosted, signal
from justitia_vocabulary.policies import HYSTERESIS, Knob
from justitia_vocabulary.units import RequestId, Seconds, Tokens

QUANTUM: Tokens = 256


def quantised(tokens: Tokens, quantum: Tokens = QUANTUM) -> Tokens:
    """The largest quantum * 2^i that is not above `tokens`, at least the quantum."""
    return quantum << max((tokens // quantum).bit_length() - 1, 0)


@dataclass(slots=True)
class Priority:
    """Phi, what it was computed from, and whether the request has done its minimum run."""

    phi: Seconds
    work: Seconds
    threshold: Tokens
    evictable: bool = False


class UniBoost(Boosted):
    """`delta` is without unit. `gives_way` looks at each running request once."""

    takes_back: ClassVar[bool] = True
    knobs: ClassVar[frozenset[Knob]] = Boosted.knobs | {Knob.HYSTERESIS}

    def __init__(self, cost_model: CostModel, *, quantum: Tokens = QUANTUM, delta: float = HYSTERESIS) -> None:
        if quantum < 1 or delta < 0:
            raise ValueError(f"quantum={quantum}, delta={delta}: need quantum >= 1, delta >= 0")
        super().__init__(cost_model)
        self.quantum, self.delta = quantum, delta
        self._priority: dict[RequestId, Priority] = {}

    def tune(self, values: Mapping[Knob, float]) -> None:
        delta = values.get(Knob.HYSTERESIS, HYSTERESIS)
        if not delta >= 0:
            raise ValueError(f"policy {type(self).__name__} takes no hysteresis of {delta:g}: it must not be negative")
        super().tune(values)
        self.delta = delta

    def key(self, request: OpenRequest) -> tuple[float, ...]:
        """(Phi, arrival)."""
        return (self._priority[request.id].phi, request.sequence)

    def gives_way(self) -> RequestId | None:
        head = self.head()
        if head is None:
            return None
        limit = self._priority[head].phi + self.delta / self.boosting.tail.gamma
        losers = [r for r in self.running.values() if self._priority[r.id].evictable]
        worst = max(losers, key=self.key, default=None)
        return worst.id if worst is not None and self._priority[worst.id].phi > limit else None

    def on_waiting(self, request: OpenRequest, now: Seconds) -> None:
        if request.id not in self._priority:
            self._priority[request.id] = self.prioritise(request, 0.0)
        self._queue.put(request.id, self.key(request))

    def on_left_queue(self, request: OpenRequest, now: Seconds) -> None:
        super().on_left_queue(request, now)
        if request.status is RequestState.RUNNING:
            self._priority[request.id].evictable = False

    def on_stepped(self, step: Step, now: Seconds) -> None:
        super().on_stepped(step, now)
        for progress in step.progress:
            request = self.requests[progress.request]
            before = self._priority[request.id]
            if signal(request) >= 2 * before.threshold:
                self._priority[request.id] = self.prioritise(request, before.work)
                self._priority[request.id].evictable = True
                self.revisions += 1

    def on_closed(self, request: OpenRequest, finished: bool, now: Seconds) -> None:
        super().on_closed(request, finished, now)
        del self._priority[request.id]

    def prioritise(self, request: OpenRequest, least_work: Seconds) -> Priority:
        """The priority of a request whose signal has reached a threshold, and whose work was `least_work` before."""
        threshold = quantised(max(signal(request), 1), self.quantum)
        work = max(self.boosting.work(request, threshold, len(self.running)), least_work)
        return Priority(self.boosting.arrival(request, work), work, threshold)
