"""`justitia report`: compares policies by their result folders, on the terminal and in one HTML file.

The HTML is self-contained: no scripts, fonts, pictures or styles from elsewhere.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Annotated, Any

import typer

from justitia_cli.console import mistakes, output
from justitia_cli.plots import Plot, draw_plots
from justitia_cli.tables import RUN_COLUMNS, TENANT_COLUMNS, number, print_json, print_summary, run_row, tenant_rows
from justitia_simulator.files import write_bytes
from justitia_simulator.records import FINISHED, PolicyResults
from justitia_simulator.results import ResultsError, read_results
from justitia_simulator.summary import summarise

LATENCIES = (("ttft", "time to first token"), ("ttlt", "time to last token"), ("tpot", "time per output token"))

STYLE = """
:root { color-scheme: light dark; --paper: #fff; --ink: #1c2126; --faint: #5d6770; --grid: #d5dade; --rule: #e6eaed; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #15191d; --ink: #e4e8eb; --faint: #9aa5ae; --grid: #3a434b; --rule: #2a3137; }
}
body { background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, sans-serif;
  max-width: 60rem; margin: 2.5rem auto; padding: 0 1.25rem; }
h1 { font-size: 1.7rem; margin: 0 0 .25rem; } h2 { font-size: 1.15rem; margin: 2.5rem 0 .25rem; }
p { margin: .25rem 0 .75rem; } .faint, figcaption { color: var(--faint); font-size: .92rem; }
figure { margin: 0; } svg { width: 100%; height: auto; display: block; margin-top: .5rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .6rem; text-align: right; border-bottom: 1px solid var(--rule); white-space: nowrap; }
th { font-weight: 600; color: var(--faint); } td.text, th.text { text-align: left; white-space: normal; }
"""


def report_command(
    folders: Annotated[list[Path], typer.Argument(help="Result folders of simulate or replay")],
    out: Annotated[Path, typer.Option(help="HTML file to write")] = Path("report.html"),
    title: Annotated[str, typer.Option(help="Heading of the report")] = "Policies on one workload",
    json: Annotated[bool, typer.Option("--json", help="Print the summaries as JSON instead of tables")] = False,
) -> None:
    """Compare the policies in result folders."""
    with mistakes():
        results = load_folders(folders)
        write_bytes(out, build_report(results, title).encode())
    if json:
        print_json(results)
    else:
        print_summary(results)
        output.print(f"Report in {out}")


def load_folders(folders: Sequence[Path]) -> list[PolicyResults]:
    """The results of all policies. One that is in several folders is called `folder/policy`. Raises ResultsError."""
    found = [(folder, results) for folder in folders for results in read_results(folder)]
    if not found:
        raise ResultsError(f"{', '.join(map(str, folders))}: no policies in the results")
    names = [results.policy for _, results in found]
    return [
        results if names.count(results.policy) == 1 else relabelled(results, f"{folder.name}/{results.policy}")
        for folder, results in found
    ]


def relabelled(results: PolicyResults, policy: str) -> PolicyResults:
    """The same results under another label; the rows keep theirs."""
    return replace(results, policy=policy)


def build_report(results: Sequence[PolicyResults], title: str, statements: Sequence[Sequence[str]] = ()) -> str:
    """The whole HTML document. `statements` are rows of (statement, what was measured, whether it holds)."""
    summaries: dict[str, Any] = {r.policy: summarise(r) for r in results}
    shown = _table(["statement", "measured", "holds"], [], statements, text_columns=3)
    sections = [
        *([_section("What it shows", "", shown)] if statements else []),
        _section(
            "Completion time of runs",
            "Seconds from a run's arrival to the last token of its last request, tools included. "
            "“Large” is the mean of the tenth of the runs that cost most.",
            _table(["policy"], RUN_COLUMNS, (run_row(p, s) for p, s in summaries.items())),
        ),
        _section(
            "Tenants",
            "Share is of all service in the workload; “due” is what it would be if all tenants always had "
            "requests waiting. A light tenant takes less than its weight because it asks for less. Times in seconds: "
            "mean completion, median and 99th percentile of the time to first token.",
            _table(
                ["policy", "tenant"], TENANT_COLUMNS, (row for p, s in summaries.items() for row in tenant_rows(p, s))
            ),
        ),
        *(_figure(plot) for plot in draw_plots(results)),
        _section(
            "Requests",
            "Seconds. Time to first and last token count from the moment the request was ready.",
            _table(
                ["policy", "figure"],
                ["mean", "p50", "p90", "p95", "p99", "worst"],
                (row for p, s in summaries.items() for row in _latency_rows(p, s)),
            ),
        ),
        _section(
            "Difference in service",
            "Weighted tokens (prompt + 2 × output, divided by weight) per second between what tenants got and what "
            "they asked or the best served got, summed over tenants, in windows of a tenth of the arrivals. "
            "Lower is fairer.",
            _table(["policy"], ["maximum", "average", "variance"], (_fairness_row(p, s) for p, s in summaries.items())),
        ),
        _section("Conditions", "", _table(["policy", "what"], [], _conditions(results), text_columns=3)),
    ]
    runs, requests = len(results[0].runs), len(results[0].requests)
    lead = f"{len(results)} policies, {runs} runs with {requests} requests under each."
    return (
        '<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)} · Justitia</title><style>{STYLE}</style></head>\n"
        f'<body><h1>{escape(title)}</h1><p class="faint">{escape(lead)}</p>\n{"".join(sections)}</body></html>\n'
    )


def _section(title: str, text: str, body: str) -> str:
    return f'<section><h2>{escape(title)}</h2><p class="faint">{escape(text)}</p>{body}</section>\n'


def _figure(plot: Plot) -> str:
    return (
        f"<section><h2>{escape(plot.title)}</h2><figure>{plot.svg}"
        f"<figcaption>{escape(plot.caption)}</figcaption></figure></section>\n"
    )


def _table(
    texts: Sequence[str], figures: Sequence[str], rows: Iterable[Sequence[str]], text_columns: int | None = None
) -> str:
    left = len(texts) if text_columns is None else text_columns

    def line(cells: Sequence[str], tag: str) -> str:
        classes = [' class="text"' if i < left else "" for i in range(len(cells))]
        marked = (f"<{tag}{c}>{escape(cell)}</{tag}>" for c, cell in zip(classes, cells, strict=True))
        return f"<tr>{''.join(marked)}</tr>"

    body = "".join(line(row, "td") for row in rows)
    return f'<div class="wide"><table>{line([*texts, *figures], "th")}{body}</table></div>'


def _latency_rows(policy: str, summary: dict[str, Any]) -> Iterable[list[str]]:
    for key, name in LATENCIES:
        yield [policy, name, *(number(summary[key], c) for c in ("mean", "p50", "p90", "p95", "p99", "max"))]


def _fairness_row(policy: str, summary: dict[str, Any]) -> list[str]:
    return [policy, *(number(summary["fairness"], c) for c in ("maximum", "average", "variance"))]


def _conditions(results: Sequence[PolicyResults]) -> Iterable[list[str]]:
    for r in results:
        failed = sum(q.status != FINISHED for q in r.requests)
        for name, value in {**r.conditions, "requests failed": failed}.items():
            yield [r.policy, name.replace("_", " "), str(value)]
