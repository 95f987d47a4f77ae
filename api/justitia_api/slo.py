"""Whether an application gets the latency that it asks of its pool."""

from typing import Annotated

from pydantic import AwareDatetime, Field

from justitia_api.config import WINDOW_TOO_SHORT, Document
from justitia_api.resource import map_by, rules
from justitia_vocabulary.objectives import MetricName, ObjectiveState

MOST_OBJECTIVES = 8

OBJECTIVE_RULES = rules(("self.windowSeconds * 100 >= self.boundMilliseconds", WINDOW_TOO_SHORT))
OBJECTIVES = map_by("metric", "percentile")


class ObservedObjective(Document):
    """What was observed of an objective over its window, in all pods."""

    metric: Annotated[MetricName, Field(description="As in spec.slo.")]
    percentile: Annotated[int, Field(ge=1, le=99, description="As in spec.slo.")]
    state: Annotated[
        ObjectiveState | None,
        Field(
            description="Met: the objective is met. AtRisk: it is met, but its error budget is spent too fast. Missed: "
            "the budget is spent. Unattainable: it is missed, and no gamma that the pool allows meets it. Unset: no "
            "request was observed yet."
        ),
    ] = None
    values: Annotated[
        int,
        Field(
            ge=0,
            description="Number of values in the window. A request that was refused because it was expected to miss "
            "the bound (spec.beyondObjective) is one that missed it, with the value that was expected.",
        ),
    ] = 0
    observed_milliseconds: Annotated[
        int | None, Field(ge=0, description="The value at the percentile, accurate to one percent.")
    ] = None
    attained_percent: Annotated[
        str | None, Field(max_length=8, description="Percentage of the values that are within the bound.")
    ] = None
    error_budget_percent: Annotated[
        int | None,
        Field(description="What is left of the misses that the percentile allows; negative if there were more."),
    ] = None
    fast_burn: Annotated[
        str | None,
        Field(
            max_length=16,
            description="How fast the error budget is spent, over a twelfth of the window. At 1, a window spends all "
            "of it.",
        ),
    ] = None
    slow_burn: Annotated[
        str | None, Field(max_length=16, description="How fast the error budget is spent, over half of the window.")
    ] = None


class SLOStatus(Document):
    """State of the application's objectives."""

    observed_time: Annotated[
        AwareDatetime,
        Field(description="When this was observed. It is updated every five minutes, and when a state changes."),
    ]
    objectives: Annotated[
        tuple[ObservedObjective, ...],
        Field(
            max_length=MOST_OBJECTIVES,
            json_schema_extra=OBJECTIVES,
            description="The objectives in spec.slo, with what was observed.",
        ),
    ] = ()
    replicas: Annotated[
        int | None,
        Field(ge=1, description="Number of engines that would meet what is Unattainable, estimated from the load."),
    ] = None
