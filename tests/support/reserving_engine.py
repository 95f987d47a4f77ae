"""A minimal host for property tests: KV space of M tokens, the whole output reserved at admission, one token of
every running request an iteration, no preemption. These are the assumptions of the bounds, and nothing else.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from justitia_scheduling.core.model import Progress, Request, Run, Step
from justitia_scheduling.core.policy import Policy
from justitia_vocabulary.units import ApplicationId, RequestId, RunId, TenantId


@dataclass(frozen=True)
class Job:
    """A request of its own run, unless `run` names one that several share. Its client may give up on the way.

    Told of the run: `predicted`, its cost, and `told`, the tokens of its prompts and of its outputs.
    """

    tenant: TenantId
    prompt: int
    output: int
    arrival: int = 0
    predicted: float | None = None
    run: str | None = None
    application: str = "a"
    gives_up_after: int | None = None
    told: tuple[float, float] | None = None
    boosted_for: float | None = None

    @property
    def size(self) -> int:
        return self.prompt + self.output


class ReservingEngine:
    """`admissions` are all of them in order, `arrived` the requests of the last tick."""

    def __init__(self, policy: Policy, capacity: int, jobs: Iterable[Job]) -> None:
        self.policy = policy
        self.capacity = capacity
        self.iteration = 0
        self.jobs = {RequestId(f"q{i}"): job for i, job in enumerate(jobs)}
        self.admissions: list[RequestId] = []
        self.arrived: list[RequestId] = []
        self._unfinished = Counter(self.run(request) for request in self.jobs)
        self._future = sorted(self.jobs, key=lambda request: self.jobs[request].arrival)
        self.produced: defaultdict[RequestId, int] = defaultdict(int)
        self.waiting: Counter[TenantId] = Counter()
        policy.set_capacity(capacity, 0)

    @property
    def done(self) -> bool:
        return not self._future and not self.policy.requests

    def run(self, request: RequestId) -> RunId:
        return RunId(self.jobs[request].run or request)

    def tick(self) -> None:
        """One iteration: arrivals, admissions, one token for every running request, departures."""
        now = float(self.iteration)
        self.arrived.clear()
        self.policy.time_passed(now)
        while self._future and self.jobs[self._future[0]].arrival <= self.iteration:
            self.arrive(self._future.pop(0), now)
        self.admit(now)
        running = list(self.policy.running)
        if running:
            self.policy.stepped(Step([self._progress(request) for request in running]), now)
        for request in running:
            job = self.jobs[request]
            if self.produced[request] in (job.output, job.gives_up_after):
                self._finish(request, now, aborted=self.produced[request] < job.output)
        self.iteration += 1

    def backlogged(self) -> set[TenantId]:
        return {tenant for tenant, requests in self.waiting.items() if requests}

    def arrive(self, request: RequestId, now: float) -> None:
        job = self.jobs[request]
        run = self.run(request)
        if run not in self.policy.runs:
            tokens = job.told or (None, None)
            self.policy.run_arrived(Run(run, job.tenant, ApplicationId(job.application), job.predicted, *tokens), now)
        output = float(job.output) if self.policy.oracle else None
        self.policy.request_arrived(Request(request, run, job.prompt, output, boosted_for=job.boosted_for), now)
        self.waiting[job.tenant] += 1
        self.arrived.append(request)

    def admit(self, now: float) -> None:
        free = self.capacity - sum(self.jobs[request].size for request in self.policy.running)
        while (head := self.policy.head()) is not None and self.jobs[head].size <= free:
            free -= self.jobs[head].size
            self.admitted(head, now)

    def admitted(self, request: RequestId, now: float) -> None:
        self.policy.admitted(request, now)
        self.admissions.append(request)
        self.waiting[self.jobs[request].tenant] -= 1

    def _progress(self, request: RequestId) -> Progress:
        first = not self.produced[request]
        self.produced[request] += 1
        return Progress(request, prefilled=self.jobs[request].prompt if first else 0, produced=1)

    def _finish(self, request: RequestId, now: float, aborted: bool) -> None:
        run = self.policy.requests[request].run
        if aborted:
            self.policy.aborted(request, now)
        else:
            self.policy.finished(request, now)
        self._unfinished[run.id] -= 1
        if not self._unfinished[run.id]:
            self.policy.run_ended(run.id, now)
