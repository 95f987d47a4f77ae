"""What is said of an objective that is missed inside a tenant's share: what would give the application more service."""

from dataclasses import replace

import pytest

from justitia_api.status import ApplicationReport, ObjectiveCounts
from justitia_operator.decide.reconcile import reconcile
from justitia_operator.world.objects import Json, Kind, Ref
from justitia_operator.world.reports import Report
from support.objectives import COMPLETION, FIRST_TOKEN, boosted, some, told
from support.resources import NOW, application, applied, condition, key, pod, pool, put, settled, tenant, world

CHAT = Ref(Kind.LLM_APPLICATION, "apps", "chat")
RUN: Json = FIRST_TOKEN | {"metric": "RunCompletion"}


def had(recent: float, tenant_recent: float) -> ApplicationReport:
    """What a pod tells of the application's service over the last minute, in seconds."""
    return ApplicationReport(
        namespace="apps",
        name="chat",
        tenant="alice",
        weight=1,
        priority=0,
        service=recent,
        recent=recent,
        tenant_recent=tenant_recent,
    )


def said(
    *pods: ApplicationReport | None,
    counts: ObjectiveCounts | None = None,
    slo: Json = FIRST_TOKEN,
    replicas: int | None = None,
) -> str:
    """The message of SLOMet in a pool of the default policy, with pods that tell this much of the service."""
    counted = told(slo, some(50, 50)) if counts is None else counts
    snapshot = settled(world(tenant(), key(), pool(scheduling={}), application(slo=[slo])))
    reports = {}
    for number, service in enumerate(pods):
        snapshot = put(snapshot, pod(f"justitia-shared-{number}"))
        reports[Ref(Kind.POD, "apps", f"justitia-shared-{number}")] = Report(
            "containerd://one",
            99,
            99,
            unit="seconds",
            objectives={("apps", "chat"): (counted,)},
            applications={} if service is None else {("apps", "chat"): service},
            boost=boosted(replicas=replicas),
        )
    snapshot = replace(snapshot, reports=reports)
    snapshot = applied(snapshot, reconcile(snapshot, CHAT, NOW))
    return condition(snapshot, Kind.LLM_APPLICATION, "chat", "SLOMet")[2]


BEGINS = "ServingPool shared adjusts gamma inside the share of Tenant alice until the objective is met"


@pytest.mark.parametrize(
    ("pods", "more"),
    [
        ([None], "raise share.weight or the weight of Tenant alice"),
        ([had(0, 0)], "raise share.weight or the weight of Tenant alice"),
        ([had(30, 30)], "raise the weight of Tenant alice: the application has all of its share"),
        (
            [had(10, 25)],
            "raise share.weight: other applications of Tenant alice had 60 % of its service in the last minute",
        ),
        (
            [had(30, 30), had(0, 30)],
            "raise share.weight: other applications of Tenant alice had 50 % of its service in the last minute",
        ),
    ],
    ids=["not reported", "no service", "alone", "beside others", "two pods"],
)
def test_missed_inside_shares_says_who_has_the_service(pods: list[ApplicationReport | None], more: str) -> None:
    assert f"{BEGINS}; if that is too slow, add engines, or {more}" in said(*pods)


def test_gamma_is_not_promised_to_runs() -> None:
    message = said(had(30, 30), slo=RUN)
    assert "Inside shares gamma changes nothing for whole runs: add engines, or raise the weight of Tenant" in message
    assert "adjusts" not in message


@pytest.mark.parametrize(
    ("replicas", "way"),
    [
        (3, "Add engines: about 3 would meet it (replicas of ServingPool shared); or raise the weight of Tenant alice"),
        (None, "The load of all tenants is not the cause, so more engines may not help: raise the weight of Tenant"),
    ],
)
def test_unattainable_is_so_inside_the_share(replicas: int | None, way: str) -> None:
    hopeless = told(COMPLETION, some(50, 50, late=40.0), unattainable=True)
    message = said(had(30, 30), counts=hopeless, slo=COMPLETION, replicas=replicas)
    assert f"no allowed gamma meets it inside the share of Tenant alice. {way}" in message
    assert message.count("boundMilliseconds") == 1
