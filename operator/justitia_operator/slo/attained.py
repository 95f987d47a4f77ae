"""How an application's objectives stand over all pods: the record in status.slo, and the condition SLOMet.

The worst objective decides: the one in the worst state, and of several the one with the least error budget.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from justitia_api.application import LLMApplication
from justitia_api.conditions import ConditionType, Reason
from justitia_api.config import BoostMode, ServiceLevelObjective, boost_mode
from justitia_api.pool import ServingPool
from justitia_api.slo import ObservedObjective
from justitia_operator.world.verdicts import Verdict
from justitia_scheduling.objectives.attainment import Attainment
from justitia_vocabulary.objectives import MetricName, ObjectiveState
from justitia_vocabulary.policies import WITHOUT_WEIGHTS, PolicyName

_STREAMED = {MetricName.TIME_TO_FIRST_TOKEN, MetricName.TIME_PER_OUTPUT_TOKEN}
_SPANS = ((86_400, "day"), (3600, "hour"), (60, "minute"))
_WORST_FIRST = (ObjectiveState.UNATTAINABLE, ObjectiveState.MISSED, ObjectiveState.AT_RISK, ObjectiveState.MET)
_HOLDS = {ObjectiveState.MET, ObjectiveState.AT_RISK}
ALL_OF_IT = 95
"""From this percentage of its tenant's service on, more of it would not help an application."""

Observed = Mapping[ServiceLevelObjective, Attainment]
"""An application's objectives, each with what all pods counted of it over its window."""


def as_recorded(objective: ServiceLevelObjective, seen: Attainment) -> ObservedObjective:
    """The rounded record for status.slo. Without values there are no figures."""
    known = seen.count > 0
    return ObservedObjective(
        metric=objective.metric,
        percentile=objective.percentile,
        state=seen.state,
        values=seen.count,
        observed_milliseconds=None if seen.value is None else round(seen.value * 1000),
        attained_percent=f"{100 * seen.share:.1f}" if known else None,
        error_budget_percent=round(100 * seen.budget) if known else None,
        fast_burn=f"{seen.fast_burn:.1f}" if known else None,
        slow_burn=f"{seen.slow_burn:.1f}" if known else None,
    )


@dataclass(frozen=True)
class Supply:
    """What an application is served with. `replicas` is how many engines would hold what is Unattainable, if known;
    `share_percent` is its share of its tenant's service over the last minute, if there was any.
    """

    replicas: int | None = None
    share_percent: int | None = None


def slo_verdict(observed: Observed, supply: Supply, application: LLMApplication, pool: ServingPool) -> Verdict:
    """The condition SLOMet."""
    known = [(each, seen, state) for each, seen in observed.items() if (state := seen.state) is not None]
    if not known:
        message = _nothing_observed(observed, application, pool)
        return Verdict(ConditionType.SLO_MET, None, Reason.NOTHING_OBSERVED, message)
    worst, seen, state = min(known, key=lambda each: (_WORST_FIRST.index(each[2]), each[1].budget))
    budget = seen.budget
    match state:
        case ObjectiveState.MET:
            said = f"{_percent(100 * budget)} of its error budget is left"
        case ObjectiveState.AT_RISK:
            left, advice = _percent(100 * budget), _advice(worst, supply, application, pool)
            said = f"{left} of its error budget is left, {_burns(worst, seen)}. {advice}"
        case ObjectiveState.MISSED:
            advice = _advice(worst, supply, application, pool)
            said = f"its error budget is overspent by {_percent(-100 * budget)}. {advice}"
        case ObjectiveState.UNATTAINABLE:
            where = f" inside the share of {_tenant(application)}" if _shares(pool) else ""
            said = f"no allowed gamma meets it{where}. {_way_out(worst, observed, supply, application, pool)}"
    others = [each.name for each, _, its in known if each is not worst and its not in _HOLDS]
    beside = f". Also not met, see status.slo: {', '.join(others)}" if others else ""
    return Verdict(
        ConditionType.SLO_MET, state in _HOLDS, Reason(state.value), f"{_figures(worst, seen)}; {said}{beside}"
    )


def _nothing_observed(observed: Observed, application: LLMApplication, pool: ServingPool) -> str:
    window = _span(max(each.window_seconds for each in observed))
    streamed = "streamed " if all(each.metric in _STREAMED for each in observed) else ""
    message = f"no {streamed}request of the application was observed in the last {window}"
    if application.spec.paused:
        return f"{message}: spec.paused is set, so changed objectives are not measured until it is unset"
    if pool.spec.paused:
        return f"{message}: {_called(pool)} is paused, so changed objectives are not measured until it is resumed"
    return message


