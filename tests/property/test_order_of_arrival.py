"""Who comes first under equal requests does not end last, on a policy that knows nothing at first or again.

N clients of one application send equal runs, one after the other, to an engine that holds H of them: a run costs a
thousandth to a thousand times the policy's first guess. A run is *overtaken* by those that came after it and are done
before it, or at the end while it still waits.

Bound for the default policy, tiered Justitia: 2 (N + H). With C the cost of a run, h = `RENEWED_BEYOND`, and n the runs
that are active in GPS:

- until H have finished, H overtake at most: all that came later and were keyed by a smaller mean;
- then the censored mean is at most 2 C, what H have attained being counted with it. Runs are keyed by at most h times
  the present mean, so one that comes later has the smaller key only while V is less than kappa (h - 1) 2 C = C ahead of
  the start tag of the run. V takes n C of work for that, which is n runs: N open ones, and those that have ended within
  the last C of V, for each of which another has come: 2 N, to first order;
- H are in the engine already, in whatever order they end.

Policies that serve one tenant by arrival are overtaken by less than H. SRJF and the paper's Justitia, which
never retags, promise nothing of the kind.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from justitia_scheduling.baselines.registry import build_policy
from justitia_scheduling.core.cost import KVTokenTimeCost
from justitia_scheduling.core.model import Progress, Request, Run, Step
from justitia_scheduling.core.policy import Policy
from justitia_scheduling.core.takeover import carry_over
from justitia_scheduling.policies import runcost
from justitia_vocabulary.units import ApplicationId, RequestId, RunId, TenantId
from support.examples import examples


@dataclass(frozen=True)
class Load:
    """`clients` send runs of `calls` requests one after the other; `slots` are what the engine holds.

    A new policy takes over when `restart` runs are done: it is told what is open, or, if `lost`, asked anew.
    """

    clients: int
    slots: int
    prompt: int
    output: int
    calls: int = 1
    restart: int | None = None
    lost: bool = False
    claim: float | None = None

    @property
    def bound(self) -> int:
        return 2 * (self.clients + self.slots)

    @property
    def runs(self) -> int:
        return 6 * self.bound


class ClosedLoop:
    """Clients that send their next run when the last one is done, until so many are done."""

    def __init__(self, make: Callable[[], Policy], load: Load) -> None:
        self._make, self._load = make, load
        self._numbers = itertools.count()
        self._open: dict[int, int] = {}
        self._produced: dict[RequestId, int] = {}
        self.done: list[int] = []
        self._begin()
        for _ in range(load.clients):
            self._come()

    def serve(self) -> "ClosedLoop":
        while len(self.done) < self._load.runs:
            self._step()
        return self

    def overtaken(self) -> int:
        """By how many the most overtaken run was: a restart without memory takes runs for new that are asked anew."""
        rank = {run: place for place, run in enumerate(self.done)}
        last = len(self.done)
        places = [rank.get(run, last) for run in range(max(self.done) + 1)]
        return max(sum(later < place for later in places[run + 1 :]) for run, place in enumerate(places))

    def _begin(self) -> None:
        self.policy = self._make()
        self.policy.set_capacity(10**6, 0)

    def _come(self) -> None:
        number = next(self._numbers)
        self._open[number] = 0
        self._announce(number)

    def _announce(self, number: int) -> None:
        run, load = RunId(str(number)), self._load
        cost = load.calls * (load.prompt * load.output + load.output**2 / 2)
        claim = None if load.claim is None else load.claim * cost
        self.policy.run_arrived(Run(run, TenantId("t"), ApplicationId("a"), claim), 0)
        self._ask(number)

    def _ask(self, number: int) -> None:
        request = RequestId(f"{number}.{self._open[number]}")
        self._produced[request] = 0
        self.policy.request_arrived(Request(request, RunId(str(number)), self._load.prompt), 0)

    def _step(self) -> None:
        policy, load = self.policy, self._load
        while len(policy.running) < load.slots and (head := policy.head()) is not None:
            policy.admitted(head, 0)
        tenth = max(1, load.output // 10)
        progress = []
        for request in policy.running:
            made = self._produced[request]
            progress.append(Progress(request, 0 if made else load.prompt, min(tenth, load.output - made)))
            self._produced[request] += progress[-1].produced
        policy.stepped(Step(progress, 1.0), 0)
        for request in [r for r in policy.running if self._produced[r] == load.output]:
            self._finish(request)

    def _finish(self, request: RequestId) -> None:
        if request not in self.policy.running:
            return
        number = int(request.split(".")[0])
        self.policy.finished(request, 0)
        self._open[number] += 1
        if self._open[number] < self._load.calls:
            self._ask(number)
            return
        self.policy.run_ended(RunId(str(number)), 0)
        self.done.append(number)
        del self._open[number]
        self._come()
        if len(self.done) == self._load.restart:
            self._restart()

    def _restart(self) -> None:
        before = self.policy
        self._begin()
        if not self._load.lost:
            carry_over(before, self.policy, 0, keep_service=True)
            return
        for number in self._open:
            self._announce(number)


loads = st.builds(
    Load,
    clients=st.integers(4, 40),
    slots=st.integers(1, 10),
    prompt=st.sampled_from([1, 50, 2000]),
    output=st.sampled_from([1, 10, 50, 1000]),
    calls=st.sampled_from([1, 1, 3]),
    restart=st.sampled_from([None, 1, 20, 60]),
    lost=st.booleans(),
    claim=st.sampled_from([None, None, 1.0, 0.01, 10.0]),
)
FRESH = Load(clients=24, slots=8, prompt=100, output=100)


def overtaken(name: str, load: Load) -> int:
    return ClosedLoop(lambda: build_policy(name, KVTokenTimeCost()), load).serve().overtaken()


@given(load=loads)
@examples(60)
def test_a_run_is_not_overtaken_without_end_by_equal_ones(load: Load) -> None:
    assert overtaken("tiered-justitia", load) <= load.bound


@pytest.mark.parametrize("name", ["fcfs", "sarathi", "parrot", "vtc", "drr", "lcf", "vtc-predicted"])
@given(load=loads)
@settings(max_examples=10)
def test_orders_by_arrival_are_overtaken_by_less_than_the_engine_holds(name: str, load: Load) -> None:
    single = Load(load.clients, load.slots, load.prompt, load.output, restart=load.restart, lost=load.lost)
    assert overtaken(name, single) < single.slots


@pytest.mark.parametrize("load", [FRESH, Load(24, 8, 2000, 40, calls=4), Load(24, 8, 100, 20, restart=60, lost=True)])
def test_without_renewal_the_first_wave_waits_until_the_load_ends(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    assert overtaken("tiered-justitia", load) <= load.bound
    monkeypatch.setattr(runcost, "LOOKED_AT", 0)
    assert overtaken("tiered-justitia", load) > load.bound


@pytest.mark.parametrize("name", ["justitia", "srjf"])
def test_the_papers_orders_promise_nothing_of_the_kind(name: str) -> None:
    assert overtaken(name, FRESH) > FRESH.bound
