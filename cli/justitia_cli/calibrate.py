"""`justitia calibrate`: measures a live engine and writes the profile that `justitia simulate --engine` takes.

Nothing is written before all is measured, fitted and checked, so an interrupted calibration leaves nothing.
"""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from justitia_cli.calibrate_engine import KVSpace, LiveEngine
from justitia_cli.calibrate_measure import CalibrationPlan, Limits, Measurements, measure, plan_measurements
from justitia_cli.console import EXIT_INTERRUPTED, errors, fail, mistakes, output
from justitia_cli.printing import plain_table, print_json
from justitia_scheduling.baselines.registry import build_policy
from justitia_scheduling.core.cost import EngineTime
from justitia_simulator.calibration import CalibrationError, StepFit, build_profile, fit_steps
from justitia_simulator.engine import Engine
from justitia_simulator.profiles import EngineProfile, write_profile
from justitia_vocabulary.units import Seconds, Tokens

USUAL_LONGEST: Tokens = 2048
"""The longest request that is measured if the endpoint does not say how long requests may be."""


@dataclass(frozen=True, slots=True)
class Check:
    """The profile against a mixed load that the fit has not seen: the mean duration of its clients, in each round."""

    simulated: Seconds
    measured: tuple[Seconds, ...]

    @property
    def error(self) -> float:
        """The error relative to the median round; positive if the simulation is too slow."""
        return self.simulated / median(self.measured) - 1.0


def calibrate_command(  # noqa: PLR0917
    base_url: Annotated[str, typer.Option(help="OpenAI base URL of the engine, or of its gateway, ending in /v1")],
    out: Annotated[Path, typer.Option(help="Profile to write (.json), for `justitia simulate --engine`")],
    api_key: Annotated[str, typer.Option(help="API key, if the endpoint needs one")] = "none",
    model: Annotated[str | None, typer.Option(help="Model name; the endpoint's only model unless given")] = None,
    kv_tokens: Annotated[
        int | None, typer.Option(min=1, max=10**9, help="KV space in tokens; from vLLM's metrics unless given")
    ] = None,
    block_size: Annotated[int, typer.Option(min=1, max=10**6, help="KV tokens in a block, with --kv-tokens")] = 16,
    max_requests: Annotated[
        int, typer.Option(min=1, max=10**5, help="Maximum number of requests at once, as vLLM's --max-num-seqs")
    ] = 256,
    token_budget: Annotated[
        int, typer.Option(min=1, max=10**6, help="Token budget of a step, as vLLM's --max-num-batched-tokens")
    ] = 2048,
    rounds: Annotated[
        int, typer.Option(min=1, max=1000, help="How often each point is measured; the median counts")
    ] = 3,
    json: Annotated[bool, typer.Option("--json", help="Print coefficients, residuals and the check as JSON")] = False,
) -> None:
    """Measure how long the steps of a live engine take, so that simulations agree with it.

    The profile is of the engine behind a sidecar. The engine should serve nothing else meanwhile, on a machine that is
    as busy as it will be in use.
    """
    with mistakes():
        space = None if kv_tokens is None else KVSpace(kv_tokens, block_size)
        try:
            measured = asyncio.run(_measure(base_url, api_key, model, space, max_requests, token_budget, rounds))
        except KeyboardInterrupt:
            fail("interrupted; nothing was written", EXIT_INTERRUPTED)
        taken = measured.measurements
        fit = fit_steps(taken.decode, taken.prefill, taken.arrivals, token_budget)
        profile = build_profile(
            out.stem,
            fit,
            kv_tokens=measured.space.tokens,
            block_size=measured.space.block_size,
            token_budget=token_budget,
            max_requests=max_requests,
        )
        check = check_profile(profile, measured.plan, measured.measurements)
        write_profile(profile, out)
    if json:
        _print_json(fit, check)
    else:
        _print(fit, check, measured.space)
        output.print(f"Profile in {out}", highlight=False, soft_wrap=True)