def _figures(of: ServiceLevelObjective, seen: Attainment) -> str:
    things = "run" if of.metric is MetricName.RUN_COMPLETION else "request"
    window, bound = _span(of.window_seconds), f"the bound is {of.bound_milliseconds / 1000:,.10g} s"
    if seen.value is None:
        return f"{of.name}: {bound}, and no {things} was observed in the last {window}"
    return (
        f"{of.name} is {_rounded(seen.value, 2)} s over the last {window}, and {bound}: "
        f"{_percent(100 * (1 - seen.share))} of {seen.count:,} {things}{'s' * (seen.count > 1)} missed it, "
        f"{100 - of.percentile} % may"
    )


def _burns(of: ServiceLevelObjective, seen: Attainment) -> str:
    window = of.window_seconds
    return (
        f"which burned {seen.fast_burn:.1f} times as fast as it lasts over the last {_span(window / 12)}, "
        f"{seen.slow_burn:.1f} times over the last {_span(window / 2)}"
    )


def _advice(worst: ServiceLevelObjective, supply: Supply, application: LLMApplication, pool: ServingPool) -> str:
    """What to do, depending on whether gamma follows objectives, and inside what."""
    scheduling = pool.spec.scheduling
    mode, more = boost_mode(scheduling), f"add engines, or {_more_service(supply, application)}"
    if mode is None:
        policy = scheduling.policy
        weight = "" if policy in WITHOUT_WEIGHTS else f", raise the weight of {_tenant(application)}"
        return (
            f"{_called(pool)} has policy {policy.value}, where objectives change nothing: set policy TieredJustitia, "
            f"which meets them inside tenants' shares{weight}, or add engines"
        )
    if _shares(pool) and not worst.metric.of_requests:
        return f"Inside shares gamma changes nothing for whole runs: {more}"
    if mode is not BoostMode.SLO:
        return f"In {_called(pool)} gamma does not follow objectives: set scheduling.boost.mode to SLO, or add engines"
    if _shares(pool):
        inside = f"inside the share of {_tenant(application)}"
        return f"{_called(pool)} adjusts gamma {inside} until the objective is met; if that is too slow, {more}"
    return f"{_called(pool)} adjusts gamma until the objective is met; add engines if that is too slow"


def _way_out(
    worst: ServiceLevelObjective, observed: Observed, supply: Supply, application: LLMApplication, pool: ServingPool
) -> str:
    field = "replicas" if pool.spec.autoscaling is None else "autoscaling.maximumReplicas"
    engines = f"about {supply.replicas} would meet it ({field} of {_called(pool)})"
    if observed[worst].opposed:
        others = [each.name for each, seen in observed.items() if seen.opposed and each is not worst]
        opposing = ", ".join(others) or f"an objective of another application in {_called(pool)}"
        way = f"It asks for the opposite of {opposing}: raise boundMilliseconds of one of them"
        return way if supply.replicas is None else f"{way}, or add engines: {engines}"
    more = f"{_more_service(supply, application)}; or " if _shares(pool) else ""
    if supply.replicas is None:
        if not more:
            return "The load is not the cause, so more engines may not help: raise boundMilliseconds"
        return f"The load of all tenants is not the cause, so more engines may not help: {more}raise boundMilliseconds"
    return f"Add engines: {engines}; or {more}raise boundMilliseconds"


def _more_service(supply: Supply, application: LLMApplication) -> str:
    """How the application gets more of the engines that there are: from its tenant's others, or from other tenants."""
    share, tenant = supply.share_percent, _tenant(application)
    if share is None:
        return f"raise share.weight or the weight of {tenant}"
    if share >= ALL_OF_IT:
        return f"raise the weight of {tenant}: the application has all of its share"
    return f"raise share.weight: other applications of {tenant} had {100 - share} % of its service in the last minute"


def _shares(pool: ServingPool) -> bool:
    return pool.spec.scheduling.policy is PolicyName.TIERED_JUSTITIA


def _tenant(application: LLMApplication) -> str:
    return f"Tenant {application.spec.tenant_ref.name}"


def _called(pool: ServingPool) -> str:
    return f"ServingPool {pool.metadata.name}"


def _percent(percent: float) -> str:
    return f"{_rounded(percent, 3)} %"


def _rounded(number: float, digits: int) -> str:
    return f"{float(f'{number:.{digits}g}'):,.10g}"


def _span(seconds: float) -> str:
    """Writes a time in the largest unit of which it is a whole number: `hour` for one, `5 minutes` for several."""
    for unit, name in _SPANS:
        if seconds % unit == 0:
            return name if seconds == unit else f"{seconds / unit:,.0f} {name}s"
    return f"{seconds:,.10g} s"
