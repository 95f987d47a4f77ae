"""A host without reservation: a request is admitted if what it holds fits, grows by a token an iteration, and when
the KV space is full the policy's victim loses its place, to be computed again later. Recomputing costs an iteration
nothing here, and is charged to nobody: the increments of cost are those of new tokens.
"""

from justitia_vocabulary.units import RequestId
from support.reserving_engine import ReservingEngine


class PreemptingEngine(ReservingEngine):
    def _admit(self, now: float) -> None:
        free = self.capacity - self._held() - len(self.policy.running)
        while (head := self.policy.head()) is not None and self._next_size(head) <= free:
            free -= self._next_size(head)
            self._admitted(head, now)
        while self._held() + len(self.policy.running) > self.capacity:
            victim = self.policy.victim()
            assert victim is not None, "a request that fits the engine alone is never preempted for want of space"
            self.policy.preempted(victim, now)
            self._waiting[self.jobs[victim].tenant] += 1

    def _held(self) -> int:
        return sum(self.jobs[request].prompt + self._produced[request] for request in self.policy.running)

    def _next_size(self, request: RequestId) -> int:
        return self.jobs[request].prompt + self._produced[request] + 1
