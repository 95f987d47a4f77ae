"""`justitia workload`: makes workload files."""

from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from justitia_cli.console import errors, mistakes, parse_weights
from justitia_simulator.arrivals import azure_arrivals, full_engine_seconds, poisson_arrivals, scaled_to_load
from justitia_simulator.mixes import (
    CODE,
    CONVERSATION,
    LIGHT_REASONING,
    REASONING,
    SHAREGPT,
    VTC_NAMES,
    Arrivals,
    reasoning_mix,
    starvation_mix,
    vtc_workload,
)
from justitia_simulator.production import trace_workload
from justitia_simulator.profiles import find_profile
from justitia_simulator.suite import ONE_TENANT, agent_suite, per_run
from justitia_simulator.traces import demo_workload, load_trace
from justitia_simulator.turns import reusable, turns
from justitia_simulator.workload import WorkloadRequest, WorkloadRun, write_workload
from justitia_vocabulary.units import Seconds

app = typer.Typer(no_args_is_help=True, help="Make workload files.")


@app.callback()
def workload() -> None: ...


@app.command("demo")
def demo_command(  # noqa: PLR0917
    out: Annotated[Path, typer.Option(help="File to write (.jsonl or .jsonl.gz)")],
    trace: Annotated[Path, typer.Option(help="Azure CSV with TIMESTAMP,ContextTokens,GeneratedTokens")] = Path(
        "examples/traces/azure2023-conversation.csv"
    ),
    seed: Annotated[int, typer.Option(help="Seed; another one takes another part of the trace")] = 1,
    flood_seconds: Annotated[
        float, typer.Option(min=1, max=1e6, help="Arrival window of research and batch, in seconds")
    ] = 60,
    research_work: Annotated[
        float, typer.Option(min=1, max=1e9, help="Work of research, in weighted tokens (prompt + 2 * output)")
    ] = 150_000,
    batch_work: Annotated[float, typer.Option(min=1, max=1e9, help="Work of batch, in weighted tokens")] = 150_000,
    support_work: Annotated[float, typer.Option(min=1, max=1e9, help="Work of support, in weighted tokens")] = 30_000,
    support_seconds: Annotated[float, typer.Option(min=1, max=1e6, help="Arrival window of support, in seconds")] = 60,
) -> None:
    """Two tenants that flood with multi-request runs and a light one that chats; arrivals and lengths are a trace's."""
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
        _write(runs, out)


Out = Annotated[Path, typer.Option(help="File to write (.jsonl or .jsonl.gz)")]
Seed = Annotated[int, typer.Option(help="Seed; the same one gives the same file")]


@app.command("agents")
def agents_command(  # noqa: PLR0917
    out: Out,
    count: Annotated[int, typer.Option(min=1, max=1_000_000, help="Number of runs")] = 300,
    window: Annotated[float, typer.Option(min=1, max=1e9, help="Arrival window, in seconds")] = 540,
    tenant: Annotated[
        list[str], typer.Option(help="TENANT=SHARE of the runs, repeatable; one tenant unless given")
    ] = [],  # noqa: B006
    each_run_a_tenant: Annotated[bool, typer.Option("--per-run", help="Make each run a tenant of its own")] = False,
    load: Annotated[
        float | None,
        typer.Option(
            min=0.001,
            max=1000,
            help="Stretch the window to this offered load: engine time of the runs with KV full, over the window",
        ),
    ] = None,
    engine: Annotated[str, typer.Option(help="Engine profile that --load refers to: a name or a .json file")] = (
        "a10g-llama2-7b"
    ),
    kv_tokens: Annotated[
        int | None,
        typer.Option(
            min=1, max=10**9, help="With --load, KV space of that engine in tokens; the profile's unless given"
        ),
    ] = None,
    seed: Seed = 1,
) -> None:
    """Agent runs of ten classes, 72 % small, 26 % medium, 2 % large, with arrivals like those of a trace."""
    with mistakes():
        tenants = parse_weights(tenant, "--tenant") or ONE_TENANT
        profile = find_profile(engine)
        if kv_tokens is not None and load is None:
            raise ValueError(
                f"--kv-tokens {kv_tokens}: it is for the engine that --load refers to: give --load too, or remove it"
            )
        runs = agent_suite(count, seed=seed, window=window, tenants=tenants)
        if each_run_a_tenant:
            runs = per_run(runs)
        if load is not None:
            profile = msgspec.structs.replace(profile, kv_tokens=kv_tokens or profile.kv_tokens)
            seconds = full_engine_seconds([r for run in runs for r in run.requests], profile)
            iterations = sum(run.cost for run in runs) / profile.kv_tokens
            runs = scaled_to_load(runs, load, profile.kv_tokens, seconds / iterations)
        _write(runs, out)


