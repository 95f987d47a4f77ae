"""A minimal host for policies that take back what they admitted: KV space of M tokens, whole sizes reserved; a step
produces one token of every running request, its first one reads the whole prompt; a request makes way when it must.

`observed`: the policy is told how long steps took. Otherwise its notion of token times stands still.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from justitia_scheduling.core.model import Progress, Request, Run, Step
from justitia_scheduling.core.policy import Policy
from justitia_vocabulary.units import ApplicationId, RequestId, RunId, Seconds, TenantId

PER_STEP: Seconds = 0.02
PER_TOKEN: Seconds = 0.0002


@dataclass(frozen=True)
class Call:
    """A request. Its true output length is told as a prediction."""

    prompt: int
    output: int
    arrival: Seconds = 0.0

    @property
    def size(self) -> int:
        return self.prompt + self.output


class DisplacingEngine:
    def __init__(self, policy: Policy, capacity: int, calls: Iterable[Call], *, observed: bool = True) -> None:
        self.policy = policy
        self.capacity = capacity
        self.observed = observed
        self.now: Seconds = 0.0
        self.steps = 0
        self.calls = {RequestId(f"q{i}"): call for i, call in enumerate(calls)}
        self.admissions: list[RequestId] = []
        self.gave_way: Counter[RequestId] = Counter()
        self.finished: dict[RequestId, Seconds] = {}
        self.on_admission: Callable[[RequestId], None] = lambda _: None
        self._future = sorted(self.calls, key=lambda request: self.calls[request].arrival, reverse=True)
        self._produced: defaultdict[RequestId, int] = defaultdict(int)
        self._resident: set[RequestId] = set()
        policy.set_capacity(capacity, 0.0)

    def run(self, until: Seconds = float("inf")) -> "DisplacingEngine":
        while self.now < until and (self._future or self.policy.requests):
            if not self.policy.requests:
                self.now = max(self.now, self.calls[self._future[-1]].arrival)
            self.step()
        return self

    def step(self) -> None:
        while self._future and self.calls[self._future[-1]].arrival <= self.now:
            self._arrive(self._future.pop())
        self._admit()
        running = list(self.policy.running)
        progress = [self._progress(request) for request in running]
        duration = PER_STEP + PER_TOKEN * sum(p.prefilled + p.recomputed + p.produced for p in progress)
        self.now += duration
        self.steps += 1
        self.policy.stepped(Step(progress, duration if self.observed else None), self.now)
        for request in running:
            if self._produced[request] == self.calls[request].output:
                run = self.policy.requests[request].run.id
                self.policy.finished(request, self.now)
                self.policy.run_ended(run, self.now)
                self.finished[request] = self.now

    def _arrive(self, request: RequestId) -> None:
        call, run = self.calls[request], RunId(request)
        self.policy.run_arrived(Run(run, TenantId("t"), ApplicationId("a")), self.now)
        self.policy.request_arrived(Request(request, run, call.prompt, float(call.output)), self.now)

    def _admit(self) -> None:
        while (head := self.policy.head()) is not None:
            if sum(self.calls[r].size for r in self.policy.running) + self.calls[head].size <= self.capacity:
                self.on_admission(head)
                self.policy.admitted(head, self.now)
                self.admissions.append(head)
            elif (loser := self.policy.gives_way()) is not None:
                self.policy.preempted(loser, self.now)
                self.gave_way[loser] += 1
                self._resident.discard(loser)
            else:
                return

    def _progress(self, request: RequestId) -> Progress:
        produced, prompt = self._produced[request], self.calls[request].prompt
        self._produced[request] += 1
        if request in self._resident:
            return Progress(request, produced=1)
        self._resident.add(request)
        if produced:
            return Progress(request, produced=1, recomputed=prompt + produced)
        return Progress(request, prefilled=prompt, produced=1)
