"""The simulated engine under every policy and kind of loop: nothing lost, nothing twice, never more KV than there is.

A witness hears what the policy is told and keeps books of its own; behind a front, these are not what the engine holds.
Then: jumping over decode steps changes nothing.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from justitia_scheduling.baselines.registry import POLICIES, build_policy
from justitia_scheduling.core.cost import EngineTime, KVTokenTimeCost
from justitia_scheduling.core.model import Step
from justitia_scheduling.core.policy import Policy
from justitia_scheduling.policies import boost
from justitia_simulator import replica
from justitia_simulator.engine import Engine
from justitia_simulator.occupancy import AdmissionRule
from justitia_simulator.prediction import TRUE
from justitia_simulator.profiles import EngineProfile, Front, Preemption
from justitia_simulator.records import PolicyResults
from justitia_simulator.timing import Coefficients, LinearTiming, SeparateTiming
from justitia_simulator.workload import WorkloadRequest, WorkloadRun, WorkloadStage
from justitia_vocabulary.units import RequestId

CAPACITY = 120
# Binary fractions: sums of steps are exact, and an arrival that falls on a step's end does so however they are added.
TICK = 2**-10
WHOLE = SeparateTiming(Coefficients(100 * TICK, 10 * TICK, TICK), Coefficients(300 * TICK, 10 * TICK), 50 * TICK)
MIXED = LinearTiming(100 * TICK, 10 * TICK, 20 * TICK, TICK)
OPTIMISTIC, SWAP = AdmissionRule.OPTIMISTIC, Preemption.SWAP
PROFILES = {
    p.name: p
    for p in (
        EngineProfile("whole prompts, reserving", WHOLE, CAPACITY, max_requests=4, prefix_cache=True),
        EngineProfile(
            "whole prompts, peak", WHOLE, CAPACITY, admission=AdmissionRule.PEAK, decode_steps_per_admission=10
        ),
        EngineProfile("whole prompts, optimistic", WHOLE, CAPACITY, 4, OPTIMISTIC),
        EngineProfile("whole prompts, swapping", WHOLE, CAPACITY, 4, OPTIMISTIC, None, 5, SWAP, 10 * TICK),
        EngineProfile("mixed, reserving", MIXED, CAPACITY, 4, token_budget=16),
        EngineProfile("mixed, behind a front", MIXED, CAPACITY, 4, OPTIMISTIC, 16, front=Front(150 * TICK)),
        EngineProfile("mixed, optimistic", MIXED, CAPACITY, 4, OPTIMISTIC, 16, 6, prefix_cache=True),
        EngineProfile("mixed, keeping", MIXED, CAPACITY, 4, OPTIMISTIC, 16, 6, prefix_cache=True, keep_paused=True),
        EngineProfile("mixed, swapping", MIXED, CAPACITY, 1, OPTIMISTIC, 3, preemption=SWAP, swap_per_token=10 * TICK),
    )
}

REQUEST = st.builds(
    WorkloadRequest, st.integers(1, 60), st.integers(1, 60), st.sampled_from([None, "a", "b"]), st.integers(0, 40)
)
STAGE = st.builds(
    WorkloadStage, st.lists(REQUEST, min_size=1, max_size=3).map(tuple), st.sampled_from([0.0, 700 * TICK])
)
ARRIVAL = st.integers(0, 20_000).map(lambda ticks: ticks * TICK)
RUN = st.tuples(st.lists(STAGE, min_size=1, max_size=3), st.sampled_from("tuv"), ARRIVAL)


TURNS = st.lists(st.tuples(st.integers(1, 15), st.integers(1, 15)), min_size=2, max_size=4)


def conversation(name: str, turns: Sequence[tuple[int, int]]) -> list[WorkloadStage]:
    """Turns of so many new tokens and so many produced, each going on with all before it."""
    stages, known = [], 0
    for new, output in turns:
        prefix = name if known else None
        stages.append(WorkloadStage((WorkloadRequest(known + new, output, prefix, known, {}, name),)))
        known += new + output
    return stages


@st.composite
def workloads(draw: st.DrawFn) -> list[WorkloadRun]:
    drawn = draw(st.lists(RUN, min_size=1, max_size=8))
    for turns in draw(st.lists(TURNS, max_size=3)):
        drawn.append((conversation(f"conversation {len(drawn)}", turns), "t", draw(ARRIVAL)))
    return [WorkloadRun(f"r{i}", tenant, "app", at, tuple(s)) for i, (s, tenant, at) in enumerate(drawn)]  # type: ignore[arg-type]


class Witness:
    """Books of its own on what a policy is told. `faults` says what was wrong."""

    def __init__(self, policy: Policy, profile: EngineProfile, capacity: int) -> None:
        self.block_size, self.capacity = profile.block_size, capacity
        self.swaps = profile.preemption is SWAP
        self.in_front = profile.front is not None
        self.faults: list[str] = []
        self.prompt: dict[RequestId, int] = {}
        self.prefix: dict[RequestId, tuple[str | None, int]] = {}
        self.cached: dict[RequestId, int] = {}
        self.prefilled: defaultdict[RequestId, int] = defaultdict(int)
        self.produced: defaultdict[RequestId, int] = defaultdict(int)
        self.held: defaultdict[RequestId, int] = defaultdict(int)
        self.preemptions: Counter[RequestId] = Counter()
        self.done: set[RequestId] = set()
        self.running: set[RequestId] = set()
        self.made_room_alone: RequestId | None = None
        self.busy = 0.0
        for event in ("request_arrived", "admitted", "stepped", "preempted", "finished"):
            self._listen(policy, event)

    def _listen(self, policy: Policy, event: str) -> None:
        told, heard = getattr(policy, event), getattr(self, event)

        def both(*args: Any, **kwargs: Any) -> None:
            told(*args, **kwargs)
            heard(*args)

        setattr(policy, event, both)

    def request_arrived(self, request: Any, now: float) -> None:
        self.prompt[request.id] = request.prompt_tokens

    def admitted(self, name: RequestId, now: float, cached: int = 0) -> None:
        if name == self.made_room_alone:
            self.faults.append(f"{name} preempted though it ran alone, and nobody took its place")
        self.made_room_alone = None
        self.running.add(name)
        self.cached.setdefault(name, cached)
        self.held[name] = max(self.held[name], cached) if self.swaps else cached

    def preempted(self, name: RequestId, now: float) -> None:
        self.running.remove(name)
        self.preemptions[name] += 1
        if not self.running:
            self.made_room_alone = name

    def stepped(self, step: Step, now: float) -> None:
        self.busy += step.duration or 0.0
        if not {p.request for p in step.progress} <= self.running:
            self.faults.append("progress of a request that does not run")
        for p in step.progress:
            self.prefilled[p.request] += p.prefilled
            self.produced[p.request] += p.produced
            self.held[p.request] += p.prefilled + p.recomputed + p.produced
        if self.in_front:
            return
        shared: dict[str, int] = {}
        blocks = 0
        for name in self.running:
            own = -(-self.held[name] // self.block_size)
            prefix, tokens = self.prefix[name]
            common = min(own, min(tokens, self.prompt[name] - 1) // self.block_size) if prefix else 0
            blocks += own - common
            if prefix:
                shared[prefix] = max(shared.get(prefix, 0), common)
        if (blocks + sum(shared.values())) * self.block_size > self.capacity:
            self.faults.append(f"{blocks} blocks and prefixes {shared} held at {now}")

    def finished(self, name: RequestId, now: float) -> None:
        self.running.remove(name)
        if name in self.done:
            self.faults.append(f"{name} finished twice")
        self.done.add(name)
        if self.prefilled[name] > self.prompt[name] or (
            not self.in_front
            and not self.preemptions[name]
            and self.prefilled[name] + self.cached[name] != self.prompt[name]
        ):
            self.faults.append(f"{name}: {self.prefilled[name]} of {self.prompt[name]} prompt tokens processed")


def serve(
    runs: Sequence[WorkloadRun], profile: EngineProfile, policy: Policy, capacity: int = CAPACITY
) -> tuple[PolicyResults, Witness, Engine]:
    witness = Witness(policy, profile, capacity)
    for run in runs:
        for i, work in enumerate(run.requests):
            witness.prefix[RequestId(f"{run.id}#{i}")] = (work.prefix, work.prefix_tokens)
    engine = Engine(policy, profile, label="x", prediction=TRUE, kv_tokens=CAPACITY)

    def count(_finished: int, _total: int) -> None:
        for one in engine.replicas:
            if +one.queued != Counter(r.run.tenant for r in one.waiting.values()):
                witness.faults.append(f"{one.queued} queued, {sorted(one.waiting)} wait")

    return engine.serve(runs, on_progress=count), witness, engine


@pytest.mark.parametrize("profile", PROFILES.values(), ids=list(PROFILES))
@pytest.mark.parametrize("name", sorted(POLICIES))
@settings(max_examples=5)
@given(runs=workloads())
def test_everything_is_served_once_in_the_space_there_is(
    name: str, profile: EngineProfile, runs: list[WorkloadRun]
) -> None:
    policy = build_policy(name, EngineTime(profile.charge))
    results, witness, engine = serve(runs, profile, policy)
    assert witness.faults == []
    asked = {f"{run.id}#{i}": work.output_tokens for run in runs for i, work in enumerate(run.requests)}
    assert dict(witness.produced) == asked
    assert witness.done == set(asked)
    assert len(results.requests) == len(asked)
    preempted = sum(r.preemptions for r in results.requests)
    assert sum(witness.preemptions.values()) == (preempted if profile.front is None else 0)
    if profile.admission is not OPTIMISTIC:
        assert not witness.preemptions
    charged = sum(policy.service.values())
    if not preempted:
        assert charged == pytest.approx(witness.busy, rel=1e-9) or profile.keep_paused
    assert charged <= witness.busy + 1e-9 or profile.keep_paused
    assert not policy.requests
    assert not policy.runs
    for one in engine.replicas:
        assert one.pool.free == one.pool.total
    for r in results.requests:
        assert r.arrival <= r.ready <= r.admitted < r.first_token <= r.finished  # type: ignore[operator]


@pytest.mark.parametrize(
    ("profile", "outputs", "preempts"),
    [("whole prompts, reserving", 8, False), ("whole prompts, optimistic", 30, True), ("mixed, swapping", 30, True)],
)
def test_the_witness_sees_an_engine_that_holds_more_than_it_may(profile: str, outputs: int, preempts: bool) -> None:
    runs = [WorkloadRun(f"r{i}", "t", "a", 0.0, (WorkloadStage((WorkloadRequest(50, outputs),)),)) for i in range(2)]  # type: ignore[arg-type]
    for allowed, sound in ((CAPACITY, True), (55, False)):
        _, witness, _ = serve(runs, PROFILES[profile], build_policy("fcfs", KVTokenTimeCost()), allowed)
        assert (witness.faults == []) is sound
        assert bool(witness.preemptions) is preempts


@pytest.mark.parametrize("profile", PROFILES.values(), ids=list(PROFILES))
@pytest.mark.parametrize("name", sorted(POLICIES))
@settings(max_examples=4)
@given(runs=workloads())
def test_jumping_over_decode_steps_is_the_same_as_taking_them(
    name: str, profile: EngineProfile, runs: list[WorkloadRun]
) -> None:
    """Where everybody waiting is looked at after every step; costs are told, so that no estimate is revised midway, and
    what a token takes is not learnt, which the boosted policies do from steps of unequal duration.
    """
    outcomes = []
    for longest in (10_000, 1):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(replica, "LONGEST_JUMP", longest)
            patch.setattr(replica, "LONGEST_JUMP_WHILE_WAITING", 1)
            patch.setattr(boost, "SMOOTHING", 0.0)
            outcomes.append(serve(runs, profile, build_policy(name, KVTokenTimeCost()))[0].requests)
    jumped, stepped = (
        sorted(requests, key=lambda r: (r.run, r.stage, r.finished, r.admitted)) for requests in outcomes
    )
    assert len(jumped) == len(stepped)
    for a, b in zip(jumped, stepped, strict=True):
        assert (a.run, a.preemptions) == (b.run, b.preemptions)
        assert (a.admitted, a.first_token, a.finished) == (b.admitted, b.first_token, b.finished)
