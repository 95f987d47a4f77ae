"""What an application got of its tenant's service, over all pods of its pool, and when to record it.

Figures change with each request. They are recorded when an application is first served, and with each resync where they
have moved by more than `SLACK`, every five minutes at most. A record stays until every pod was asked, and while no pod
reports the application: its time says how old it is. Only pods that count in the unit of most are added up.
"""

from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta

from pydantic import ValidationError

from justitia_api.application import LLMApplication, ServiceStatus
from justitia_api.pool import ServingPool
from justitia_api.status import ApplicationReport
from justitia_operator.world.names import pool_ref
from justitia_operator.world.objects import Json
from justitia_operator.world.sidecars import present_reports
from justitia_operator.world.snapshot import Snapshot

RENEWED = timedelta(minutes=5)
SLACK = 0.05
"""A record whose service is off by less than this part of it, and whose share by less than this, is not renewed."""
LONGEST_UNIT = 64


def received(world: Snapshot, application: LLMApplication, pool: ServingPool, obj: Json, now: datetime) -> Json | None:
    """The record of the application's service for its status. None if nothing was ever reported."""
    before, here = _recorded(obj), (application.metadata.namespace, application.metadata.name)
    reports = [report for _, report in present_reports(world, pool_ref(pool))]
    told = [(r.unit, r.applications[here]) for r in reports if r is not None and here in r.applications]
    unasked = any(report is None for report in reports)
    if not told or (before is not None and unasked):
        return None if before is None else _written(before)
    after = _added_up(told, now)
    return _written(before if before is not None and _stands(before, after) else after)


def begins(
    before: Mapping[tuple[str, str], ApplicationReport], after: Mapping[tuple[str, str], ApplicationReport]
) -> set[tuple[str, str]]:
    """Applications that a pod has served since its last report, and had not before."""
    return {key for key, had in after.items() if had.service and not (key in before and before[key].service)}


def _added_up(told: list[tuple[str, ApplicationReport]], now: datetime) -> ServiceStatus:
    (unit, _), *_ = Counter(unit for unit, _ in told).most_common(1)
    same = [report for its, report in told if its == unit]
    recent, of_tenant = sum(each.recent for each in same), sum(each.tenant_recent for each in same)
    return ServiceStatus(
        observed_time=now.replace(microsecond=0),
        charged=f"{sum(each.service for each in same):.1f}",
        unit=unit[:LONGEST_UNIT],
        share_percent=min(100, round(100 * recent / of_tenant)) if of_tenant else None,
    )


def _stands(before: ServiceStatus, after: ServiceStatus) -> bool:
    """Whether to keep the record."""
    if timedelta() <= after.observed_time - before.observed_time < RENEWED:
        return True
    if (before.unit, before.share_percent is None) != (after.unit, after.share_percent is None):
        return False
    moved = abs(float(after.charged) - float(before.charged)) > SLACK * float(before.charged)
    shifted = abs((after.share_percent or 0) - (before.share_percent or 0)) > 100 * SLACK
    return after.observed_time >= before.observed_time and not moved and not shifted


def _recorded(obj: Json) -> ServiceStatus | None:
    """Reads the record from the status. None if there is none, or somebody damaged it."""
    try:
        return ServiceStatus.model_validate((obj.get("status") or {}).get("service"))
    except ValidationError:
        return None


def _written(record: ServiceStatus) -> Json:
    return record.model_dump(by_alias=True, mode="json", exclude_none=True)