@app.command("turns")
def turns_command(  # noqa: PLR0917
    out: Out,
    sessions: Annotated[int, typer.Option(min=1, max=1_000_000, help="Number of sessions, each a run")] = 100,
    tenant: Annotated[
        list[str], typer.Option(help="TENANT=SHARE of the sessions, repeatable; one tenant unless given")
    ] = [],  # noqa: B006
    load: Annotated[
        float,
        typer.Option(
            min=0.001,
            max=1000,
            help="Offered load: engine time of the sessions with KV full and every prefix cached, over the window",
        ),
    ] = 1.0,
    engine: Annotated[str, typer.Option(help="Engine profile that --load refers to: a name or a .json file")] = (
        "a100-80g-llama3-8b"
    ),
    scale: Annotated[
        float, typer.Option(help="Multiply all lengths by this, at most 1: the longest context has 100,000 tokens")
    ] = 1.0,
    seed: Seed = 1,
) -> None:
    """Sessions of agents: tens of turns, each going on with the whole conversation, tool pauses, subagents."""
    with mistakes():
        tenants = parse_weights(tenant, "--tenant") or ONE_TENANT
        runs = turns(sessions, seed=seed, load=load, profile=find_profile(engine), tenants=tenants, scale=scale)
        _write(runs, out)
        errors.print(f"{reusable(runs):.1%} of the prompt tokens are in a prefix")


@app.command("vtc")
def vtc_command(
    name: Annotated[str, typer.Argument(help=f"One of {', '.join(VTC_NAMES)}")],
    out: Out,
    seed: Annotated[
        int, typer.Option(help="Seed; another one gives other phases, and with 0 `real` is as it was recorded")
    ] = 0,
) -> None:
    """Single requests of a few clients, as VTC's authors sent them to their engine."""
    with mistakes():
        _write(vtc_workload(name, seed=seed), out)


class Others(Enum):
    """The kind of requests besides reasoning."""

    CONVERSATION = "conversation"
    CODE = "code"
    SHAREGPT = "sharegpt"


class Arriving(Enum):
    """How requests arrive: without memory, or with the bursts of an Azure trace."""

    POISSON = "poisson"
    AZURE_CONVERSATION = "azure-conversation"
    AZURE_CODE = "azure-code"


KINDS = {Others.CONVERSATION: CONVERSATION, Others.CODE: CODE, Others.SHAREGPT: SHAREGPT}
ARRIVALS: dict[Arriving, Arrivals] = {
    Arriving.POISSON: poisson_arrivals,
    Arriving.AZURE_CONVERSATION: partial(azure_arrivals, "conversation"),
    Arriving.AZURE_CODE: partial(azure_arrivals, "code"),
}

Count = Annotated[int, typer.Option(min=1, max=1_000_000, help="Number of requests")]
Rho = Annotated[
    float,
    typer.Option(min=0.001, max=1000, help="Utilisation: engine time of the requests with KV full, over the window"),
]
FullEngine = Annotated[str, typer.Option(help="Engine profile that --rho refers to: a name or a .json file")]
LARGE_ENGINE = "a100-80g-llama2-7b"


@app.command("reasoning")
def reasoning_command(  # noqa: PLR0917
    out: Out,
    count: Count = 1000,
    share: Annotated[float, typer.Option(min=0, max=1, help="Share of reasoning requests")] = 0.7,
    light: Annotated[
        bool, typer.Option("--light", help="Limit reasoning to 4,096 tokens, without a heavy tail")
    ] = False,
    others: Annotated[Others, typer.Option(help="Kind of the other requests")] = Others.CONVERSATION,
    arrivals: Annotated[Arriving, typer.Option(help="How requests arrive")] = Arriving.POISSON,
    rho: Rho = 0.9,
    engine: FullEngine = LARGE_ENGINE,
    seed: Seed = 1,
) -> None:
    """Reasoning requests among other requests of one tenant."""
    with mistakes():
        runs = reasoning_mix(
            count,
            share,
            seed=seed,
            rho=rho,
            service_seconds=_service_seconds(engine),
            reasoning=LIGHT_REASONING if light else REASONING,
            other=KINDS[others],
            arrivals=ARRIVALS[arrivals],
        )
        _write(runs, out)


@app.command("starvation")
def starvation_command(
    out: Out, count: Count = 1000, rho: Rho = 0.99, engine: FullEngine = LARGE_ENGINE, seed: Seed = 1
) -> None:
    """Nine short requests for each long one, near saturation: the starvation experiment of the UniBoost paper."""
    with mistakes():
        _write(starvation_mix(count, seed=seed, rho=rho, service_seconds=_service_seconds(engine)), out)


def _service_seconds(engine: str) -> Callable[[WorkloadRequest], Seconds]:
    profile = find_profile(engine)
    return lambda request: full_engine_seconds([request], profile)


@app.command("trace")
def trace_command(
    trace: Annotated[Path, typer.Argument(help="Azure CSV or Mooncake JSON Lines (.jsonl)")],
    out: Out,
    tenant: Annotated[
        list[str], typer.Option(help="TENANT=SHARE of the requests, repeatable; one tenant unless given")
    ] = [],  # noqa: B006
    seed: Seed = 1,
) -> None:
    """A production trace as it is: each request is a run, and runs are drawn onto tenants."""
    with mistakes():
        _write(trace_workload(trace, parse_weights(tenant, "--tenant") or ONE_TENANT, seed=seed), out)


def _write(runs: Sequence[WorkloadRun], out: Path) -> None:
    write_workload(runs, out)
    requests = [r for run in runs for r in run.requests]
    prompt, output = sum(r.prompt_tokens for r in requests), sum(r.output_tokens for r in requests)
    errors.print(f"{out}: {len(runs)} runs, {len(requests)} requests, {prompt} prompt and {output} output tokens")