@dataclass(frozen=True, slots=True)
class _Measured:
    """An engine's KV space, the plan of measurements, and the measurements."""

    space: KVSpace
    plan: CalibrationPlan
    measurements: Measurements


async def _measure(  # noqa: PLR0917
    base_url: str,
    api_key: str,
    model: str | None,
    space: KVSpace | None,
    max_requests: int,
    token_budget: Tokens,
    rounds: int,
) -> _Measured:
    async with LiveEngine.connect(base_url, api_key, model) as engine:
        space = space or await engine.kv_space()
        if space is None:
            raise CalibrationError(
                f"{base_url}: there are no vLLM metrics beside it: give the KV space with --kv-tokens"
            )
        longest = await engine.longest_request() or USUAL_LONGEST
        plan = plan_measurements(Limits(longest, space.tokens, max_requests, token_budget), rounds)
        with Progress(
            TextColumn("calibrate"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[note]}"),
            TimeElapsedColumn(), console=errors, transient=True, disable=not errors.is_terminal,
        ) as bar:  # fmt: skip
            task = bar.add_task("calibrate", total=plan.steps, note="")

            def show(done: int, what: str) -> None:
                bar.update(task, completed=done, note=what)

            return _Measured(space, plan, await measure(engine, plan, show))


def check_profile(profile: EngineProfile, plan: CalibrationPlan, measurements: Measurements) -> Check:
    """Simulate the mixed load, and put it beside what was measured. All of it fits at once, so the policy does not
    matter.
    """
    policy = build_policy("fcfs", EngineTime(profile.charge))
    simulated = Engine(policy, profile, label="check").serve(plan.mixed)
    return Check(fmean(run.jct for run in simulated.runs if run.jct is not None), measurements.mixed)


def _print_json(fit: StepFit, check: Check) -> None:
    document = {
        "coefficients": _coefficients(fit),
        "error": fit.error,
        "points": [
            {"point": r.point, "measured": r.measured, "fitted": r.fitted, "spread": r.spread} for r in fit.points
        ],
        "check": {"simulated": check.simulated, "measured": check.measured, "error": check.error},
    }
    print_json(document)


def _coefficients(fit: StepFit) -> dict[str, Seconds]:
    names = (
        "per_step", "per_prefill_token", "per_attended", "per_decode", "per_kv_token", "per_request", "latency",
    )  # fmt: skip
    return {name: getattr(fit, name) for name in names}


def _print(fit: StepFit, check: Check, space: KVSpace) -> None:
    table = plain_table()
    table.add_column("point", no_wrap=True)
    for name in ("measured ms", "fitted ms", "error", "spread"):
        table.add_column(name, justify="right", no_wrap=True)
    for r in fit.points:
        cells = (f"{r.measured * 1e3:.2f}", f"{r.fitted * 1e3:.2f}", f"{r.error:+.0%}", f"±{r.spread:.0%}")
        table.add_row(r.point, *cells)
    output.print(table)
    lines = (
        f"step: {fit.per_step * 1e3:.3g} ms + {fit.per_prefill_token * 1e3:.3g} ms per prompt token "
        f"+ {fit.per_attended * 1e6:.3g} µs per token of its prompt before it "
        f"+ {fit.per_decode * 1e3:.3g} ms per decoding request + {fit.per_kv_token * 1e6:.3g} µs per KV token read",
        f"each request costs {fit.per_request * 1e3:.3g} ms more, and {fit.latency * 1e3:.3g} ms of latency",
        f"KV space: {space.tokens} tokens in blocks of {space.block_size}",
        f"error of the fit: {fit.error:.0%} on average, {fit.worst.error:+.0%} at worst ({fit.worst.point})",
        f"check on a mixed load that the fit has not seen: {check.simulated:.2f} s simulated, "
        f"{median(check.measured):.2f} s measured ({min(check.measured):.2f} to {max(check.measured):.2f}), "
        f"{check.error:+.0%}",
    )
    for line in lines:
        output.print(line, highlight=False, soft_wrap=True)
