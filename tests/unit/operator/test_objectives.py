"""An application's objectives: what pods count is added up, recorded seldom, and said in words."""

from collections.abc import Iterable
from copy import deepcopy
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from justitia_api.status import BoostStatus, ObjectiveCounts
from justitia_operator.decide.reconcile import reconcile
from justitia_operator.world.objects import Json, Kind, Plan, Ref
from justitia_operator.world.reports import Report
from justitia_operator.world.snapshot import Snapshot
from support.objectives import COMPLETION, FIRST_TOKEN, LONG, boosted, some, told
from support.resources import NOW, application, applied, condition, key, pod, pool, put, settled, tenant, world

CHAT = Ref(Kind.LLM_APPLICATION, "apps", "chat")
FOLLOWS = {"policy": "UniBoost", "enforcement": "Engine", "boost": {"mode": "SLO"}}
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)


def objectives_world(*slo: Json, scheduling: Json | None = None, **more: Any) -> Snapshot:
    served = pool(scheduling=FOLLOWS if scheduling is None else scheduling, paused=more.pop("pool_paused", False))
    return settled(world(tenant(), key(), served, application(slo=list(slo or [FIRST_TOKEN]), **more)))


def reporting(snapshot: Snapshot, *pods: Iterable[ObjectiveCounts], boosts: Iterable[BoostStatus] = ()) -> Snapshot:
    """Each of the pods was told all there is, and tells what it counted."""
    boosts = [*boosts, *[None] * len(pods)]
    reports = {}
    for number, counted in enumerate(pods):
        each = pod(f"justitia-shared-{number}")
        snapshot = put(snapshot, each)
        objectives = {("apps", "chat"): tuple(counted)}
        reports[Ref(Kind.POD, "apps", f"justitia-shared-{number}")] = Report(
            "containerd://one", 99, 99, objectives=objectives, boost=boosts[number]
        )
    return replace(snapshot, reports=reports)


def reconciled(snapshot: Snapshot, now: datetime = NOW) -> tuple[Snapshot, Plan]:
    plan = reconcile(snapshot, CHAT, now)
    return applied(snapshot, plan), plan


def recorded(snapshot: Snapshot) -> Json:
    return dict(snapshot.objects[CHAT]["status"]["slo"])


def met(snapshot: Snapshot) -> tuple[str, str, str]:
    return condition(snapshot, Kind.LLM_APPLICATION, "chat", "SLOMet")


def seen(*pods: Iterable[ObjectiveCounts], **more: Any) -> tuple[str, str, str]:
    return met(reconciled(reporting(objectives_world(), *pods, **more))[0])


# Whose counts.


@pytest.mark.parametrize(
    "other",
    [{"percentile": 95}, {"boundMilliseconds": 700}, {"windowSeconds": 7200}, {"metric": "RequestCompletion"}],
    ids=lambda change: next(iter(change)),
)
def test_what_a_pod_counted_of_another_objective_is_not_counted(other: Json) -> None:
    behind = told(FIRST_TOKEN | other, some(10, 90))
    assert seen([behind])[1] == "NothingObserved"
    assert seen([behind], [told(FIRST_TOKEN, some(100, 0))])[:2] == ("True", "Met")
    assert seen([told(FIRST_TOKEN, some(10, 90))])[1] == "Missed", "the same counts of the declared one do"


def test_what_a_scheduler_said_before_it_was_started_again_is_not_counted() -> None:
    snapshot = reporting(objectives_world(), [told(FIRST_TOKEN, some(10, 90))])
    (ref,) = snapshot.reports
    before = replace(snapshot.reports[ref], instance="containerd://before")
    assert met(reconciled(replace(snapshot, reports={ref: before}))[0])[1] == "NothingObserved"


def test_counts_of_other_parts_of_the_window_are_passed_over() -> None:
    strange = told(FIRST_TOKEN, some(10, 90))
    strange = strange.model_copy(update={"counted": strange.counted[:2]})
    assert seen([strange], [told(FIRST_TOKEN, some(100, 0))])[:2] == ("True", "Met")


