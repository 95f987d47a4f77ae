"""Tiered Justitia's decisions, each in numbers that can be checked by hand: keys, the gate, the burst. That its bounds
hold whatever happens: `tests/property`.
"""

import math

import pytest

from justitia_scheduling.core.cost import EngineTime, KVTokenTimeCost, StepTime
from justitia_scheduling.core.estimate import FIRST_ESTIMATE
from justitia_scheduling.core.gps import TICKS, in_kv_token_time
from justitia_scheduling.core.model import Progress, Request, Step, kv_token_time
from justitia_scheduling.policies.tiered import (
    BETA,
    RECENT_REQUESTS,
    THETA,
    THETA_LEARNED,
    TieredJustitia,
)
from justitia_vocabulary.policies import Knob
from justitia_vocabulary.units import RequestId, RunId
from justitia_vocabulary.waiting import WaitingReason
from support.tiered_host import WIDE, A, B, Host, tiered


@pytest.mark.parametrize(
    "values",
    [{"kappa": 0.0}, {"kappa": -1.0}, {"theta": 1.0}, {"theta": 0.5}, {"beta": -0.1}, {"heartbeat": 0.0}],
    ids=str,
)
def test_what_cannot_be_is_refused_with_its_value(values: dict[str, float]) -> None:
    ((name, value),) = values.items()
    with pytest.raises(ValueError, match=f"{name}={value}"):
        tiered(**values)


def test_without_revision_the_stretch_has_to_be_given() -> None:
    with pytest.raises(ValueError, match="theta=inf: need kappa"):
        tiered(theta=math.inf)


def test_the_least_that_can_be_is_taken() -> None:
    policy = tiered(kappa=0.001, theta=1.001, beta=0.0, burst=0.0)
    Host(policy).run("run", cost=1000.0)
    assert in_kv_token_time(policy.stretched_tag(policy.runs[RunId("run")])) == 1
    assert (policy.beta, policy.burst) == (0.0, 0.0)


# The key.


def test_a_run_is_keyed_by_its_arrival_on_its_tenants_clock_and_its_stretched_cost() -> None:
    policy = tiered(kappa=5.0, burst=WIDE)
    policy.set_weight(A, 2.0, 0)
    host = Host(policy)
    first = host.run("first", cost=10_000)
    assert in_kv_token_time(policy.stretched_tag(policy.runs[RunId("first")])) == 5 * 10_000
    host.serve(first, 10)
    host.serve(host.run("theirs", B, cost=WIDE), 10)
    elapsed = kv_token_time(100, 10)
    host.run("later", cost=300)
    assert in_kv_token_time(policy.stretched_tag(policy.runs[RunId("later")])) == elapsed + 5 * 300


def test_a_key_names_the_gate_the_tag_and_the_arrival_of_the_run_and_of_the_request() -> None:
    policy = tiered(kappa=5.0, burst=0.0)
    host = Host(policy)
    policy.set_weight(A, 2.0, 0)
    mine = host.run("mine", A, cost=WIDE)
    second = host.ask("mine", "second")
    host.run("theirs", B, cost=WIDE)
    run, request = policy.runs[RunId("mine")], policy.requests[second]
    tag = 5 * WIDE
    assert policy.key(request) == (0, 1, 0, 0, 1, tag / 2, tag * TICKS, run.sequence, request.sequence)
    assert policy.order_key(request) == {
        "gated": 0,
        "inTime": 1,
        "overdueSince": 0,
        "groupsBefore": 0,
        "unboosted": 1,
        "phiOrDistance": 5 * WIDE / 2,
    }
    host.serve(mine, 10)
    host.run("more", A, cost=WIDE)
    gated, *_, until, _, _, _ = policy.key(request)
    assert (gated, until) == (1, (5 * WIDE - kv_token_time(100, 10)) / 2)


