"""Which pods are told a pool's documents, and what the conditions say of it."""

import json
from base64 import b64decode
from dataclasses import replace

import pytest

from justitia_api.conditions import Condition
from justitia_api.config import PoolDocuments, digest_of
from justitia_api.status import ApplicationReport, LearningStatus, ObjectiveCounts
from justitia_operator.decide.programming import concerned_by_figures, pods_behind
from justitia_operator.decide.reconcile import reconcile
from justitia_operator.world.objects import Json, Kind, Push, Ref
from justitia_operator.world.reports import Report
from justitia_operator.world.snapshot import Snapshot
from support.objectives import FIRST_TOKEN, boosted, some
from support.objectives import told as objective_told
from support.resources import NOW, child, pod, put, settled, small_world, tenant, with_ready_engines

POOL = Ref(Kind.SERVING_POOL, "apps", "shared")
POD = Ref(Kind.POD, "apps", "justitia-shared-1")


def serving(*pods: Json) -> Snapshot:
    snapshot = settled(small_world())
    for each in pods or (pod(),):
        snapshot = put(snapshot, each)
    return snapshot


def told(snapshot: Snapshot, **reports: Report) -> Snapshot:
    return replace(snapshot, reports={Ref(Kind.POD, "apps", name.replace("_", "-")): r for name, r in reports.items()})


def pushed(snapshot: Snapshot) -> tuple[Push, ...]:
    return reconcile(snapshot, POOL, NOW).pushes


def condition(snapshot: Snapshot, type_: str) -> tuple[str, str, str] | None:
    (patch,) = reconcile(put(snapshot, snapshot.objects[POOL] | {"status": {}}), POOL, NOW).statuses
    found = [c for c in patch.status["conditions"] if c["type"] == type_]
    return (found[0]["status"], found[0]["reason"], found[0]["message"]) if found else None


def report(generation: int | None, *, instance: str = "containerd://one", told: int = 1, problem: str = "") -> Report:
    return Report(instance, told, generation, problem)


def test_a_pod_that_nothing_is_known_of_is_told_all_it_runs_by() -> None:
    (push,) = pushed(serving())
    assert (push.pod, push.address, push.instance, push.generation) == (POD, "10.0.0.7", "containerd://one", 1)
    documents = PoolDocuments.model_validate_json(push.documents)
    assert documents.configuration.generation == documents.keys.generation == 1
    assert [entry.tenant for entry in documents.keys.keys] == ["alice"]
    assert documents.keys.keys[0].digest not in repr(push)


@pytest.mark.parametrize(
    "known",
    [report(None, instance="containerd://before"), report(1, instance="containerd://before"), report(0, told=0)],
    ids=["silent before it was started again", "told before it was started again", "told an earlier generation"],
)
def test_a_pod_is_told_again_when_it_was_started_again_or_the_generation_is_new(known: Report) -> None:
    assert pushed(told(serving(), justitia_shared_1=known))


@pytest.mark.parametrize("known", [report(1), report(None, problem="refused"), report(7)])
def test_a_pod_that_was_told_is_left_alone_whatever_it_answered(known: Report) -> None:
    """Who did not answer is asked from time to time, and told then."""
    assert not pushed(told(serving(), justitia_shared_1=known))


def test_a_pod_that_was_asked_and_does_not_run_it_is_told_again_in_the_place_of_what_it_runs() -> None:
    known = replace(report(10**6), documents="theirs", due=True)
    (push,) = pushed(told(serving(), justitia_shared_1=known))
    assert (push.generation, push.replaces) == (1, "theirs")
    written = json.loads(push.documents)
    assert push.digest == digest_of(written["configuration"], written["keys"])


@pytest.mark.parametrize("state", ["waiting", "terminated"])
def test_a_pod_whose_scheduler_does_not_run_is_not_told(state: str) -> None:
    assert not pushed(serving(pod(state=state)))


def test_a_key_that_is_taken_away_is_a_new_generation() -> None:
    before = settled(small_world())
    without = settled(put(before, tenant(apiKeys=[])))
    (push,) = pushed(put(without, pod()))
    documents = PoolDocuments.model_validate_json(push.documents)
    assert (documents.keys.keys, documents.keys.generation, documents.configuration.generation) == ((), 2, 2)


