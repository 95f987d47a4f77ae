"""What `justitia top` shows of tenants, applications and objectives."""

import io

from rich.console import Console

from justitia_api.status import ApplicationReport, ObjectiveCounts, TenantReport
from justitia_cli.live_table import applications_table, live_table, objectives_table
from justitia_vocabulary.policies import PolicyName
from support.objectives import FIRST_TOKEN, pool_status, some, told


def objective(total: int, missed: int, **more: bool) -> ObjectiveCounts:
    """Counts of values that have just arrived."""
    return told(FIRST_TOKEN, some(total - missed, missed, age=0.0), **more)


def shown(seen: ObjectiveCounts) -> str:
    """The last row."""
    page = io.StringIO()
    Console(file=page, width=160).print(objectives_table(pool_status((seen,))))
    return [line for line in page.getvalue().splitlines() if line.strip()][-1].strip()


def test_a_row_tells_what_is_wanted_and_what_came_of_it() -> None:
    row = shown(objective(200, 10))
    assert row.split() == [
        "apps/chat",
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


def test_a_weight_is_shown_where_the_policy_knows_weights() -> None:
    tenant = TenantReport(name="gold", weight=4, service=1, share=0.5, entitled_share=None, queued=0, running=0)

    def row(policy: PolicyName) -> list[str]:
        page = io.StringIO()
        status = pool_status(()).model_copy(update={"policy": policy, "tenants": (tenant,)})
        Console(file=page, width=160).print(live_table("", status))
        return next(line for line in page.getvalue().splitlines() if "gold" in line).split()

    assert row(PolicyName.VTC)[:4] == ["gold", "4", "50%", "-"]
    assert row(PolicyName.FCFS)[:4] == ["gold", "-", "50%", "-"]


def test_applications_are_shown_of_tenants_that_have_several() -> None:
    def report(name: str, tenant: str, **more: float) -> ApplicationReport:
        return ApplicationReport(
            namespace="apps", name=name, tenant=tenant, weight=more.get("weight", 1.0), priority=0, service=9, recent=1,
            tenant_recent=4,
        )  # fmt: skip

    reports = (report("chat", "gold"), report("batch", "gold", weight=3), report("alone", "silver"))

    def rows(policy: PolicyName) -> list[list[str]]:
        page = io.StringIO()
        status = pool_status(()).model_copy(update={"policy": policy, "applications": reports})
        Console(file=page, width=160).print(applications_table(status))
        return [line.split() for line in page.getvalue().splitlines() if "apps/" in line]

    assert rows(PolicyName.TIERED_JUSTITIA) == [
        ["gold", "apps/batch", "3", "0", "25%"],
        ["gold", "apps/chat", "1", "0", "25%"],
    ]
    assert rows(PolicyName.VTC)[0] == ["gold", "apps/batch", "-", "-", "25%"]
