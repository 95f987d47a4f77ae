"""Virtual time against an independent fluid GPS, and Theorem 1(a).

The oracle knows nothing of virtual time: it moves real time from event to event and splits the server's rate M
over the active runs by weight. The server under test serves one run at a time, the one with the smallest
virtual finish time, at the full rate, preempting between runs.
"""

import math
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from justitia_scheduling.gps import VirtualTime
from justitia_scheduling.model import RunId

RATE = 100.0


@dataclass(frozen=True)
class Arrival:
    at: float
    cost: float
    weight: float = 1.0


def gps_finishes(arrivals: list[Arrival]) -> list[float]:
    """When each run finishes if the server is shared between the active ones by weight, at every instant."""
    left = [a.cost for a in arrivals]
    finish = [math.inf] * len(arrivals)
    t = 0.0
    while math.inf in finish:
        active = [i for i, a in enumerate(arrivals) if a.at <= t and finish[i] == math.inf]
        upcoming = min((a.at for a in arrivals if a.at > t), default=math.inf)
        if not active:
            t = upcoming
            continue
        rates = {i: RATE * arrivals[i].weight / sum(arrivals[j].weight for j in active) for i in active}
        first = min(active, key=lambda i: left[i] / rates[i])
        finishes_at = t + left[first] / rates[first]
        until = min(finishes_at, upcoming)
        for i in active:
            left[i] -= rates[i] * (until - t)
        t = until
        for i in active:
            if left[i] <= 1e-9 * arrivals[i].cost or (i == first and finishes_at <= upcoming):
                finish[i] = t
    return finish


def serve_one_run_at_a_time(arrivals: list[Arrival], speed: float = 1.0) -> list[float]:
    """When each run finishes if the smallest virtual finish time gets the whole server.

    `speed` multiplies what virtual time is told was delivered: anything but 1 is the mistake of units.
    """
    clock = VirtualTime()
    left: dict[int, float] = {}
    tag: dict[int, float] = {}
    finish = [math.inf] * len(arrivals)
    order = sorted(range(len(arrivals)), key=lambda i: arrivals[i].at)
    t = 0.0
    while order or left:
        while order and arrivals[order[0]].at <= t:
            i = order.pop(0)
            clock.arrive(RunId(str(i)), arrivals[i].cost, arrivals[i].weight)
            tag[i], left[i] = clock.finish(RunId(str(i))), arrivals[i].cost
        upcoming = arrivals[order[0]].at if order else math.inf
        if not left:
            clock.clear()
            t = upcoming
            continue
        i = min(left, key=lambda j: (tag[j], arrivals[j].at))
        step = min(left[i] / RATE, upcoming - t)
        left[i] -= RATE * step
        clock.advance(RATE * step * speed)
        t += step
        if left[i] <= 1e-9 * arrivals[i].cost:
            finish[i] = t
            del left[i]
            clock.end(RunId(str(i)), arrivals[i].cost)
    return finish


arrivals_strategy = st.lists(
    st.builds(
        Arrival,
        at=st.floats(0, 50, allow_subnormal=False).map(lambda x: round(x, 3)),
        cost=st.floats(1, 5000).map(lambda x: round(x, 3)),
        weight=st.sampled_from([0.5, 1.0, 2.0, 4.0]),
    ),
    min_size=1,
    max_size=25,
)


@given(arrivals=arrivals_strategy)
@settings(max_examples=300, deadline=None)
def test_no_run_finishes_later_than_under_gps(arrivals: list[Arrival]) -> None:
    for ours, fair in zip(serve_one_run_at_a_time(arrivals), gps_finishes(arrivals), strict=True):
        assert ours <= fair + 1e-6


def overtaken() -> list[Arrival]:
    return [Arrival(0, 1000), Arrival(1, 10)]


def test_a_virtual_clock_in_the_wrong_unit_makes_a_run_later_than_under_gps() -> None:
    """Sixteen times too fast, as if blocks were tokens, is nearly first come, first served."""
    assert serve_one_run_at_a_time(overtaken(), speed=16.0)[1] > gps_finishes(overtaken())[1] + 1
    assert serve_one_run_at_a_time(overtaken())[1] <= gps_finishes(overtaken())[1]


def test_three_runs_at_once_finish_at_3_5_6_under_gps_and_at_1_3_6_one_at_a_time() -> None:
    three = [Arrival(0, 100), Arrival(0, 200), Arrival(0, 300)]
    assert gps_finishes(three) == pytest.approx([3, 5, 6])
    assert serve_one_run_at_a_time(three) == pytest.approx([1, 3, 6])


@given(arrivals=arrivals_strategy)
@settings(max_examples=150, deadline=None)
def test_the_clock_passes_a_finish_tag_when_the_fluid_server_finishes_the_run(arrivals: list[Arrival]) -> None:
    for i, at in enumerate(gps_finishes(arrivals)):
        clock, tag = clock_at(arrivals, at, i)
        assert clock == pytest.approx(tag, rel=1e-6, abs=1e-3)


def clock_at(arrivals: list[Arrival], t: float, run: int) -> tuple[float, float]:
    """(V(t), tag of the run), the clock told of every unit of work that a busy server delivers until t."""
    clock = VirtualTime()
    tag, now, backlog = math.nan, 0.0, 0.0
    for i in sorted(range(len(arrivals)), key=lambda j: arrivals[j].at):
        until = min(arrivals[i].at, t)
        done = min(backlog, RATE * max(0.0, until - now))
        clock.advance(done)
        backlog, now = backlog - done, max(now, until)
        if arrivals[i].at <= t or i == run:
            clock.arrive(RunId(str(i)), arrivals[i].cost, arrivals[i].weight)
            backlog += arrivals[i].cost
        if i == run:
            tag = clock.finish(RunId(str(i)))
    clock.advance(min(backlog, RATE * max(0.0, t - now)))
    return clock.now, tag


def test_virtual_time_stands_still_while_nobody_is_active() -> None:
    clock = VirtualTime()
    clock.arrive(RunId("a"), 10, 1)
    clock.advance(25)
    assert clock.now == 10
    clock.arrive(RunId("b"), 10, 2)
    assert clock.finish(RunId("b")) == 15


def test_a_run_that_turns_out_longer_re_enters_and_one_that_turns_out_shorter_leaves() -> None:
    clock = VirtualTime()
    clock.arrive(RunId("long"), 10, 1)
    clock.arrive(RunId("short"), 100, 1)
    clock.advance(20)
    assert clock.now == 10
    clock.retag(RunId("long"), 30)
    clock.advance(2)
    assert clock.now == 11
    clock.end(RunId("short"), 5)
    clock.advance(2)
    assert clock.now == 13