@pytest.mark.parametrize(
    ("known", "status", "reason", "says"),
    [
        ({}, "False", "Outdated", "has not been asked yet"),
        ({"justitia_shared_1": report(1)}, "True", "Programmed", "configuration 1"),
        ({"justitia_shared_1": report(0)}, "False", "Outdated", "justitia-shared-1 has 0"),
        ({"justitia_shared_1": report(10**6)}, "False", "Overridden", "justitia-shared-1 has 1000000"),
        ({"justitia_shared_1": replace(report(1), wanted="ours", documents="theirs")}, "False", "Overridden", "again"),
        ({"justitia_shared_1": replace(report(1), wanted="ours", documents="ours")}, "True", "Programmed", "every pod"),
        ({"justitia_shared_1": report(None, problem="refused")}, "False", "NotReachable", "justitia-shared-1: refused"),
    ],
)
def test_programmed_says_where_the_generation_is_not_in_effect(
    known: dict[str, Report], status: str, reason: str, says: str
) -> None:
    found = condition(told(serving(), **known), "Programmed")
    assert found is not None
    assert found[:2] == (status, reason)
    assert says in found[2]


def test_a_pod_that_goes_and_answers_no_more_is_not_waited_for() -> None:
    """An operator that starts while a pod goes must not take that for news."""
    going = pod("justitia-shared-2")
    going["metadata"]["deletionTimestamp"] = "2026-11-22T00:00:00Z"
    both, silent = serving(pod(), going), report(None, problem="refused")
    for known, wanted in (
        ({"justitia_shared_1": report(1), "justitia_shared_2": silent}, "Programmed"),
        ({"justitia_shared_1": silent, "justitia_shared_2": report(1)}, "NotReachable"),
        ({"justitia_shared_1": report(1), "justitia_shared_2": report(0)}, "Outdated"),
        ({"justitia_shared_1": report(1)}, "Outdated"),
    ):
        found = condition(told(both, **known), "Programmed")
        assert found is not None
        assert found[1] == wanted
    assert pods_behind(told(both, justitia_shared_1=report(1), justitia_shared_2=silent)) == 0


def test_without_pods_nothing_is_programmed() -> None:
    found = condition(settled(small_world()), "Programmed")
    assert found is not None
    assert found[:2] == ("False", "NoPods")


def test_many_silent_pods_are_counted_and_some_named() -> None:
    names = [f"justitia-shared-{i}" for i in range(9)]
    reports = {name.replace("-", "_"): report(None, problem="away") for name in names}
    found = condition(told(serving(*map(pod, names)), **reports), "Programmed")
    assert found is not None
    assert "9 of 9" in found[2]
    assert "and 6 more" in found[2]


def test_the_worst_of_the_pods_policies_is_the_pools() -> None:
    def policy(status: str, reason: str) -> Condition:
        return Condition.model_validate(
            {"type": "PolicyInEffect", "status": status, "reason": reason, "message": f"it is {status}"}
            | {"observedGeneration": 1, "lastTransitionTime": NOW}
        )

    good = replace(report(1), policy=policy("True", "Configured"))
    bad = replace(report(1), policy=policy("False", "PolicyFailed"))
    both = serving(pod("justitia-shared-1"), pod("justitia-shared-2"))
    assert condition(told(both, justitia_shared_1=good, justitia_shared_2=bad), "PolicyInEffect") == (
        ("False", "PolicyFailed", "justitia-shared-2: it is False")
    )
    found = condition(told(both, justitia_shared_1=good, justitia_shared_2=good), "PolicyInEffect")
    assert found is not None
    assert found[:2] == ("True", "Configured")
    before = replace(bad, instance="containerd://before")
    assert condition(told(both, justitia_shared_1=good, justitia_shared_2=before), "PolicyInEffect") == found, (
        "what was said before the scheduler was started again does not count"
    )
    assert condition(told(both, justitia_shared_1=report(1)), "PolicyInEffect") is None


def learned(samples: int) -> dict[tuple[str, str], LearningStatus]:
    return {("apps", "chat"): LearningStatus(namespace="apps", name="chat", samples=samples)}


def counted(missed: int) -> dict[tuple[str, str], tuple[ObjectiveCounts, ...]]:
    return {("apps", "agent"): (objective_told(FIRST_TOKEN, some(90, missed)),)}


CHAT, AGENT = (Ref(Kind.LLM_APPLICATION, "apps", name) for name in ("chat", "agent"))


def had(service: float) -> ApplicationReport:
    return ApplicationReport(namespace="apps", name="any", tenant="alice", weight=1, priority=0, service=service)


