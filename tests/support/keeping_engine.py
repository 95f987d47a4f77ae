"""A reserving engine that keeps each run's KV after its request. Nobody comes back for it: the most that may be kept.

KV is kept for as many iterations as it is worth. A head that does not fit takes the place of kept runs that rank behind
it, the last one first, and of any if nothing runs. The policy hears of what was kept when it is given up. `done_for`
is all that was done for a tenant, in KV token-time, by the tokens that are in the engine, not by what the policy hears.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from justitia_scheduling.core.opened import OpenRun
from justitia_scheduling.core.policy import Policy
from justitia_vocabulary.units import RequestId, RunId, TenantId, Tokens
from support.reserving_engine import Job, ReservingEngine

WORTH = 40
"""Iterations for which a run's KV is kept: rho."""


@dataclass
class Kept:
    run: OpenRun
    tokens: Tokens
    iterations: int = 0


class KeepingEngine(ReservingEngine):
    def __init__(self, policy: Policy, capacity: int, jobs: Iterable[Job]) -> None:
        super().__init__(policy, capacity, jobs)
        self.kept: dict[RunId, Kept] = {}
        self.done_for: Counter[TenantId] = Counter()

    @property
    def done(self) -> bool:
        return super().done and not self.kept

    def tick(self) -> None:
        now = float(self.iteration)
        for run, kept in list(self.kept.items()):
            if kept.iterations == WORTH:
                self._give_up(run, now)
        before = set(self.kept)
        super().tick()
        for run in before & set(self.kept):
            kept = self.kept[run]
            kept.iterations += 1
            self.done_for[kept.run.tenant] += kept.tokens

    def admit(self, now: float) -> None:
        while (head := self.policy.head()) is not None:
            while self.jobs[head].size > self._free():
                if not self._make_room(head, now):
                    return
            self.admitted(head, now)

    def _free(self) -> Tokens:
        running = sum(self.jobs[request].size for request in self.policy.running)
        return self.capacity - running - sum(kept.tokens for kept in self.kept.values())

    def _make_room(self, head: RequestId, now: float) -> bool:
        if not self.kept:
            return False
        place = self.policy.place
        last = max(self.kept, key=lambda run: place(self.kept[run].run))
        if self.policy.running and place(self.kept[last].run) <= place(self.policy.requests[head].run):
            return False
        self._give_up(last, now)
        return True

    def _give_up(self, run: RunId, now: float) -> None:
        kept = self.kept.pop(run)
        self.policy.kept(run, kept.tokens * kept.iterations, now)
        self.policy.run_ended(run, now)

    def _finish(self, request: RequestId, now: float, aborted: bool) -> None:
        job, run = self.jobs[request], self.policy.requests[request].run
        produced = self.produced[request]
        self.done_for[job.tenant] += job.prompt * produced + produced * (produced + 1) // 2
        self.policy.finished(request, now)
        self.kept[run.id] = Kept(run, job.size)
