"""What an application got of its tenant's service: added up over pods, recorded seldom, whatever pods say."""

from copy import deepcopy
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from justitia_api.status import ApplicationReport
from justitia_operator.decide.reconcile import reconcile
from justitia_operator.world.objects import Json, Kind, Plan, Ref
from justitia_operator.world.reports import Report
from justitia_operator.world.snapshot import Snapshot
from support.resources import NOW, applied, pod, put, settled, small_world

CHAT = Ref(Kind.LLM_APPLICATION, "apps", "chat")
MINUTE = timedelta(minutes=1)
SECONDS = "seconds"


def had(service: float, recent: float = 0.0, tenant_recent: float = 0.0) -> ApplicationReport:
    return ApplicationReport(
        namespace="apps", name="chat", tenant="alice", weight=1, priority=0, service=service, recent=recent,
        tenant_recent=tenant_recent,
    )  # fmt: skip


def reporting(snapshot: Snapshot, *pods: ApplicationReport | None, units: tuple[str, ...] = ()) -> Snapshot:
    """Each pod reports this of the application, or nothing."""
    reports = {}
    for number, each in enumerate(pods):
        name = f"justitia-shared-{number}"
        snapshot = put(snapshot, pod(name))
        told = {} if each is None else {("apps", "chat"): each}
        unit = units[number] if units else SECONDS
        reports[Ref(Kind.POD, "apps", name)] = Report("containerd://one", 99, 99, unit=unit, applications=told)
    return replace(snapshot, reports=reports)


def reconciled(snapshot: Snapshot, now: datetime = NOW) -> tuple[Snapshot, Plan]:
    plan = reconcile(snapshot, CHAT, now)
    return applied(snapshot, plan), plan


def recorded(snapshot: Snapshot) -> Json | None:
    found: Json | None = snapshot.objects[CHAT]["status"].get("service")
    return found


def seen(*pods: ApplicationReport | None, units: tuple[str, ...] = ()) -> Json | None:
    return recorded(reconciled(reporting(settled(small_world()), *pods, units=units))[0])


def test_it_is_the_sum_over_all_pods() -> None:
    assert seen(had(10.0, 2.0, 4.0), None, had(5.25, 1.0, 8.0)) == {
        "observedTime": "2026-01-02T03:04:05Z",
        "charged": "15.2",
        "unit": SECONDS,
        "sharePercent": 25,
    }


def test_nothing_is_recorded_before_a_pod_reports_it() -> None:
    assert seen() is None
    assert seen(None) is None


def test_there_is_no_share_where_the_tenant_got_nothing() -> None:
    record = seen(had(10.0))
    assert record is not None
    assert "sharePercent" not in record


def test_pods_that_count_in_another_unit_are_not_added() -> None:
    record = seen(had(10.0), had(5e9), had(20.0), units=(SECONDS, "tokens", SECONDS))
    assert record is not None
    assert (record["charged"], record["unit"]) == ("30.0", SECONDS)


@pytest.mark.parametrize(
    "told", [had(1e15, 1e15, 1.0), had(0.0, 0.0, 1e-300)], ids=["more than its tenant", "nearly nothing"]
)
def test_whatever_a_pod_says_is_recorded_within_the_limits_of_the_field(told: ApplicationReport) -> None:
    record = seen(*[told] * 5, units=("u" * 5000,) * 5)
    assert record is not None
    assert 0 <= record["sharePercent"] <= 100
    assert len(record["charged"]) <= 24
    assert len(record["unit"]) == 64


def test_it_is_renewed_every_five_minutes_at_most_and_only_if_it_moved() -> None:
    snapshot, _ = reconciled(reporting(settled(small_world()), had(100.0, 1.0, 4.0)))
    moved = reporting(snapshot, had(120.0, 1.0, 4.0))
    assert not reconciled(moved, NOW + 4 * MINUTE)[1]
    assert reconciled(moved, NOW + 6 * MINUTE)[1]
    assert not reconciled(reporting(snapshot, had(104.0, 1.1, 4.0)), NOW + 60 * MINUTE)[1]
    assert reconciled(reporting(snapshot, had(100.0, 2.0, 4.0)), NOW + 6 * MINUTE)[1]


def test_it_stays_until_every_pod_was_asked_and_while_none_reports_it() -> None:
    snapshot, _ = reconciled(reporting(settled(small_world()), had(100.0), had(100.0)))
    later = NOW + 60 * MINUTE
    for asked in (reporting(snapshot, had(7.0), had(7.0)), reporting(snapshot, None, None)):
        some = dict(list(asked.reports.items())[:1])
        assert not reconciled(replace(asked, reports=some), later)[1]
    assert not reconciled(reporting(snapshot, None, None), later)[1]
    assert reconciled(reporting(snapshot, had(7.0), had(7.0)), later)[1]


@pytest.mark.parametrize(
    "spoilt",
    [
        {},
        {"observedTime": "yesterday", "charged": "1.0", "unit": "s"},
        {"observedTime": "2026-01-02T03:04:05Z", "charged": "nan", "unit": "s"},
        {"observedTime": "2099-01-02T03:04:05Z", "charged": "100.0", "unit": SECONDS},
    ],
    ids=["empty", "no time", "no number", "from the future"],
)
def test_a_record_that_somebody_spoilt_is_written_anew(spoilt: Json) -> None:
    good, _ = reconciled(reporting(settled(small_world()), had(100.0)))
    obj = deepcopy(good.objects[CHAT])
    obj["status"]["service"] = spoilt
    assert recorded(reconciled(put(good, obj))[0]) == recorded(good)
