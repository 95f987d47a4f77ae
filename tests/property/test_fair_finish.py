"""Virtual time against an independent fluid GPS, and Theorem 1(a).

The oracle knows nothing of virtual time: it moves real time from event to event and splits the server's rate M
over the active runs by weight. The server under test serves one run at a time, the one with the smallest
virtual finish time, at the full rate, preempting between runs.
"""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from justitia_scheduling.core.gps import VirtualTime, in_kv_token_time
from justitia_vocabulary.units import RunId
from support.examples import examples
from support.fluid_gps import Arrival, gps_finishes

RATE = 100.0


def serve_one_run_at_a_time(arrivals: list[Arrival], speed: float = 1.0) -> list[float]:
    """When each run finishes if the smallest virtual finish time gets the whole server.

    `speed` multiplies what virtual time is told was delivered: anything but 1 is the mistake of units.
    """
    clock = VirtualTime()
    left: dict[int, float] = {}
    tag: dict[int, int] = {}
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
@examples(300)
def test_no_run_finishes_later_than_under_gps(arrivals: list[Arrival]) -> None:
    for ours, fair in zip(serve_one_run_at_a_time(arrivals), gps_finishes(arrivals, RATE), strict=True):
        assert ours <= fair + 1e-6


def poisson(seed: int, load: float, count: int = 120) -> list[Arrival]:
    """Mostly small runs and a few large ones; a tenant's weight changes on the way, which its later runs carry."""
    draw = random.Random(seed)
    at, arrivals = 0.0, []
    for i in range(count):
        cost = draw.choices((50.0, 400.0, 8000.0), (72, 26, 2))[0] * draw.uniform(0.5, 1.5)
        at += draw.expovariate(load * RATE / 300)
        tenant = draw.randrange(3)
        arrivals.append(Arrival(at, cost, (1.0, 2.0, 4.0)[tenant] if i < count / 2 else (3.0, 0.5, 1.0)[tenant]))
    return arrivals


@pytest.mark.parametrize("load", [0.5, 1.0, 3.0], ids="load {}".format)
@pytest.mark.parametrize("seed", range(4))
def test_no_run_of_a_long_trace_with_reweights_and_idle_times_finishes_later_than_under_gps(
    seed: int, load: float
) -> None:
    arrivals = poisson(seed, load)
    for ours, fair in zip(serve_one_run_at_a_time(arrivals), gps_finishes(arrivals, RATE), strict=True):
        assert ours <= fair + 1e-6


def test_the_traces_idle_at_half_load_and_overtake_at_three() -> None:
    """Else the test above would say little: idle times, and runs that finish well before GPS would finish them."""
    half, three = poisson(0, 0.5), poisson(0, 3.0)
    idle = half[-1].at - sum(a.cost for a in half) / RATE
    assert idle > 0.1 * half[-1].at
    ours, fair = serve_one_run_at_a_time(three), gps_finishes(three, RATE)
    assert sum(o < f - 1 for o, f in zip(ours, fair, strict=True)) > len(three) / 2


@pytest.mark.parametrize("seed", range(4))
def test_a_clock_16_times_too_fast_breaks_it_on_every_long_trace(seed: int) -> None:
    arrivals = poisson(seed, 3.0)
    late = zip(serve_one_run_at_a_time(arrivals, speed=16.0), gps_finishes(arrivals, RATE), strict=True)
    assert sum(ours > fair + 1 for ours, fair in late) > len(arrivals) / 10


def overtaken() -> list[Arrival]:
    return [Arrival(0, 1000), Arrival(1, 10)]


def test_a_virtual_clock_in_the_wrong_unit_makes_a_run_later_than_under_gps() -> None:
    """Sixteen times too fast, as if blocks were tokens, is nearly first come, first served."""
    assert serve_one_run_at_a_time(overtaken(), speed=16.0)[1] > gps_finishes(overtaken(), RATE)[1] + 1
    assert serve_one_run_at_a_time(overtaken())[1] <= gps_finishes(overtaken(), RATE)[1]


def test_three_runs_at_once_finish_at_3_5_6_under_gps_and_at_1_3_6_one_at_a_time() -> None:
    three = [Arrival(0, 100), Arrival(0, 200), Arrival(0, 300)]
    assert gps_finishes(three, RATE) == pytest.approx([3, 5, 6])
    assert serve_one_run_at_a_time(three) == pytest.approx([1, 3, 6])


@given(arrivals=arrivals_strategy)
@examples(150)
def test_the_clock_passes_a_finish_tag_when_the_fluid_server_finishes_the_run(arrivals: list[Arrival]) -> None:
    for i, at in enumerate(gps_finishes(arrivals, RATE)):
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
            tag = in_kv_token_time(clock.finish(RunId(str(i))))
    clock.advance(min(backlog, RATE * max(0.0, t - now)))
    return clock.now, tag


def test_virtual_time_stands_still_while_nobody_is_active() -> None:
    clock = VirtualTime()
    clock.arrive(RunId("a"), 10, 1)
    clock.advance(25)
    assert clock.now == 10
    clock.arrive(RunId("b"), 10, 2)
    assert in_kv_token_time(clock.finish(RunId("b"))) == 15


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


def test_a_lift_raises_the_start_tag_and_never_lowers_it() -> None:
    clock = VirtualTime()
    clock.arrive(RunId("old"), 10, 2)
    clock.arrive(RunId("other"), 100, 1)
    clock.advance(60)
    clock.lift(RunId("old"), 40)
    clock.retag(RunId("old"), 60)
    now = clock.now
    assert in_kv_token_time(clock.finish(RunId("old"))) == now - 20 + 30
    clock.lift(RunId("old"), 60)
    assert in_kv_token_time(clock.tag(RunId("old"), 0)) == now - 20


LIGHTEST, HEAVIEST = 0.001, 1000.0
"""The weights that a tenant can have (`justitia_api/resource.py`)."""
A_YEAR = 2e5 * 365 * 86_400
"""KV token-time that an engine delivers in a year, 2 * 10^5 a second."""


def order_of_heavy_runs(clock: VirtualTime, costs: list[float], each: float) -> list[RunId]:
    """Runs of a heavy tenant arrive one after the other, `each` being delivered in between. Their order by F."""
    runs = [RunId(f"heavy{i}") for i in range(len(costs))]
    for run, cost in zip(runs, costs, strict=True):
        clock.arrive(run, cost, HEAVIEST)
        clock.advance(each)
    return sorted(runs, key=clock.finish)


@given(costs=st.lists(st.floats(1, 1e6), min_size=2, max_size=12), each=st.floats(0, 1e5))
@examples(100)
def test_a_year_of_one_light_tenant_alone_changes_no_order_of_heavy_runs(costs: list[float], each: float) -> None:
    """The clock that a year has moved by 10^15 and more orders later runs as one that has just begun."""
    aged = VirtualTime()
    aged.arrive(RunId("light"), 2 * A_YEAR, LIGHTEST)
    aged.advance(A_YEAR)
    aged.clear()
    assert order_of_heavy_runs(aged, costs, each) == order_of_heavy_runs(VirtualTime(), costs, each)


def test_tags_in_floating_point_do_not_tell_heavy_runs_apart_after_that_year() -> None:
    year = A_YEAR / LIGHTEST
    assert year + 100 / HEAVIEST == year + 200 / HEAVIEST