def test_the_order_is_that_of_the_keys_and_gated_tenants_come_last() -> None:
    policy = tiered(burst=0.0)
    host = Host(policy)
    running = host.run("running", A, cost=WIDE)
    host.run("small", A, cost=1.0, prompt=1)
    host.run("large", B, cost=WIDE)
    host.run("larger", B, cost=2 * WIDE)
    assert policy.order() == ["small", "running", "large", "larger"]
    assert policy.head() == "small"
    host.serve(running, 10)
    assert policy.order() == ["large", "larger", "small"]
    assert policy.head() == "large"
    waiting = {request.id: request for request in policy.waiting()}
    assert {name: policy.why_waits(request) for name, request in waiting.items()} == {
        "small": WaitingReason.TENANT_GATED,
        "large": WaitingReason.BEHIND_OTHERS,
        "larger": WaitingReason.BEHIND_OTHERS,
    }


def test_it_reports_its_burst_and_what_the_engine_can_be_charged() -> None:
    policy = tiered()
    host = Host(policy, 10_000)
    host.serve(host.run("r", cost=WIDE), 10)
    report = policy.report()
    assert (report.burst, report.in_engine) == (
        10 * 10_000 / 4,
        10 * 10_000,
    )


# The gate.


def test_a_tenant_at_the_limit_is_served_and_one_beyond_it_waits() -> None:
    policy = tiered(burst=kv_token_time(100, 10), beta=math.inf)
    host = Host(policy)
    mine = host.run("mine", A, cost=1.0)
    host.ask("mine", "next")
    host.run("theirs", B, cost=WIDE)
    host.serve(mine, 10)
    assert not policy.gated(A)
    assert policy.head() == "next"
    host.serve(mine, 1)
    assert policy.gated(A)
    assert policy.head() == "theirs"


@pytest.mark.parametrize("weight", [1.0, 4.0])
def test_the_slack_of_a_waiting_run_is_beta_times_its_cost_for_its_weight(weight: float) -> None:
    """In the cost model's unit, which here is KV token-time: the ratio of charges to costs is one."""
    policy = tiered(burst=WIDE, beta=3.0)
    policy.set_weight(B, weight, 0)
    host = Host(policy)
    host.serve(host.run("known", B, cost=5050.0), 1)
    ahead = policy.counters[B]
    host.run("theirs", B, cost=500.0, prompt=1)
    mine = host.run("mine", A, cost=WIDE)
    host.ask("mine", "next")
    policy.admitted(mine, 0)
    slack = 3 * 500 / weight
    while policy.counters[A] <= ahead + slack:
        assert not policy.gated(A)
        host.serve(mine, 1)
    assert policy.gated(A)


def test_a_beta_without_end_leaves_the_burst_alone() -> None:
    policy = tiered(burst=1000.0, beta=math.inf)
    host = Host(policy)
    mine = host.run("mine", A, cost=1.0)
    host.ask("mine", "next")
    host.run("theirs", B, cost=1.0, prompt=1)
    host.serve(mine, 9)
    assert policy.counters[A] == kv_token_time(100, 9) == 945
    assert not policy.gated(A)


# The burst.


def test_the_burst_is_a_quarter_of_what_the_engine_can_be_charged() -> None:
    policy = tiered()
    host = Host(policy, None)
    assert (policy.burst, policy.in_engine) == (0.0, 0.0)
    policy.set_capacity(10_000, 0)
    assert (policy.burst, policy.in_engine) == (2500.0, 10_000.0)
    host.serve(host.run("r"), 12)
    assert (policy.burst, policy.in_engine) == (30_000.0, 120_000.0)


def test_the_longest_output_counts_while_it_is_recent() -> None:
    policy = tiered()
    host = Host(policy)

    def requests(count: int) -> None:
        for number in range(count):
            name = host.run(f"r{number}", prompt=1)
            host.serve(name, 1)
            host.end(name)

    long = host.run("long", prompt=1)
    host.serve(long, 50)
    host.end(long)
    requests(RECENT_REQUESTS - 1)
    assert policy.in_engine == 50 * 10_000
    requests(RECENT_REQUESTS - 1)
    assert policy.in_engine == 50 * 10_000
    host.serve(host.run("another", prompt=1), 1)
    assert policy.in_engine == 10_000
    assert policy.burst == 2500


