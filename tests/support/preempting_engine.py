"""A host without reservation: a request is admitted if what it holds fits, grows by a token an iteration, and when
the KV space is full the policy's victim loses its place, to be computed again later. Recomputing costs an iteration
nothing here, and is charged to nobody: the increments of cost are those of new tokens.
"""

from justitia_vocabulary.units import RequestId
from support.reserving_engine import ReservingEngine


class PreemptingEngine(ReservingEngine):
    def admit(self, now: float) -> None:
        free = self.capacity - self.held() - len(self.policy.running)
        while (head := self.policy.head()) is not None and self.next_size(head) <= free:
            free -= self.next_size(head)
            self.admitted(head, now)
        while self.held() + len(self.policy.running) > self.capacity:
            victim = self.policy.victim()
            assert victim is not None, "a request that fits the engine alone is never preempted for want of space"
            self.policy.preempted(victim, now)
            self.waiting[self.jobs[victim].tenant] += 1

    def held(self) -> int:
        return sum(self.jobs[request].prompt + self.produced[request] for request in self.policy.running)

    def next_size(self, request: RequestId) -> int:
        return self.jobs[request].prompt + self.produced[request] + 1
