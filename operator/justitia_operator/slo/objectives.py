"""An application's objectives over all pods of its pool, as if there were one pod, and when to record them.

Counts change with each request. Status and condition are written when a state or the spec changes, otherwise every five
minutes at most: the record and the words of the condition stay meanwhile. They also stay until every pod was asked, and
as long while no pod reports the objectives as they are declared.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from pydantic import ValidationError

from justitia_api.application import LLMApplication
from justitia_api.conditions import ConditionType
from justitia_api.config import ServiceLevelObjective
from justitia_api.pool import ServingPool
from justitia_api.slo import SLOStatus
from justitia_api.status import ObjectiveCounts
from justitia_operator.slo.attained import Observed, Supply, as_recorded, slo_verdict
from justitia_operator.world.names import pool_ref
from justitia_operator.world.objects import Json
from justitia_operator.world.sidecars import Reporting, present_reports
from justitia_operator.world.snapshot import Snapshot
from justitia_operator.world.verdicts import Verdict, recorded_verdict
from justitia_scheduling.objectives.tally import adds_up, tally
from justitia_vocabulary.objectives import MetricName, ObjectiveState

RENEWED = timedelta(minutes=5)


@dataclass(frozen=True)
class Standing:
    """A record, and the condition that goes with it."""

    record: SLOStatus
    verdict: Verdict

    @property
    def written(self) -> Json:
        return self.record.model_dump(by_alias=True, mode="json", exclude_none=True)

    @property
    def states(self) -> dict[tuple[MetricName, int], ObjectiveState | None]:
        return {(each.metric, each.percentile): each.state for each in self.record.objectives}


def standing_of(
    world: Snapshot, application: LLMApplication, pool: ServingPool, obj: Json, now: datetime
) -> Standing | None:
    """How the objectives stand. None for an application without any. `now` is truncated to whole seconds, as in
    statuses.
    """
    if not application.spec.slo:
        return None
    before, reports = _recorded(obj), present_reports(world, pool_ref(pool))
    unasked = any(report is None for _, report in reports) and not pool.spec.paused
    if before is not None and unasked:
        return before
    told = [_told(reports, application, objective) for objective in application.spec.slo]
    observed = {
        objective: tally(objective.percentile / 100, counts)
        for objective, counts in zip(application.spec.slo, told, strict=True)
    }
    replicas = _replicas(reports, observed)
    record = SLOStatus(
        observed_time=now.replace(microsecond=0),
        objectives=tuple(as_recorded(objective, seen) for objective, seen in observed.items()),
        replicas=replicas,
    )
    supply = Supply(replicas, _share_percent(reports, application))
    after = Standing(record, slo_verdict(observed, supply, application, pool))
    return before if before is not None and _stands(before, after, silent=not any(told)) else after


def _recorded(obj: Json) -> Standing | None:
    """Reads the record from the status. None if there is none for this spec, or somebody damaged it."""
    verdict = recorded_verdict(obj, ConditionType.SLO_MET)
    try:
        record = SLOStatus.model_validate((obj.get("status") or {}).get("slo"))
    except ValidationError:
        return None
    return None if verdict is None else Standing(record, verdict)


def _stands(before: Standing, after: Standing, *, silent: bool) -> bool:
    """Whether to keep the record. `silent` says that no pod reports the objectives."""
    recent = timedelta() <= after.record.observed_time - before.record.observed_time < RENEWED
    if before.states != after.states:
        return recent and silent and before.states.keys() == after.states.keys()
    return recent or (before.record.objectives, before.record.replicas, before.verdict) == (
        after.record.objectives,
        after.record.replicas,
        after.verdict,
    )


def _told(
    reports: Iterable[Reporting], application: LLMApplication, objective: ServiceLevelObjective
) -> list[ObjectiveCounts]:
    """Counts of the objective exactly as it is declared. A pod may be a configuration behind, or of another release."""
    here = (application.metadata.namespace, application.metadata.name)
    return [
        told
        for _, report in reports
        if report is not None
        for told in report.objectives.get(here, ())
        if told.objective == objective and adds_up(told)
    ]


def _share_percent(reports: Iterable[Reporting], application: LLMApplication) -> int | None:
    """Its share of its tenant's service over the last minute. None if the tenant got none."""
    here = (application.metadata.namespace, application.metadata.name)
    told = [r.applications[here] for _, r in reports if r is not None and here in r.applications]
    own, of_tenant = sum(each.recent for each in told), sum(each.tenant_recent for each in told)
    return min(100, round(100 * own / of_tenant)) if of_tenant else None


def _replicas(reports: Iterable[Reporting], observed: Observed) -> int | None:
    """How many engines should replace those that serve. None if nothing is Unattainable, or no pod knows."""
    if not any(seen.unattainable for seen in observed.values()):
        return None
    boosts = [report.boost for pod, report in reports if report is not None and not pod.leaving]
    named = [None if boost is None else boost.replicas for boost in boosts]
    return sum(each or 1 for each in named) if any(named) else None
