"""Conditions keep their time until they turn, and an Event says that they did."""

from typing import Any

import pytest

from justitia_api.conditions import ConditionType, Reason
from justitia_operator.decide.status import plan_failure, plan_status
from justitia_operator.world.objects import EventType, Json, Plan
from justitia_operator.world.verdicts import LONGEST_MESSAGE, Verdict
from support.resources import LATER, NOW, resource

ACCEPTED = Verdict(ConditionType.ACCEPTED, True, Reason.ACCEPTED, "fine")
MISTAKE = Verdict(ConditionType.ACCEPTED, False, Reason.INVALID_SPEC, "a mistake")
STARTING = Verdict(ConditionType.READY, False, Reason.POOL_NOT_READY, "starting")


def tenant(status: Json | None = None, **metadata: Any) -> Json:
    made = resource("Tenant", "alice", {}, **metadata)
    return made if status is None else made | {"status": status}


def written(plan: Plan) -> Json:
    """The only status that is written."""
    (patch,) = plan.statuses
    return patch.status


def told(plan: Plan) -> list[tuple[EventType, str]]:
    return [(note.type, note.message) for note in plan.events]


def test_a_status_says_which_generation_it_is_of_and_since_when_a_condition_holds() -> None:
    plan = plan_status(tenant(generation=3), (ACCEPTED,), {"keys": 2, "weights": [], "endpoint": None}, NOW)
    assert written(plan) == {
        "keys": 2,
        "observedGeneration": 3,
        "conditions": [
            {
                "type": "Accepted",
                "status": "True",
                "reason": "Accepted",
                "message": "fine",
                "observedGeneration": 3,
                "lastTransitionTime": "2026-01-02T03:04:05Z",
            }
        ],
    }
    assert plan_status(tenant(written(plan), generation=3), (ACCEPTED,), {"keys": 2}, LATER) == Plan()


def test_an_object_without_a_generation_is_of_the_first() -> None:
    made = tenant()
    del made["metadata"]["generation"]
    status = written(plan_status(made, (ACCEPTED,), {}, NOW))
    assert status["observedGeneration"] == status["conditions"][0]["observedGeneration"] == 1
    assert written(plan_failure(made, "KeyError", NOW))["conditions"][0]["observedGeneration"] == 1


@pytest.mark.parametrize(
    ("verdict", "since"),
    [
        (Verdict(ConditionType.ACCEPTED, True, Reason.PAUSED, "paused"), "2026-01-02T03:04:05Z"),
        (MISTAKE, "2026-01-02T04:04:05Z"),
        (Verdict(ConditionType.ACCEPTED, None, Reason.ACCEPTED, "unknown"), "2026-01-02T04:04:05Z"),
    ],
    ids=["another reason", "turned", "not known any more"],
)
def test_a_condition_keeps_its_time_until_it_turns(verdict: Verdict, since: str) -> None:
    before = written(plan_status(tenant(), (ACCEPTED,), {}, NOW))
    plan = plan_status(tenant(before), (verdict,), {}, LATER)
    assert written(plan)["conditions"][0]["lastTransitionTime"] == since
    assert len(plan.events) == 1


def test_a_longer_message_is_cut() -> None:
    long = Verdict(ConditionType.ACCEPTED, True, Reason.ACCEPTED, "x" * (LONGEST_MESSAGE + 1))
    assert written(plan_status(tenant(), (long,), {}, NOW))["conditions"][0]["message"] == "x" * LONGEST_MESSAGE


def test_of_a_new_resource_only_mistakes_are_events() -> None:
    assert told(plan_status(tenant(), (ACCEPTED, STARTING), {}, NOW)) == []
    assert told(plan_status(tenant(), (MISTAKE, STARTING), {}, NOW)) == [
        (EventType.WARNING, "Accepted=False: a mistake")
    ]


@pytest.mark.parametrize(
    ("verdict", "type_"),
    [
        (Verdict(ConditionType.READY, True, Reason.SERVING, "served"), EventType.NORMAL),
        (Verdict(ConditionType.READY, False, Reason.REFS_NOT_RESOLVED, "no key"), EventType.NORMAL),
        (Verdict(ConditionType.READY, True, Reason.MISSED, "missed"), EventType.WARNING),
    ],
    ids=["it turned", "it does not hold, for another reason", "an objective is missed"],
)
def test_a_warning_is_what_somebody_should_look_at(verdict: Verdict, type_: EventType) -> None:
    before = written(plan_status(tenant(), (STARTING,), {}, NOW))
    (note,) = plan_status(tenant(before), (verdict,), {}, LATER).events
    assert (note.type, note.reason) == (type_, verdict.reason)


def test_the_same_condition_with_another_message_is_no_event() -> None:
    before = written(plan_status(tenant(), (STARTING,), {}, NOW))
    again = Verdict(ConditionType.READY, False, Reason.POOL_NOT_READY, "starting for a minute")
    plan = plan_status(tenant(before), (again,), {}, LATER)
    assert (written(plan)["conditions"][0]["message"], plan.events) == ("starting for a minute", ())


def test_a_failure_is_a_condition_beside_the_others() -> None:
    before = written(plan_status(tenant(generation=2), (ACCEPTED, STARTING), {"keys": 1}, NOW))
    failed = plan_failure(tenant(before, generation=3), "KeyError", LATER)
    status = written(failed)
    assert status["conditions"][:2] == before["conditions"]
    assert status["conditions"][2] == {
        "type": "Reconciled",
        "status": "False",
        "reason": "OperatorFailed",
        "message": "KeyError",
        "observedGeneration": 3,
        "lastTransitionTime": "2026-01-02T04:04:05Z",
    }
    assert (status["keys"], status["observedGeneration"]) == (1, 2), "nothing else is decided about it"
    ((type_, message),) = told(failed)
    assert (type_, message) == (EventType.WARNING, "KeyError")
    assert failed.events[0].reason == "OperatorFailed"


def test_a_failure_is_an_event_once() -> None:
    status = written(plan_failure(tenant(), "KeyError", NOW))
    assert status["conditions"][0]["observedGeneration"] == 1
    assert plan_failure(tenant(status), "KeyError", LATER) == Plan()
    other = plan_failure(tenant(status), "ValueError", LATER)
    assert [c["message"] for c in written(other)["conditions"]] == ["ValueError"]
    assert written(other)["conditions"][0]["lastTransitionTime"] == "2026-01-02T03:04:05Z"
    assert other.events == ()


def test_a_failure_of_a_resource_whose_status_is_empty_is_told() -> None:
    for status in ({}, {"conditions": None}):
        assert [c["type"] for c in written(plan_failure(tenant(status), "KeyError", NOW))["conditions"]] == [
            "Reconciled"
        ]
