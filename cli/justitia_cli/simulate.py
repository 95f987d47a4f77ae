"""`justitia simulate`: serves a workload file on simulated engines, under one or several policies.

Sarathi is an order, and a loop that mixes chunks of prompts with decoding. On an engine without a token budget it gets
a budget of 512 tokens, the chunk size of Sarathi-Serve for low latency.
"""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeElapsedColumn

from justitia_cli.console import errors, mistakes, output, parse_weights_of
from justitia_cli.tables import print_json, print_summary
from justitia_scheduling.baselines.registry import COST_MODELS, POLICIES, build_cost_model, build_policy
from justitia_simulator.engine import Engine
from justitia_simulator.prediction import FORMS, find_prediction
from justitia_simulator.profiles import EngineProfile, find_profile, in_chunks
from justitia_simulator.results import write_results
from justitia_simulator.workload import load_workload
from justitia_vocabulary.policies import PolicyName

SARATHI_BUDGET = 512


def simulate_command(  # noqa: PLR0917
    workload: Annotated[Path, typer.Argument(help="Workload file (.jsonl, .jsonl.gz)")],
    out: Annotated[Path, typer.Option(help="Folder for the result files; results of other policies there are kept")],
    policy: Annotated[list[str], typer.Option(help=f"Policy, repeatable: {', '.join(sorted(POLICIES))}")] = [  # noqa: B006
        PolicyName.TIERED_JUSTITIA
    ],
    engine: Annotated[str, typer.Option(help="Engine profile: a name or a .json file")] = "a10g-llama2-7b",
    kv_tokens: Annotated[
        int | None, typer.Option(min=1, max=10**9, help="KV space in tokens; the profile's unless given")
    ] = None,
    engines: Annotated[
        int, typer.Option(min=1, max=1000, help="Number of engines behind one front, each with a policy of its own")
    ] = 1,
    token_budget: Annotated[
        int,
        typer.Option(
            min=0,
            max=10**9,
            help="Token budget of a step that mixes prompts with decoding. 0: the profile's; a profile without one "
            "gives prompts steps of their own, except under sarathi, which has 512",
        ),
    ] = 0,
    weight: Annotated[list[str], typer.Option(help="TENANT=WEIGHT, repeatable; 1 unless given")] = [],  # noqa: B006
    prediction: Annotated[
        str, typer.Option(help=f"What a policy knows about costs and lengths: {', '.join(FORMS)}")
    ] = "mean",
    cost_model: Annotated[
        str, typer.Option(help=f"What tenants are charged for: {', '.join(COST_MODELS)}")
    ] = "engine-time",
    seed: Annotated[int, typer.Option(help="Seed of the errors of a noisy prediction; recorded with the results")] = 1,
    json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON")] = False,
) -> None:
    """Serve a workload on a simulated engine and record what happened."""
    with mistakes():
        runs = load_workload(workload)
        profile = find_profile(engine)
        weights = parse_weights_of({run.tenant for run in runs}, weight)
        known = find_prediction(prediction, seed)
        policies = {
            name: [build_policy(name, build_cost_model(cost_model, profile.charge)) for _ in range(engines)]
            for name in policy
        }
        results = []
        with Progress(
            TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn(),
            console=errors, transient=True, disable=not errors.is_terminal,
        ) as bar:  # fmt: skip
            for name, built in policies.items():
                task = bar.add_task(name, total=None)
                loop = loop_under(name, profile, token_budget)
                simulated = Engine(built, loop, label=name, kv_tokens=kv_tokens, prediction=known)

                def show(done: int, total: int, task: TaskID = task) -> None:
                    bar.update(task, completed=done, total=total, refresh=False)

                served = simulated.serve(runs, weights, show)
                results.append(replace(served, conditions={**served.conditions, "seed": seed}))
        write_results(out, results)
    if json:
        print_json(results)
    else:
        print_summary(results)
        output.print(f"Results in {out}")


def loop_under(policy: str, profile: EngineProfile, token_budget: int) -> EngineProfile:
    """The engine as it runs under a policy: with this token budget, or its own if 0."""
    if token_budget:
        return in_chunks(profile, token_budget)
    if policy == "sarathi" and profile.token_budget is None:
        return in_chunks(profile, SARATHI_BUDGET)
    return profile
