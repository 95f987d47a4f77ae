"""DistBoost: short prompts are boosted, decoding is never disturbed (tail-aware scheduling, section 3.1).

Two queues. Requests to be prefilled are admitted in the order of

    phi_pre = arrival - b_gamma(prompt tokens in engine seconds)

and those that decode keep the engine in the order in which they began to: none makes way for a waiting one, and when
KV runs out the last to enter decode is preempted. Prompts are processed in the order of admission, so that is the
last admitted. A preempted request is to be prefilled again, and boosted by gamma as it is then.
"""

from justitia_scheduling.core.opened import OpenRequest, RequestState
from justitia_scheduling.policies.boost import Boosted
from justitia_vocabulary.units import RequestId, Seconds


class DistBoost(Boosted):
    """Every answer is O(log requests); the victim is found in O(1)."""

    def key(self, request: OpenRequest) -> tuple[float, ...]:
        """(phi_pre as of when it began to wait, arrival); a running request has no boost, so (moment, arrival)."""
        if request.status is RequestState.WAITING:
            return self._queue.key(request.id)
        return (request.arrival, request.sequence)

    def victim(self) -> RequestId | None:
        """The running request that entered decode last: phi_pre orders prompts only."""
        return next(reversed(self.running)) if len(self.running) > 1 else None

    def on_waiting(self, request: OpenRequest, now: Seconds) -> None:
        work = self.boosting.token_time.prefill() * max(request.request.prompt_tokens, 1)
        self._queue.put(request.id, (self.boosting.arrival(request, work), request.sequence))
