"""The table that is seen while the demo works."""

from collections.abc import Mapping
from typing import Any

from rich import box
from rich.table import Table


def live_table(phase: str, status: Mapping[str, Any] | None, progress: str) -> Table:
    """One row a tenant: weight, share against what it is entitled to, queue, time to first token."""
    table = Table(title=f"{phase}   {progress}", title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("tenant")
    for name in ("weight", "share", "entitled", "queued", "running", "TTFT p50", "p99"):
        table.add_column(name, justify="right")
    for tenant in status["tenants"] if status else ():
        first_token = tenant["timeToFirstToken"]
        table.add_row(
            tenant["name"],
            f"{tenant['weight']:g}",
            _percent(tenant["share"]),
            _percent(tenant["entitledShare"]),
            str(tenant["queued"]),
            str(tenant["running"]),
            _milliseconds(first_token["p50"]),
            _milliseconds(first_token["p99"]),
        )
    return table


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"


def _milliseconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1e3:,.0f} ms"
