"""A renewed key is the one that the run would have had if the present estimate had been known when it came: the start
tag as it was, never a smaller key than that, and seldom. Any history of runs of one application, told of or not.
"""

import math
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from justitia_scheduling.core.cost import KVTokenTimeCost
from justitia_scheduling.core.estimate import FIRST_ESTIMATE
from justitia_scheduling.core.gps import in_kv_token_time
from justitia_scheduling.core.model import Progress, Request, Run, Step
from justitia_scheduling.core.opened import OpenRun
from justitia_scheduling.policies import runcost
from justitia_scheduling.policies.runcost import LOOKED_AT, RENEWED_BEYOND
from justitia_scheduling.policies.tiered import TieredJustitia
from justitia_vocabulary.units import ApplicationId, RequestId, RunId, TenantId
from support.examples import examples

TENANT, APPLICATION = TenantId("t"), ApplicationId("a")


class Watched(TieredJustitia):
    """Compares every renewed key with that of a run which arrives at that moment and is told the same."""

    def __init__(self) -> None:
        super().__init__(KVTokenTimeCost())
        self.renewals: Counter[RunId] = Counter()
        self.most_at_once = 0
        self.probing = False

    def on_run_arrived(self, run: OpenRun, now: float) -> None:
        with self.compared([other for other in self.runs if other != run.id]):
            super().on_run_arrived(run, now)

    def on_run_ended(self, run: OpenRun, now: float) -> None:
        with self.compared(list(self.runs)):
            super().on_run_ended(run, now)

    @contextmanager
    def compared(self, runs: list[RunId]) -> Iterator[None]:
        if self.probing:
            yield
            return
        before = {run: self._key_and_start(run) for run in runs}
        yield
        changed = [run for run in runs if self._key_and_start(run)[0] != before[run][0]]
        self.most_at_once = max(self.most_at_once, len(changed))
        for run in changed:
            self.renewals[run] += 1
            key, start = self._key_and_start(run)
            assert key < before[run][0]
            assert start == before[run][1]
            assert key - start == pytest.approx(self._of_a_newcomer(self.runs[run]))
            assert self.runs[run].attained <= in_kv_token_time(key - start), "theta times the estimate"

    def _of_a_newcomer(self, run: OpenRun) -> float:
        """The stretched estimate of a run that arrives now, in ticks, in a copy of the policy."""
        probe = deepcopy(self)
        probe.probing = True
        name = RunId("newcomer")
        probe.run_arrived(Run(name, TENANT, APPLICATION, run.run.predicted_cost), 0)
        key, start = probe._key_and_start(name)
        return key - start

    def _key_and_start(self, run: RunId) -> tuple[int, int]:
        opened = self.runs[run]
        return self.stretched_tag(opened), self.clocks.tag(opened, 0)


def serve(policy: Watched, outputs: list[int], claims: list[float | None], at_once: int) -> None:
    """`at_once` runs are open, one request each; the first in order is served to its end, then another one comes."""
    policy.set_capacity(10**6, 0)
    coming = list(enumerate(zip(outputs, claims, strict=True)))
    produced: dict[RequestId, int] = {}
    while coming or policy.runs:
        while coming and len(policy.runs) < at_once:
            number, (output, claim) = coming.pop(0)
            run = RunId(str(number))
            policy.run_arrived(Run(run, TENANT, APPLICATION, claim), 0)
            policy.request_arrived(Request(RequestId(run), run, 100), 0)
            produced[RequestId(run)] = output
        head = policy.head()
        assert head is not None
        policy.admitted(head, 0)
        policy.stepped(Step([Progress(head, 100, produced[head])], 1.0), 0)
        policy.finished(head, 0)
        policy.run_ended(RunId(head), 0)


histories = st.lists(
    st.tuples(st.sampled_from([1, 5, 30, 200, 1000]), st.sampled_from([None, None, 100.0, 1e4, 1e6])),
    min_size=2,
    max_size=60,
)


@given(history=histories, at_once=st.integers(1, 30))
@examples(100)
def test_a_renewed_key_is_that_of_the_present_estimate_from_the_first_start_tag(
    history: list[tuple[int, float | None]], at_once: int
) -> None:
    policy = Watched()
    serve(policy, [output for output, _ in history], [claim for _, claim in history], at_once)
    assert policy.most_at_once <= LOOKED_AT
    largest, least = max(1e6, FIRST_ESTIMATE), 100.0
    most = math.log(largest / least) / math.log(RENEWED_BEYOND) + 1
    assert all(count <= most for count in policy.renewals.values())


def test_cheap_runs_after_a_large_guess_are_renewed() -> None:
    policy = Watched()
    serve(policy, [5] * 40, [None] * 40, 20)
    assert len(policy.renewals) >= 12


def test_renewing_at_every_difference_is_not_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control of the number of renewals: without the factor, the sinking mean renews a waiting run each time."""
    counts = []
    for beyond in (RENEWED_BEYOND, 1.0):
        monkeypatch.setattr(runcost, "RENEWED_BEYOND", beyond)
        policy = Watched()
        serve(policy, [1000, *range(150, 1, -1)], [None] * 150, 12)
        counts.append(policy.renewals.total())
    assert counts[1] > 2 * counts[0]
