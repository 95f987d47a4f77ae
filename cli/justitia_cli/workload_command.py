"""`justitia workload`: makes workload files."""

from pathlib import Path
from typing import Annotated

import typer

from justitia_cli.console import errors, mistakes
from justitia_simulator.traces import demo_workload, load_trace
from justitia_simulator.workload import write_workload

app = typer.Typer(no_args_is_help=True, help="Make workload files.")


@app.callback()
def workload() -> None: ...


@app.command("demo")
def demo_command(  # noqa: PLR0917
    out: Annotated[Path, typer.Option(help="File to write (.jsonl or .jsonl.gz)")],
    trace: Annotated[Path, typer.Option(help="CSV with TIMESTAMP,ContextTokens,GeneratedTokens")] = Path(
        "examples/traces/azure2023-conversation.csv"
    ),
    seed: Annotated[int, typer.Option(help="Another seed, another part of the trace")] = 1,
    flood_seconds: Annotated[float, typer.Option(min=1, help="Arrival window of research and batch")] = 60,
    research_work: Annotated[float, typer.Option(min=1, help="Weighted tokens (prompt + 2 * output)")] = 150_000,
    batch_work: Annotated[float, typer.Option(min=1, help="Weighted tokens")] = 150_000,
    support_work: Annotated[float, typer.Option(min=1, help="Weighted tokens")] = 30_000,
    support_seconds: Annotated[float, typer.Option(min=1, help="Arrival window of support")] = 60,
) -> None:
    """Two tenants flood with multi-request runs, a light one chats; arrivals and lengths are the trace's."""
    with mistakes():
        runs = demo_workload(
            load_trace(trace),
            seed=seed,
            flood_seconds=flood_seconds,
            research_work=research_work,
            batch_work=batch_work,
            support_work=support_work,
            support_seconds=support_seconds,
        )
        write_workload(runs, out)
    requests = [r for run in runs for r in run.requests]
    prompt, output = sum(r.prompt_tokens for r in requests), sum(r.output_tokens for r in requests)
    errors.print(f"{out}: {len(runs)} runs, {len(requests)} requests, {prompt} prompt and {output} output tokens")
