"""Tables of a pool's tenants, applications and objectives, for a look while it works."""

from collections import Counter

from rich.table import Table

from justitia_api.status import ObjectiveCounts, PoolStatus
from justitia_cli.printing import plain_table
from justitia_scheduling.objectives.tally import tally
from justitia_vocabulary.policies import WITHOUT_WEIGHTS, PolicyName


def live_table(title: str, status: PoolStatus | None) -> Table:
    """A row for each tenant: weight, share, entitled share, queue, time to first token. Weights that the policy ignores
    are not shown.
    """
    table = plain_table(title)
    table.add_column("tenant")
    for name in ("weight", "share", "entitled", "queued", "running", "TTFT p50", "p99"):
        table.add_column(name, justify="right", no_wrap=True)
    for tenant in status.tenants if status else ():
        table.add_row(
            tenant.name,
            "-" if status and status.policy in WITHOUT_WEIGHTS else f"{tenant.weight:g}",
            _percent(tenant.share),
            _percent(tenant.entitled_share),
            str(tenant.queued),
            str(tenant.running),
            _duration(tenant.time_to_first_token.p50),
            _duration(tenant.time_to_first_token.p99),
        )
    return table


def applications_table(status: PoolStatus) -> Table:
    """A row for each application of a tenant that has several: its part in the tenant's service. What the policy
    ignores is not shown.
    """
    table = plain_table("")
    for name in ("tenant", "application"):
        table.add_column(name)
    for name in ("weight", "priority", "share of tenant"):
        table.add_column(name, justify="right", no_wrap=True)
    shares = status.policy is PolicyName.TIERED_JUSTITIA
    count = Counter(each.tenant for each in status.applications)
    for each in sorted(status.applications, key=lambda each: (each.tenant, -each.priority, each.namespace, each.name)):
        if count[each.tenant] > 1:
            declared = (f"{each.weight:g}", str(each.priority)) if shares else ("-", "-")
            table.add_row(each.tenant, f"{each.namespace}/{each.name}", *declared, _percent(each.share))
    return table


def objectives_table(status: PoolStatus) -> Table:
    """A row for each objective, as this engine's requests show it over its window."""
    table = plain_table("")
    for name in ("application", "objective"):
        table.add_column(name)
    for name in ("wanted", "observed", "within", "budget left", "burn"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("")
    for told in status.objectives:
        table.add_row(*_objective_row(told))
    return table


def _objective_row(told: ObjectiveCounts) -> tuple[str, ...]:
    declared = told.objective
    seen = tally(declared.percentile / 100, [told])
    figures = ("-", "-", "-")
    if seen.count:
        figures = (f"{seen.share:.1%}", f"{seen.budget:.0%}", f"{seen.fast_burn:.1f}")
    return (
        f"{told.namespace}/{told.name}",
        declared.name,
        _duration(declared.bound_milliseconds / 1000),
        _duration(seen.value),
        *figures,
        "" if seen.state is None else seen.state.value,
    )


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return f"{seconds * 1e3:,.0f} ms" if seconds < 1 else f"{seconds:,.1f} s"
