"""Prints results on a terminal: a table of policies and one of tenants, or JSON."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from justitia_cli import printing
from justitia_cli.console import output
from justitia_simulator.records import PolicyResults
from justitia_simulator.summary import summarise

JCT_COLUMNS = ("mean", "p50", "p90", "p95", "p99", "max")
RUN_COLUMNS = ("runs", "mean", "p50", "p90", "p95", "p99", "worst", "large", "tok/s")
TENANT_COLUMNS = ("weight", "share", "due", "runs", "JCT", "TTFT p50", "p99")


def print_json(results: Sequence[PolicyResults]) -> None:
    """Print the content of `summary.json` on standard output."""
    summary = {r.policy: summarise(r) for r in results}
    printing.print_json(summary)


def print_summary(results: Sequence[PolicyResults]) -> None:
    """Print the completion of runs by policy, then service and TTFT by tenant."""
    summaries: dict[str, Any] = {r.policy: summarise(r) for r in results}
    runs = _table("Completion time of runs, seconds", ["policy"], RUN_COLUMNS)
    tenants = _table(
        "Tenants, times in seconds",
        ["policy", "tenant"],
        TENANT_COLUMNS,
    )
    for policy, s in summaries.items():
        runs.add_row(*run_row(policy, s))
        for row in tenant_rows(policy, s):
            tenants.add_row(*row)
    output.print(runs)
    output.print(tenants)


def _table(title: str, texts: Sequence[str], figures: Sequence[str]) -> Table:
    table = printing.plain_table(title)
    for name in texts:
        table.add_column(name, no_wrap=True)
    for name in figures:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def run_row(policy: str, summary: Mapping[str, Any]) -> list[str]:
    """The cells of a policy in the table of runs."""
    return [
        policy,
        finished(summary),
        *(number(summary["jct"], c) for c in JCT_COLUMNS),
        number(summary["jct_largest_decile"], "mean"),
        number(summary["throughput"], "tokens_per_second"),
    ]


def tenant_rows(policy: str, summary: Mapping[str, Any]) -> list[list[str]]:
    """The cells of a policy's tenants."""
    tenants = summary["tenants"]
    total = sum(t["weight"] for t in tenants.values())
    return [
        [
            policy,
            name,
            f"{t['weight']:g}",
            f"{t['share']:.1%}",
            f"{t['weight'] / total:.1%}",
            str(t["runs_finished"]),
            number(t["jct"], "mean"),
            number(t["ttft"], "p50"),
            number(t["ttft"], "p99"),
        ]
        for name, t in tenants.items()
    ]


def finished(summary: Mapping[str, Any]) -> str:
    """How many runs finished; if not all did, also how many there were."""
    done, runs = summary["runs_finished"], summary["runs"]
    return str(done) if done == runs else f"{done}/{runs}"


def number(distribution: Mapping[str, float] | None, key: str) -> str:
    """The figure with three significant digits (two below 0.1); `-` without one."""
    if distribution is None:
        return "-"
    value = distribution[key]
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:#.{3 if value >= 0.1 else 2}g}".rstrip(".")
