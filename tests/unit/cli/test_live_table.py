"""What `justitia top` shows of objectives."""

import io

from rich.console import Console

from justitia_api.config import CostModelName, MetricName, ObjectiveConfig, PolicyName
from justitia_api.status import Counted, ObjectiveStatus, PoolStatus
from justitia_cli.live_table import objectives_table
from justitia_scheduling.sketch import Sketch


def objective(total: int, missed: int, **more: bool) -> ObjectiveStatus:
    values = Sketch()
    for number in range(total):
        values.add(2.0 if number < missed else 0.5)
    declared = ObjectiveConfig(
        metric=MetricName.TIME_TO_FIRST_TOKEN, percentile=90, bound_seconds=0.8, window_seconds=600
    )
    return ObjectiveStatus(
        namespace="ns",
        name="chat",
        objective=declared,
        counted=(Counted(total=total, missed=missed),) * 4,
        values=tuple(values.state()),
        **more,
    )


def shown(told: ObjectiveStatus) -> str:
    """The last row."""
    status = PoolStatus(
        namespace="ns",
        name="pool",
        generation=1,
        policy=PolicyName.UNIBOOST,
        cost_model=CostModelName.ENGINE_TIME,
        cost_unit="s",
        engine_ready=True,
        draining=False,
        kv_capacity_tokens=None,
        kv_reserved_tokens=0,
        open_runs=0,
        window_seconds=60,
        gate=None,
        tenants=(),
        objectives=(told,),
    )
    page = io.StringIO()
    Console(file=page, width=160).print(objectives_table(status))
    return [line for line in page.getvalue().splitlines() if line.strip()][-1].strip()


def test_a_row_tells_what_is_wanted_and_what_came_of_it() -> None:
    row = shown(objective(200, 10))
    assert row.split() == [
        "ns/chat",
        "P90",
        "of",
        "time",
        "to",
        "first",
        "token",
        "800",
        "ms",
        "502",
        "ms",
        "95.0%",
        "50%",
        "0.5",
        "Met",
    ]
    assert shown(objective(200, 30)).endswith("Missed")
    assert shown(objective(200, 30, unattainable=True)).endswith("Unattainable")


def test_before_anything_is_known_there_are_no_figures() -> None:
    assert shown(objective(0, 0)).split()[-6:] == ["800", "ms", "-", "-", "-", "-"]
