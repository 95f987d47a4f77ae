"""What waits under one policy, and what that has not been told yet. One engine takes from it, or several.

A policy hears of arrivals at the next decision of an engine, or at once where its host says so.
"""

from collections import Counter
from collections.abc import Callable, Collection

from justitia_scheduling.core.model import Request, Run
from justitia_scheduling.core.policy import Policy
from justitia_simulator.inference import Inference
from justitia_vocabulary.units import RequestId, RunId, Seconds, TenantId


class Line:
    """Requests that wait. `queued` counts them by tenant."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.waiting: dict[RequestId, Inference] = {}
        self.queued: Counter[TenantId] = Counter()
        self._runs: set[RunId] = set()
        self._inbox: list[Callable[[Seconds], None]] = []

    def submit(self, request: Inference) -> None:
        """A request is ready: tell the policy at the next decision."""
        self._inbox.append(lambda now: self.take_in(request, now))

    def know(self, run: Run, now: Seconds) -> None:
        """Tell the policy of a run that has come to another line."""
        if run.id not in self._runs:
            self._runs.add(run.id)
            self.policy.run_arrived(run, now)

    def take_in(self, request: Inference, now: Seconds) -> None:
        """Tell the policy of a request that is ready."""
        self.know(request.run, now)
        self.queue(request)
        prompt, output = request.work.prompt_tokens, request.predicted_output
        self.policy.request_arrived(
            Request(request.id, request.run.id, prompt, output, boosted_for=request.boosted_for), now
        )

    def run_ended(self, run: RunId, now: Seconds | None) -> None:
        """The run is over. Without `now` the policy hears of it at the next decision."""
        if run not in self._runs:
            return
        self._runs.remove(run)
        if now is None:
            self._inbox.append(lambda then: self.policy.run_ended(run, then))
        else:
            self.policy.run_ended(run, now)

    def hear(self, now: Seconds) -> None:
        """Tell the policy what it has not been told."""
        for tell in self._inbox:
            tell(now)
        self._inbox.clear()

    def key(self, name: RequestId) -> tuple[float, ...]:
        """The place of a request that waits or runs in the policy's order."""
        return self.policy.key(self.policy.requests[name])

    def queue(self, request: Inference) -> None:
        self.waiting[request.id] = request
        self.queued[request.run.tenant] += 1

    def dequeue(self, name: RequestId) -> Inference:
        request = self.waiting.pop(name)
        self.queued[request.run.tenant] -= 1
        return request

    def victim(self, running: Collection[RequestId]) -> RequestId | None:
        """The request to preempt, of those that an engine of this line runs."""
        return self.policy.victim()