# The condition.


def test_without_objectives_nothing_is_said_or_recorded() -> None:
    snapshot = reporting(settled(world(tenant(), key(), pool(), application())), [told(FIRST_TOKEN, some(1, 9))])
    status = reconciled(snapshot)[0].objects[CHAT]["status"]
    assert "slo" not in status
    assert "SLOMet" not in {each["type"] for each in status["conditions"]}


def test_what_was_recorded_goes_with_the_objectives() -> None:
    snapshot = reconciled(reporting(objectives_world(), [told(FIRST_TOKEN, some(100, 0))]))[0]
    assert recorded(snapshot)
    changed = deepcopy(snapshot.objects[CHAT])
    changed["spec"].pop("slo")
    changed["metadata"]["generation"] = 2
    assert "slo" not in reconciled(put(snapshot, changed))[0].objects[CHAT]["status"]


def test_met_says_by_how_much() -> None:
    status, reason, message = seen([told(FIRST_TOKEN, some(5180, 52))])
    assert (status, reason) == ("True", "Met")
    assert message == (
        "P90 of time to first token is 0.5 s over the last hour, and the bound is 0.8 s: "
        "0.994 % of 5,232 requests missed it, 10 % may; 90.1 % of its error budget is left"
    )


def test_at_risk_says_how_fast_the_budget_is_spent() -> None:
    lately = [*some(900, 0), *some(10, 90, age=0.01)]
    status, reason, message = seen([told(FIRST_TOKEN, lately)])
    assert (status, reason) == ("True", "AtRisk")
    assert "10 % of its error budget is left" in message
    assert "9.0 times as fast as it lasts over the last 5 minutes, 9.0 times over the last 30 minutes" in message


def test_missed_says_by_how_much_and_that_gamma_moves() -> None:
    status, reason, message = seen([told(FIRST_TOKEN, some(79, 21))])
    assert (status, reason) == ("False", "Missed")
    assert "P90 of time to first token is 2 s" in message
    assert "21 % of 100 requests missed it, 10 % may; its error budget is overspent by 110 %" in message
    assert "ServingPool shared adjusts gamma until the objective is met" in message


@pytest.mark.parametrize(
    ("scheduling", "says", "does_not_say"),
    [
        (
            {"policy": "VTC"},
            "policy VTC, where objectives change nothing: set policy TieredJustitia, which meets them inside tenants' "
            "shares, raise the weight of Tenant alice, or add engines",
            "adjusts gamma",
        ),
        ({"policy": "FCFS"}, "which meets them inside tenants' shares, or add engines", "weight"),
        (FOLLOWS | {"boost": {"mode": "Fixed", "gamma": "0.5"}}, "set scheduling.boost.mode to SLO", "adjusts gamma"),
        (FOLLOWS | {"boost": {"mode": "Adaptive"}}, "set scheduling.boost.mode to SLO", "adjusts gamma"),
        ({"boost": {"mode": "Adaptive"}}, "set scheduling.boost.mode to SLO", "adjusts gamma"),
        ({"policy": "UniBoost", "enforcement": "Engine"}, "adjusts gamma until the objective is met", "inside"),
    ],
    ids=["by weight", "by arrival", "fixed", "adaptive", "adaptive inside shares", "no boost"],
)
def test_missed_says_how_gamma_follows_objectives_or_how_it_would(
    scheduling: Json, says: str, does_not_say: str
) -> None:
    snapshot = reporting(objectives_world(scheduling=scheduling), [told(FIRST_TOKEN, some(50, 50))])
    message = met(reconciled(snapshot)[0])[2]
    assert says in message
    assert does_not_say not in message


HOPELESS = told(FIRST_TOKEN, some(50, 50), unattainable=True)


