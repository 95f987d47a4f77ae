"""How the paper's workload is served here.

300 runs with exact class counts, arrivals shaped like Mooncake's in windows of 18, 9 and 6 minutes. Tenants are charged
engine time, except under VTC: there each run is a client of its own and pays p + 2d, the paper's baseline. All other
policies see one tenant.

Engines: Llama-2-7B on an A10G, whose step times were validated against measured runs, and two of the paper's by a rule
that was not: all step times × (parameters / 6.7e9) × (600 GB/s / memory bandwidth), KV space as the paper gives it (459
blocks of 16 for 7B on an A100-PCIe-40GB) or what the weights leave of 90 % of the memory (32B on an H800-PCIe-80GB, 262
kB per token). 13B on four V100 is left out: the rule knows nothing of tensor parallelism over PCIe.
"""

from dataclasses import dataclass

from msgspec.structs import replace

from justitia_scheduling.cost import EngineTime, WeightedTokens
from justitia_scheduling.model import Seconds, Tokens
from justitia_scheduling.registry import build_policy
from justitia_simulator.engine import Engine
from justitia_simulator.prediction import Prediction
from justitia_simulator.profiles import EngineProfile, find_profile
from justitia_simulator.records import PolicyResults
from justitia_simulator.suite import agent_suite, per_run
from justitia_simulator.timing import Coefficients, SeparateTiming
from justitia_simulator.workload import WorkloadRun

WINDOWS: dict[str, Seconds] = {"1x": 1080.0, "2x": 540.0, "3x": 360.0}
BASE = "a10g-llama2-7b"


@dataclass(frozen=True)
class ServedModel:
    """Factor on the A10G's step times, and KV space in tokens."""

    slower: float
    kv_tokens: Tokens


MODELS = {
    "7B-A10G": ServedModel(1.0, 10_000),
    "7B-A100": ServedModel(600 / 1555, 7_344),
    "32B-H800": ServedModel(32.5 / 6.7 * 600 / 2039, 26_000),
}


def profile_of(model: str) -> EngineProfile:
    served, base = MODELS[model], find_profile(BASE)
    assert isinstance(base.timing, SeparateTiming)
    timing = SeparateTiming(
        _scaled(base.timing.decode, served.slower),
        _scaled(base.timing.prefill, served.slower),
        base.timing.overhead * served.slower,
    )
    return replace(base, name=model, timing=timing, kv_tokens=served.kv_tokens, validated=False)


def serve(
    policy: str, workload: list[WorkloadRun], prediction: Prediction, model: str = "7B-A10G", label: str = ""
) -> PolicyResults:
    """Serve the workload under the policy, as the module says."""
    profile = profile_of(model)
    runs, cost = (per_run(workload), WeightedTokens()) if policy == "vtc" else (workload, EngineTime(profile.charge))
    engine = Engine(build_policy(policy, cost), profile, label=label or policy, prediction=prediction, sample_every=1e9)
    return engine.serve(runs)


def suite(seed: int, density: str, count: int = 300) -> list[WorkloadRun]:
    """`count` runs at the density's arrival rate."""
    return agent_suite(count, seed=seed, window=WINDOWS[density] * count / 300)


def jcts(results: PolicyResults) -> dict[str, Seconds]:
    """Completion time of each run."""
    return {run.run: run.jct for run in results.runs if run.jct is not None}


def _scaled(times: Coefficients, factor: float) -> Coefficients:
    return Coefficients(times.per_step * factor, times.per_token * factor, times.per_kv_token * factor)