def test_the_burst_is_the_cost_models_unless_the_knob_sets_another_one() -> None:
    policy = TieredJustitia(EngineTime(StepTime(20.0, 0.0, 0.0)))
    assert policy.burst == 400
    for burst in (22.0, 600.0, 0.0):
        policy.tune({Knob.BURST: burst})
        assert policy.burst == burst
    policy.tune({})
    assert policy.burst == 400


def test_it_reports_the_largest_slack_of_late_and_no_more_than_the_burst() -> None:
    """beta times what the first run is expected to cost, per unit of weight, once a charge is known."""
    policy = tiered(burst=900.0)
    policy.set_weight(A, 2.0, 0)
    host = Host(policy)
    assert policy.report().slack == 0
    host.serve(host.run("one", A, cost=100.0), 1)
    host.run("two", A, cost=200.0)
    assert policy.report().slack == BETA * 200 / 2
    host.run("large", B, cost=WIDE)
    assert policy.report().slack == 900


@pytest.mark.parametrize("ceiling", [-1.0, math.nan])
def test_a_burst_that_cannot_be_is_refused_and_changes_nothing(ceiling: float) -> None:
    policy = tiered()
    policy.set_capacity(10_000, 0)
    with pytest.raises(ValueError, match=f"TieredJustitia takes no burst of {ceiling:g}: it must not be negative"):
        policy.tune({Knob.BURST: ceiling})
    assert policy.burst == 2500


# The heartbeat.


def two_tenants() -> tuple[TieredJustitia, Host]:
    """An open gate; A has small runs, and B a large one, which goes behind them all."""
    policy = tiered(burst=WIDE, beta=math.inf, heartbeat=60.0)
    host = Host(policy)
    for number in range(4):
        host.run(f"small{number}", A, cost=1.0, prompt=1)
    host.run("large", B, cost=WIDE)
    return policy, host


def test_a_tenant_without_an_admission_for_the_interval_goes_first_once() -> None:
    policy, host = two_tenants()
    host.ask("large", "second")
    policy.admitted(RequestId("small0"), 10.0)
    policy.time_passed(59.9)
    assert policy.head() == "small1"
    policy.time_passed(60.0)
    assert policy.order()[:3] == ["large", "second", "small1"]
    assert policy.head() == "large"
    assert policy.order_key(policy.requests[RequestId("large")])["inTime"] == 0
    policy.admitted(RequestId("large"), 61.0)
    assert policy.head() == "small1"
    policy.admitted(RequestId("small1"), 100.0)
    policy.time_passed(120.9)
    assert policy.head() == "small2"
    policy.time_passed(121.0)
    assert policy.head() == "second"


def test_steps_tell_the_time_too() -> None:
    policy, _ = two_tenants()
    policy.admitted(RequestId("small0"), 10.0)
    policy.stepped(Step([Progress(RequestId("small0"), 1, 1)], 0.02), 60.0)
    assert policy.head() == "large"


def test_of_several_the_one_that_has_waited_longest_goes_first_though_its_run_is_the_largest() -> None:
    policy, _ = two_tenants()
    policy.admitted(RequestId("small0"), 10.0)
    policy.time_passed(100.0)
    assert policy.order() == ["large", "small1", "small2", "small3"]


def test_whoever_does_not_wait_is_not_overdue_when_it_comes_back() -> None:
    policy, _ = two_tenants()
    policy.aborted(RequestId("large"), 50.0)
    policy.time_passed(100.0)
    policy.request_arrived(Request(RequestId("again"), RunId("large"), 1), 100.0)
    assert policy.order_key(policy.requests[RequestId("again")])["inTime"] == 1
    assert policy.head() == "small0"


def test_what_is_taken_back_is_no_admission() -> None:
    policy, host = two_tenants()
    host.ask("large", "second")
    policy.admitted(RequestId("small0"), 10.0)
    policy.withdrawn(RequestId("large"), 50.0)
    policy.time_passed(60.0)
    assert policy.head() == "second"


