"""A profile of an engine that runs, for the simulator: how long its steps take with our scheduler inside."""

import asyncio
from dataclasses import dataclass
from typing import Any, Self

import msgspec

from justitia_benchmarks.engine.servers import MODEL, SEATS, TOKEN_BUDGET, RunningPool, telling
from justitia_benchmarks.engine.workload import WEIGHTS
from justitia_cli.calibrate_engine import LiveEngine
from justitia_cli.calibrate_measure import Limits, measure, plan_measurements
from justitia_cli.console import errors
from justitia_simulator.calibration import StepFit, build_profile, fit_steps
from justitia_simulator.profiles import EngineProfile
from justitia_vocabulary.units import Seconds, Tokens

ROUNDS = 5


@dataclass(frozen=True)
class Calibrated:
    """`latency` is what a request passes outside the engine, there and back. `error` is the mean one of the fit."""

    profile: EngineProfile
    latency: Seconds
    error: float

    @classmethod
    def read(cls, kept: Any) -> Self:
        """From what `kept` returned."""
        return cls(msgspec.convert(kept["profile"], EngineProfile), kept["latency"], kept["error"])

    def kept(self) -> dict[str, object]:
        """As JSON holds it."""
        return {"profile": msgspec.to_builtins(self.profile), "latency": self.latency, "error": self.error}


@dataclass(frozen=True)
class Space:
    """An engine's KV space, in blocks and tokens of a block, and the longest request that it takes."""

    blocks: int
    block: Tokens
    longest: Tokens

    @property
    def tokens(self) -> Tokens:
        """vLLM keeps one block for itself."""
        return (self.blocks - 1) * self.block


def calibrate(running: RunningPool, name: str, space: Space) -> Calibrated:
    """Measure an engine whose sidecar does not run. Raises CalibrationError, also where the machine is too busy."""
    fit = asyncio.run(_fitted(running, space))
    profile = build_profile(
        name,
        fit,
        kv_tokens=space.tokens,
        block_size=space.block,
        token_budget=TOKEN_BUDGET,
        max_requests=SEATS,
    )
    return Calibrated(msgspec.structs.replace(profile, front=None, prefix_cache=True), fit.latency, fit.error)


async def _fitted(running: RunningPool, space: Space) -> StepFit:
    """The default policy orders meanwhile, so that what it does in a step counts."""
    plan = plan_measurements(Limits(space.longest, space.tokens, SEATS, TOKEN_BUDGET), ROUNDS)
    errors.print(f"calibrating with {plan.steps} measurements")
    async with telling(running.socket) as teller, LiveEngine.connect(running.engine, "unused", MODEL) as engine:
        await teller.configure("tiered-justitia", "engine-time", WEIGHTS)
        taken = await measure(engine, plan, lambda done, what: None)
    return fit_steps(taken.decode, taken.prefill, taken.arrivals, TOKEN_BUDGET)