@pytest.mark.parametrize(
    ("after", "concerned"),
    [
        ({"learning": learned(6)}, {CHAT}),
        ({"objectives": counted(2)}, {AGENT}),
        ({"objectives": {}}, {AGENT}),
        ({"boost": boosted(0.3)}, {POOL}),
        ({"learning": learned(6), "objectives": counted(2), "boost": boosted(0.3)}, {CHAT, AGENT, POOL}),
        ({"applications": {("apps", "chat"): had(2.0), ("apps", "agent"): had(0.0)}}, set()),
        ({"applications": {("apps", "chat"): had(1.0), ("apps", "agent"): had(3.0)}}, {AGENT}),
        ({}, set()),
        ({"generation": 2, "boost": boosted(0.3)}, None),
        ({"generation": None, "problem": "refused", "objectives": {}}, None),
    ],
    ids=[
        "learned",
        "counted",
        "not counted any more",
        "gamma",
        "all of it",
        "served on",
        "first served",
        "nothing",
        "a generation",
        "silence",
    ],
)
def test_figures_concern_whom_they_are_about_and_everything_else_all(
    after: dict[str, object], concerned: set[Ref] | None
) -> None:
    before = replace(
        report(1),
        learning=learned(5),
        objectives=counted(1),
        boost=boosted(0.2),
        applications={("apps", "chat"): had(1.0)},
    )
    assert concerned_by_figures(pod(), before, replace(before, **after)) == concerned  # type: ignore[arg-type]


def test_a_pod_is_told_what_the_objects_hold() -> None:
    """Those that come with its volumes: it would take another spelling for another document."""
    snapshot = serving()
    (push,) = pushed(snapshot)
    written = json.loads(push.documents)
    assert written["configuration"] == json.loads(child(snapshot, Kind.CONFIG_MAP)["data"]["pool.json"])
    assert written["keys"] == json.loads(b64decode(child(snapshot, Kind.SECRET)["data"]["keys.json"]))


def test_pods_that_lag_behind_are_counted() -> None:
    names = [f"justitia-shared-{number}" for number in range(1, 5)]
    snapshot = serving(*map(pod, names))
    assert pods_behind(snapshot) == 4
    known = {"justitia_shared_1": report(1), "justitia_shared_2": report(0), "justitia_shared_3": report(None)}
    assert pods_behind(told(snapshot, **known)) == 3


@pytest.mark.parametrize("generation", [1, None], ids=["an earlier one", "no answer"])
def test_pods_of_a_pool_of_which_nothing_is_recorded_are_behind(generation: int | None) -> None:
    snapshot = serving()
    unknown = put(snapshot, {key: value for key, value in snapshot.objects[POOL].items() if key != "status"})
    assert pods_behind(told(unknown, justitia_shared_1=report(generation))) == 1


@pytest.mark.parametrize(("other", "told_of"), [("True", "Unknown"), ("False", "False")])
def test_a_policy_of_which_a_pod_does_not_know_is_worse_than_one_in_effect_and_better_than_none(
    other: str, told_of: str
) -> None:
    def policy(status: str) -> Report:
        told = {"type": "PolicyInEffect", "status": status, "reason": "Other", "message": f"it is {status}"}
        return replace(
            report(1), policy=Condition.model_validate(told | {"observedGeneration": 1, "lastTransitionTime": NOW})
        )

    both = serving(pod("justitia-shared-1"), pod("justitia-shared-2"))
    found = condition(
        told(both, justitia_shared_1=policy("Unknown"), justitia_shared_2=policy(other)), "PolicyInEffect"
    )
    assert found is not None
    assert found[0] == "False"
    assert f"it is {told_of}" in found[2]


@pytest.mark.parametrize("count", [1, 3])
def test_where_all_pods_are_named_no_more_are_counted(count: int) -> None:
    names = [f"justitia-shared-{number}" for number in range(1, count + 1)]
    reports = {name.replace("-", "_"): report(0) for name in names}
    found = condition(told(serving(*map(pod, names)), **reports), "Programmed")
    assert found is not None
    assert found[2].endswith(f"justitia-shared-{count} has 0")


def test_a_pool_whose_policy_failed_in_an_engine_is_not_fair() -> None:
    failed = {"type": "PolicyInEffect", "status": "False", "reason": "PolicyFailed", "message": "it raised"}
    known = replace(
        report(1), policy=Condition.model_validate(failed | {"observedGeneration": 1, "lastTransitionTime": NOW})
    )
    warm = put(with_ready_engines(settled(small_world())), pod())
    found = condition(told(warm, justitia_shared_1=known), "PoolFairness")
    assert found is not None
    assert found[:2] == ("False", "PolicyFailed")