def test_whoever_the_gate_holds_back_waits_however_long() -> None:
    policy = tiered(burst=0.0, heartbeat=60.0)
    host = Host(policy)
    running = host.run("running", A, cost=WIDE)
    host.run("waits", A, cost=1.0, prompt=1)
    host.run("other", B, cost=WIDE)
    host.serve(running, 10)
    policy.time_passed(1000.0)
    assert policy.order() == ["other", "waits"]
    assert policy.key(policy.requests[RequestId("waits")])[:2] == (1, 0)


def test_a_fixed_burst_follows_nothing() -> None:
    policy = tiered(burst=7.0)
    host = Host(policy)
    host.serve(host.run("r"), 100)
    assert policy.burst == 7


# What a run shows.


@pytest.mark.parametrize(
    ("theta", "told", "times"),
    [
        (None, FIRST_ESTIMATE, THETA),
        (None, None, THETA_LEARNED),
        (1.5, FIRST_ESTIMATE, 1.5),
        (1.5, None, 1.5),
    ],
)
def test_a_mean_is_revised_later_than_what_was_told_unless_one_theta_is_set(
    theta: float | None, told: float | None, times: float
) -> None:
    policy = TieredJustitia(KVTokenTimeCost(), theta=theta, burst=WIDE)
    host = Host(policy)
    request = host.run("run", cost=told, prompt=1000)
    policy.admitted(request, 0)
    while policy.runs[RunId("run")].attained <= times * FIRST_ESTIMATE:
        assert policy.revisions == 0
        host.serve(request, 1)
    assert policy.revisions == 1


def test_a_run_that_was_kept_open_and_asked_for_little_has_saved_nothing() -> None:
    """When it shows that it is large, its start tag is not its arrival but what it would be if it had come when what it
    has had would have been fair.
    """
    policy = tiered(kappa=2.0, burst=WIDE, theta=2.0)
    policy.set_weight(A, 4.0, 0)
    host = Host(policy)
    idle = host.run("idle", A, cost=100.0, prompt=1)
    host.serve(idle, 10)
    other = host.run("other", A, cost=WIDE)
    host.serve(other, 1000)
    run = policy.runs[RunId("idle")]
    now = in_kv_token_time(policy.clocks.now(A))
    assert policy.clocks.tag(run, 0) == 0
    host.ask("idle", "large", 10_000)
    assert in_kv_token_time(policy.clocks.tag(run, 0)) == now - 2 * run.attained
    assert policy.revisions == 1


def test_a_run_that_has_had_its_share_keeps_its_start_tag_when_it_is_keyed_again() -> None:
    policy = tiered(kappa=2.0, burst=WIDE)
    host = Host(policy)
    run = host.run("run", A, cost=100.0)
    host.serve(run, 100)
    assert policy.revisions == 1
    host.serve(run, 1000)
    assert policy.revisions == 2
    assert policy.clocks.tag(policy.runs[RunId("run")], 0) == 0


def test_a_requests_prompt_counts_with_what_a_full_engine_would_have_delivered_while_it_was_read() -> None:
    policy = TieredJustitia(EngineTime(StepTime(per_step=1.0, per_token=0.5, per_kv_token=0.0)), burst=WIDE)
    host = Host(policy, 1000)
    request = host.run("run", cost=WIDE)
    policy.admitted(request, 0)
    policy.stepped(Step([Progress(request, prefilled=100, produced=1)], 1.0), 0)
    assert policy.runs[RunId("run")].attained == kv_token_time(100, 1) + 100 * 0.5 * 1000
    assert policy.runs[RunId("run")].kv_token_time == kv_token_time(100, 1)


def test_when_no_run_of_the_tenant_is_open_the_backlog_of_its_fluid_server_is_forgotten() -> None:
    policy = tiered()
    host = Host(policy)
    request = host.run("run", cost=WIDE)
    host.serve(request, 10)
    host.end(request)
    host.run("theirs", B, cost=WIDE)
    host.serve(host.run("next", cost=WIDE), 1)
    assert in_kv_token_time(policy.clocks.now(A)) == kv_token_time(100, 1)
