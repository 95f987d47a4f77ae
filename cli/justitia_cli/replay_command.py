"""`justitia replay`: a workload file against a live endpoint, into a folder of results."""

import asyncio
import signal
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from justitia_cli.console import EXIT_INTERRUPTED, errors, fail, mistakes, output, parse_pairs, parse_weights_of
from justitia_cli.replay import Replay, ReplayProgress, Target
from justitia_cli.tables import print_json, print_summary
from justitia_simulator.records import PolicyResults
from justitia_simulator.results import write_results
from justitia_simulator.workload import load_workload


def replay_command(  # noqa: PLR0917
    workload: Annotated[Path, typer.Argument(help="Workload file (.jsonl, .jsonl.gz)")],
    base_url: Annotated[
        str,
        typer.Option(help="OpenAI base URL, ending in /v1; {application} in it is replaced by the run's application"),
    ],
    out: Annotated[Path, typer.Option(help="Folder for requests.jsonl, runs.jsonl and summary.json")],
    api_key: Annotated[list[str], typer.Option(help="TENANT=KEY, once for each tenant of the workload")] = [],  # noqa: B006
    model: Annotated[str | None, typer.Option(help="Model name; the endpoint's only model unless given")] = None,
    policy_label: Annotated[str, typer.Option(help="Name of this replay in the results")] = "live",
    weight: Annotated[list[str], typer.Option(help="TENANT=WEIGHT as at the endpoint, for the fairness figures")] = [],  # noqa: B006
    time_scale: Annotated[
        float, typer.Option(min=1e-6, max=1e6, help="Factor for arrival and tool times; 2 is half as fast")
    ] = 1,
    seed: Annotated[int, typer.Option(help="Seed of the prompts' token ids")] = 1,
    json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON")] = False,
) -> None:
    """Send a workload to a live OpenAI endpoint, open loop, and record what happened.

    When interrupted, it writes what has finished. Exit code 1 if any request failed.
    """
    with mistakes():
        runs = load_workload(workload)
        target = Target(
            base_url=base_url,
            model=model,
            api_keys=parse_pairs(api_key, "--api-key"),
            policy=policy_label,
            seed=seed,
            time_scale=time_scale,
        )
        weights = parse_weights_of({run.tenant for run in runs}, weight)
        with Progress(
            TextColumn("replay"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[note]}"),
            TimeElapsedColumn(), console=errors, transient=True, disable=not errors.is_terminal,
        ) as bar:  # fmt: skip
            task = bar.add_task("replay", total=sum(len(r.requests) for r in runs), note="")

            def show(p: ReplayProgress) -> None:
                note = f"sent {p.sent}, failed {p.failed}"
                bar.update(task, completed=p.finished + p.failed, note=note, refresh=False)

            replay = Replay(runs, target, show)
            interrupted = asyncio.run(until_done_or_interrupted(replay))
        results = replace(replay.results(), weights=weights)
        if results.requests:
            write_results(out, [results])
    _report(results, out, json)
    if interrupted:
        fail(f"interrupted; {out} holds what had finished", EXIT_INTERRUPTED)


async def until_done_or_interrupted(replay: Replay) -> bool:
    """Run the replay; on SIGINT or SIGTERM cancel it, wait until its connections are closed, and say so."""
    task = asyncio.ensure_future(replay.run())
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, task.cancel)
    try:
        await task
    except asyncio.CancelledError:
        return True
    return False


def _report(results: PolicyResults, out: Path, json: bool) -> None:
    if json:
        print_json([results])
    else:
        print_summary([results])
        output.print(f"Results in {out}")
    failed = [r for r in results.requests if r.status != "finished"]
    if failed and not all(r.status == "cancelled" for r in failed):
        first = next(r for r in failed if r.status != "cancelled")
        fail(f"{len(failed)} of {len(results.requests)} requests failed, the first of run {first.run}: {first.status}")