@pytest.mark.parametrize(
    ("boosts", "engines"),
    [
        ([boosted(replicas=3)], 3),
        ([boosted(replicas=3), boosted(replicas=2)], 5),
        ([boosted(replicas=3), boosted()], 4),
    ],
    ids=["one pod", "two pods", "one of two pods"],
)
def test_unattainable_says_how_many_engines_would_do(boosts: list[BoostStatus], engines: int) -> None:
    held = [told(FIRST_TOKEN, some(100, 0))]
    snapshot = reporting(objectives_world(), [HOPELESS], *[held] * (len(boosts) - 1), boosts=boosts)
    after, _ = reconciled(snapshot)
    status, reason, message = met(after)
    assert (status, reason) == ("False", "Unattainable")
    assert f"Add engines: about {engines} would meet it (replicas of ServingPool shared)" in message
    assert recorded(after)["replicas"] == engines


def test_an_autoscaler_is_to_be_let_add_them() -> None:
    served = pool(scheduling=FOLLOWS, autoscaling={"maximumReplicas": 2})
    snapshot = settled(world(tenant(), key(), served, application(slo=[FIRST_TOKEN])))
    message = met(reconciled(reporting(snapshot, [HOPELESS], boosts=[boosted(replicas=3)]))[0])[2]
    assert "about 3 would meet it (autoscaling.maximumReplicas of ServingPool shared)" in message


def test_unattainable_for_another_reason_than_load_asks_for_no_engines() -> None:
    status, reason, message = seen([HOPELESS], boosts=[boosted()])
    assert (status, reason) == ("False", "Unattainable")
    assert "more engines may not help: raise boundMilliseconds" in message


def test_opposing_objectives_are_named() -> None:
    snapshot = objectives_world(FIRST_TOKEN, COMPLETION)
    pulls = {"unattainable": True, "opposed": True}
    first = told(FIRST_TOKEN, some(50, 50), **pulls)
    last = told(COMPLETION, some(98, 2, late=30), **pulls)
    message = met(reconciled(reporting(snapshot, [first, last]))[0])[2]
    assert message.startswith("P90 of time to first token is 2 s")
    assert "opposite of P99 of request completion: raise boundMilliseconds of one of them" in message
    assert "Also not met, see status.slo: P99 of request completion" in message
    alone = told(COMPLETION, some(100, 0))
    message = met(reconciled(reporting(snapshot, [first, alone], boosts=[boosted(replicas=2)]))[0])[2]
    assert "opposite of an objective of another application in ServingPool shared" in message
    assert "or add engines: about 2 would" in message


def test_nothing_observed_is_neither_met_nor_missed() -> None:
    status, reason, message = seen([told(FIRST_TOKEN, [])])
    assert (status, reason) == ("Unknown", "NothingObserved")
    assert message == "no streamed request of the application was observed in the last hour"
    snapshot = objectives_world(COMPLETION | {"windowSeconds": 600}, LONG)
    assert met(reconciled(snapshot)[0])[2] == "no request of the application was observed in the last 2 hours"


def test_what_is_paused_says_why_nothing_is_observed() -> None:
    assert "spec.paused is set" in met(objectives_world(paused=True))[2]
    assert "ServingPool shared is paused" in met(objectives_world(pool_paused=True))[2]


def test_one_objective_that_nothing_is_known_of_does_not_hide_the_other() -> None:
    snapshot = objectives_world(FIRST_TOKEN, COMPLETION)
    for values, reason in ((some(100, 0), "Met"), (some(50, 50), "Missed")):
        after, _ = reconciled(reporting(snapshot, [told(FIRST_TOKEN, values), told(COMPLETION, [])]))
        assert met(after)[1] == reason
        assert recorded(after)["objectives"][1] == {"metric": "RequestCompletion", "percentile": 99, "values": 0}


