"""The table of a pool's tenants that is seen while it works."""

from rich.table import Table

from justitia_api.status import PoolStatus
from justitia_cli.printing import plain_table


def live_table(title: str, status: PoolStatus | None) -> Table:
    """One row a tenant: weight, share against what it is entitled to, queue, time to first token."""
    table = plain_table(title)
    table.add_column("tenant")
    for name in ("weight", "share", "entitled", "queued", "running", "TTFT p50", "p99"):
        table.add_column(name, justify="right", no_wrap=True)
    for tenant in status.tenants if status else ():
        table.add_row(
            tenant.name,
            f"{tenant.weight:g}",
            _percent(tenant.share),
            _percent(tenant.entitled_share),
            str(tenant.queued),
            str(tenant.running),
            _duration(tenant.time_to_first_token.p50),
            _duration(tenant.time_to_first_token.p99),
        )
    return table


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return f"{seconds * 1e3:,.0f} ms" if seconds < 1 else f"{seconds:,.1f} s"
