"""What pods tell of objectives, from the values that they saw."""

from collections.abc import Iterable
from typing import Any

from justitia_api.config import BoostMode, ServiceLevelObjective
from justitia_api.status import BoostStatus, ObjectiveCounts, PartCounts, PoolStatus
from justitia_operator.world.objects import Json
from justitia_scheduling.objectives.attainment import PARTS
from justitia_scheduling.objectives.sketch import Sketch
from justitia_vocabulary.objectives import MetricName
from justitia_vocabulary.policies import CostModelName, PolicyName

Values = Iterable[tuple[float, float]]
"""How long ago, as a share of the window, and the value in seconds."""

FIRST_TOKEN: Json = {"metric": "TimeToFirstToken", "percentile": 90, "boundMilliseconds": 800}
COMPLETION: Json = {"metric": "RequestCompletion", "percentile": 99, "boundMilliseconds": 20_000}
LONG: Json = FIRST_TOKEN | {"windowSeconds": 7200}


def objective(
    metric: MetricName = MetricName.TIME_TO_FIRST_TOKEN, bound: int = 1000, percentile: int = 90, window: int = 600
) -> ServiceLevelObjective:
    """An objective with its bound in milliseconds and its window in seconds."""
    return ServiceLevelObjective(metric=metric, percentile=percentile, bound_milliseconds=bound, window_seconds=window)


def declared(objective: Json) -> ServiceLevelObjective:
    """An objective as pods are configured with it."""
    return ServiceLevelObjective.model_validate(objective)


def told(objective: Json, values: Values, **more: Any) -> ObjectiveCounts:
    """What a pod tells that saw these."""
    values, bound = list(values), objective["boundMilliseconds"] / 1000
    sketch = Sketch()
    for _, value in values:
        sketch.add(value)
    parts = ([value for age, value in values if age < part] for part in PARTS)
    return ObjectiveCounts(
        namespace="apps",
        name="chat",
        objective=declared(objective),
        counted=tuple(PartCounts(total=len(part), missed=sum(value > bound for value in part)) for part in parts),
        values=tuple(sketch.state()),
        **more,
    )


def some(good: int, missed: int, *, value: float = 0.5, late: float = 2.0, age: float = 0.9) -> Values:
    """So many within the bound of FIRST_TOKEN, and so many beyond it, all of one age."""
    return [(age, value)] * good + [(age, late)] * missed


def boosted(gamma: float = 0.02, replicas: int | None = None) -> BoostStatus:
    return BoostStatus(mode=BoostMode.SLO, gamma=gamma, estimate=0.1, floor=0.01, ceiling=1.0, replicas=replicas)


def pool_status(objectives: tuple[ObjectiveCounts, ...], **more: Any) -> PoolStatus:
    """The status of a pod that serves nobody at the moment."""
    fields: dict[str, Any] = {"namespace": "apps", "generation": 1, **more}
    return PoolStatus(
        name="shared",
        policy=PolicyName.UNIBOOST,
        cost_model=CostModelName.ENGINE_TIME,
        cost_unit="seconds",
        engine_ready=True,
        draining=False,
        kv_capacity_tokens=None,
        kv_held_tokens=0,
        open_runs=0,
        window_seconds=60.0,
        gate=None,
        tenants=(),
        objectives=objectives,
        **fields,
    )