def test_the_worst_objective_decides() -> None:
    snapshot = objectives_world(FIRST_TOKEN, COMPLETION)
    counted = [told(FIRST_TOKEN, some(100, 0)), told(COMPLETION, some(90, 10, late=30))]
    status, reason, message = met(reconciled(reporting(snapshot, counted))[0])
    assert (status, reason) == ("False", "Missed")
    assert message.startswith("P99 of request completion is 30 s over the last hour, and the bound is 20 s")


def test_runs_are_called_runs() -> None:
    of = {"metric": "RunCompletion", "percentile": 50, "boundMilliseconds": 90_000, "windowSeconds": 5400}
    snapshot = reporting(objectives_world(of), [told(of, some(0, 1, late=1500))])
    assert (
        "is 1,500 s over the last 90 minutes, and the bound is 90 s: 100 % of 1 run missed it"
        in (met(reconciled(snapshot)[0])[2])
    )


# What is recorded, and when.


def test_figures_are_recorded_rounded() -> None:
    lately = [*some(1180, 40), *some(171, 29, age=0.05)]
    after, _ = reconciled(reporting(objectives_world(), [told(FIRST_TOKEN, lately)]), NOW + 0.25 * SECOND)
    assert recorded(after) == {
        "observedTime": "2026-01-02T03:04:05Z",
        "objectives": [
            {
                "metric": "TimeToFirstToken",
                "percentile": 90,
                "state": "Met",
                "values": 1420,
                "observedMilliseconds": 502,
                "attainedPercent": "95.1",
                "errorBudgetPercent": 51,
                "fastBurn": "1.4",
                "slowBurn": "1.4",
            }
        ],
    }


POLLS = st.lists(st.tuples(st.integers(0, 299), st.integers(0, 99)), min_size=2, max_size=15)


def writes(snapshot: Snapshot, polls: Iterable[tuple[datetime, int]]) -> tuple[Snapshot, int]:
    """How often the status is written while so many of a hundred more miss."""
    written = 0
    for now, missed in polls:
        snapshot, plan = reconciled(reporting(snapshot, [told(FIRST_TOKEN, some(1900 - missed, missed))]), now)
        written += len(plan.statuses)
    return snapshot, written


@given(POLLS)
def test_figures_that_change_within_five_minutes_are_one_write(polls: list[tuple[int, int]]) -> None:
    times = [(NOW + second * SECOND, missed) for second, missed in sorted(polls)]
    assert writes(objectives_world(), times)[1] == 1


def test_figures_that_change_are_written_every_five_minutes_and_the_same_ones_never() -> None:
    """The negative control of the one above, and words that move with the figures."""
    at = [NOW + minutes * MINUTE for minutes in (0, 4, 6, 12, 18)]
    snapshot, written = writes(objectives_world(), zip(at, (1, 2, 3, 4, 5), strict=True))
    assert written == 4
    assert recorded(snapshot)["observedTime"] == "2026-01-02T03:22:05Z"
    assert met(snapshot)[2].startswith("P90 of time to first token is 0.5 s")
    assert "0.263 % of 1,900 requests" in met(snapshot)[2]
    assert writes(objectives_world(), ((now, 5) for now in at))[1] == 1


@pytest.mark.parametrize(("good", "missed", "state"), [(50, 50, "Missed"), (0, 0, None)])
def test_a_changed_state_is_written_and_told_at_once(good: int, missed: int, state: str | None) -> None:
    snapshot, _ = reconciled(reporting(objectives_world(), [told(FIRST_TOKEN, some(100, 0))]))
    after, plan = reconciled(reporting(snapshot, [told(FIRST_TOKEN, some(good, missed))]), NOW + SECOND)
    assert recorded(after)["objectives"][0].get("state") == state
    assert recorded(after)["observedTime"] == "2026-01-02T03:04:06Z"
    (note,) = plan.events
    assert (note.type, note.reason) == (("Warning", "Missed") if missed else ("Normal", "NothingObserved"))


