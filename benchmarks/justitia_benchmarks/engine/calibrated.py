"""A profile of an engine that runs, for the simulator: how long its steps take with our scheduler inside."""

import asyncio
from dataclasses import asdict, dataclass
from typing import Any, Self

import msgspec

from justitia_benchmarks.engine.servers import MODEL, SEATS, TOKEN_BUDGET, RunningPool, Space, telling
from justitia_benchmarks.engine.workload import WEIGHTS
from justitia_cli.calibrate import check_profile
from justitia_cli.calibrate_engine import LiveEngine
from justitia_cli.calibrate_measure import CalibrationPlan, Limits, Measurements, measure, plan_measurements
from justitia_cli.console import errors
from justitia_simulator.calibration import build_profile, fit_steps
from justitia_simulator.profiles import EngineProfile
from justitia_vocabulary.units import Seconds

ROUNDS = 5


@dataclass(frozen=True)
class Calibrated:
    """`latency` is what a request passes outside the engine, there and back. `error` is the mean one of the fit,
    `check` that of a mixed load which the fit has not seen: positive where the simulator is too slow.
    """

    profile: EngineProfile
    latency: Seconds
    error: float
    check: float

    @classmethod
    def read(cls, kept: Any) -> Self:
        """From what `kept` returned."""
        return cls(msgspec.convert(kept["profile"], EngineProfile), kept["latency"], kept["error"], kept["check"])

    def kept(self) -> dict[str, object]:
        """As JSON holds it."""
        return asdict(self) | {"profile": msgspec.to_builtins(self.profile)}


def calibrate(running: RunningPool, name: str, space: Space) -> Calibrated:
    """Measure an engine whose sidecar does not run. Raises CalibrationError, also where the machine is too busy."""
    plan = plan_measurements(Limits(space.longest, space.tokens, SEATS, TOKEN_BUDGET), ROUNDS)
    taken = asyncio.run(_measured(running, plan))
    fit = fit_steps(taken.decode, taken.prefill, taken.arrivals, TOKEN_BUDGET)
    in_front = build_profile(
        name, fit, kv_tokens=space.tokens, block_size=space.block, token_budget=TOKEN_BUDGET, max_requests=SEATS
    )
    profile = msgspec.structs.replace(in_front, front=None, prefix_cache=True)
    return Calibrated(profile, fit.latency, fit.error, check_profile(in_front, plan, taken).error)


async def _measured(running: RunningPool, plan: CalibrationPlan) -> Measurements:
    """The default policy orders meanwhile, so that what it does in a step counts."""
    errors.print(f"calibrating with {plan.steps} measurements")
    async with telling(running.socket) as teller, LiveEngine.connect(running.engine, "unused", MODEL) as engine:
        await teller.configure("tiered-justitia", "engine-time", WEIGHTS)
        return await measure(engine, plan, lambda done, what: None)
