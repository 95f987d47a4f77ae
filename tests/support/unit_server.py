"""A server that serves one unit of work at a time and may turn to another run after each: the fluid server of the
theorems, with a real policy in it. A run of cost C is C requests without prompt and with one output token each, so of
cost 1. A unit takes one unit of time. Virtual times, keys and delays are exact to a unit.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from justitia_scheduling.core.gps import in_kv_token_time
from justitia_scheduling.core.model import Progress, Request, Run, Step
from justitia_scheduling.policies.tiered import THETA, THETA_LEARNED, TieredJustitia
from justitia_vocabulary.units import ApplicationId, RequestId, RunId, TenantId

TENANT, APPLICATION = TenantId("t"), ApplicationId("a")


@dataclass(frozen=True)
class UnitRun:
    """`cost` units asked for at `at`, or a few at a time: `trickle` says when how many more come."""

    at: int
    cost: int
    predicted: float | None = None
    tenant: TenantId = TENANT
    application: ApplicationId = APPLICATION
    trickle: Sequence[tuple[int, int]] = ()
    boosted_for: float | None = None

    @property
    def total(self) -> int:
        return self.cost + sum(count for _, count in self.trickle)

    @property
    def theta(self) -> float:
        return THETA_LEARNED if self.predicted is None else THETA


@dataclass
class Log:
    """What became of a run. `others` is what every other run had been served when this one came, `estimates` what the
    open ones were then taken to cost; `key` the largest with which it waited."""

    start: float
    arrived: int
    others: dict[int, int]
    estimates: dict[int, float]
    served: int = 0
    finished: int = -1
    key: float = 0.0
    at_finish: dict[int, int] = field(default_factory=dict)


def run_id(i: int) -> RunId:
    return RunId(f"run{i}")


class UnitServer:
    """Serves until all runs are done. `kappa` is the policy's, if it has one for all runs."""

    def __init__(self, policy: TieredJustitia, runs: Sequence[UnitRun], kappa: float | None = None) -> None:
        self.policy = policy
        self.kappa = kappa
        self.runs = runs
        self.logs: dict[int, Log] = {}
        self.time = 0
        self._asked = 0
        self._run_of: dict[RequestId, int] = {}
        self._coming = sorted(
            [(run.at, i, run.cost) for i, run in enumerate(runs)]
            + [(at, i, count) for i, run in enumerate(runs) for at, count in run.trickle]
        )
        self._left = [run.total for run in runs]

    def serve(self) -> "UnitServer":
        while self._coming or self.policy.requests:
            while self._coming and self._coming[0][0] <= self.time:
                self._ask(*self._coming.pop(0))
            if (head := self.policy.head()) is None:
                self.time = self._coming[0][0]
                continue
            self._serve(head)
        return self

    def finishes(self) -> list[int]:
        return [self.logs[i].finished for i in range(len(self.runs))]

    def _ask(self, _: int, i: int, count: int) -> None:
        run = self.runs[i]
        if i not in self.logs:
            self.policy.run_arrived(Run(run_id(i), run.tenant, run.application, run.predicted), self.time)
            start = self._start(i)
            served = {k: log.served for k, log in self.logs.items()}
            self.logs[i] = Log(start, self.time, served, {k: self._estimate(k) for k in served if self._left[k]})
        for _ in range(count):
            self._asked += 1
            request = RequestId(f"q{self._asked}")
            self._run_of[request] = i
            self.policy.request_arrived(Request(request, run_id(i), 0, boosted_for=run.boosted_for), self.time)

    def _estimate(self, i: int) -> float:
        return (self._key(i) - self._start(i)) / (self.kappa or self.runs[i].theta)

    def _start(self, i: int) -> float:
        return in_kv_token_time(self.policy.clocks.tag(self.policy.runs[run_id(i)], 0))

    def _key(self, i: int) -> float:
        return in_kv_token_time(self.policy.stretched_tag(self.policy.runs[run_id(i)]))

    def _serve(self, request: RequestId) -> None:
        i = self._run_of.pop(request)
        log = self.logs[i]
        for k, waiting in self.logs.items():
            if self._left[k]:
                waiting.key = max(waiting.key, self._key(k))
        self.policy.admitted(request, self.time)
        self.time += 1
        self.policy.stepped(Step([Progress(request, produced=1)]), self.time)
        self.policy.finished(request, self.time)
        log.served += 1
        self._left[i] -= 1
        if not self._left[i]:
            log.finished = self.time
            log.at_finish = {k: other.served for k, other in self.logs.items()}
            self.policy.run_ended(run_id(i), self.time)