def test_unattainable_is_a_warning_and_that_it_holds_again_is_none() -> None:
    snapshot, plan = reconciled(reporting(objectives_world(), [HOPELESS]))
    assert [(note.type, note.reason) for note in plan.events] == [("Warning", "Unattainable")]
    _, plan = reconciled(reporting(snapshot, [told(FIRST_TOKEN, some(100, 0))]), NOW + SECOND)
    assert [(note.type, note.reason) for note in plan.events] == [("Normal", "Met")]


def test_a_changed_spec_is_looked_at_anew() -> None:
    snapshot, _ = reconciled(reporting(objectives_world(), [told(FIRST_TOKEN, some(50, 50))]))
    stricter = deepcopy(snapshot.objects[CHAT])
    stricter["spec"]["slo"] = [FIRST_TOKEN | {"boundMilliseconds": 3000}]
    stricter["metadata"]["generation"] = 2
    assert met(reconciled(put(snapshot, stricter), NOW + SECOND)[0])[1] == "NothingObserved"


def test_until_every_pod_was_asked_what_was_recorded_stands() -> None:
    """An operator that starts knows nothing of any pod, and not for long."""
    snapshot, _ = reconciled(reporting(objectives_world(), [told(FIRST_TOKEN, some(50, 50))]))
    later = NOW + 60 * MINUTE
    assert not reconciled(replace(snapshot, reports={}), later)[1]
    half = reporting(snapshot, [told(FIRST_TOKEN, some(100, 0))], [])
    unasked = {ref: report for ref, report in half.reports.items() if ref.name.endswith("0")}
    assert not reconciled(replace(half, reports=unasked), later)[1]
    assert reconciled(half, later)[1], "once both were asked it counts"


def test_where_no_pod_tells_any_more_it_stands_for_five_minutes() -> None:
    snapshot, _ = reconciled(reporting(objectives_world(), [told(FIRST_TOKEN, some(50, 50))]))
    silent = reporting(snapshot, [])
    assert not reconciled(silent, NOW + 4 * MINUTE)[1]
    assert met(reconciled(silent, NOW + 6 * MINUTE)[0])[1] == "NothingObserved"


@pytest.mark.parametrize(
    "spoilt",
    [
        {},
        {"observedTime": "yesterday"},
        {"observedTime": "2026-01-02T03:04:05"},
        {"observedTime": "2026-01-02T03:04:05Z", "objectives": "none"},
        {"observedTime": "2026-01-02T03:04:05Z", "objectives": []},
        {"observedTime": "2026-01-02T03:04:05Z", "objectives": [FIRST_TOKEN]},
        {"observedTime": "2099-01-02T03:04:05Z", "objectives": []},
    ],
    ids=["empty", "no time", "a time without a zone", "no list", "no objectives", "a spec's", "from the future"],
)
def test_a_record_that_somebody_spoilt_is_written_anew(spoilt: Json) -> None:
    good, _ = reconciled(reporting(objectives_world(), [told(FIRST_TOKEN, some(100, 0))]))
    obj = deepcopy(good.objects[CHAT])
    obj["status"]["slo"] = spoilt
    assert recorded(reconciled(put(good, obj))[0]) == recorded(good)


def test_a_record_from_the_future_is_not_kept_till_then() -> None:
    good, _ = reconciled(reporting(objectives_world(), [told(FIRST_TOKEN, some(100, 0))]), NOW + 60 * MINUTE)
    snapshot = reporting(good, [told(FIRST_TOKEN, some(99, 1))])
    assert recorded(reconciled(snapshot)[0])["observedTime"] == "2026-01-02T03:04:05Z"


def test_a_condition_that_somebody_spoilt_is_written_anew() -> None:
    good, _ = reconciled(reporting(objectives_world(), [told(FIRST_TOKEN, some(100, 0))]))
    obj = deepcopy(good.objects[CHAT])
    for each in obj["status"]["conditions"]:
        each["reason"] = "Nonsense" if each["type"] == "SLOMet" else each["reason"]
    assert met(reconciled(put(good, obj))[0]) == met(good)
