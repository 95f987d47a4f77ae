"""How the paper's workload is served here.

*Workload.* 300 runs with exact class counts; arrivals shaped like Mooncake's in windows of 18, 9 and 6 minutes, the
paper's densities 1x, 2x and 3x. One more load, `u=2.5, no DM`, leaves out the three runs of document merging, which are
most of the work, and stretches the arrivals of the others to that offered load u. Nothing is shared between prompts:
the paper counts each prompt whole. The few prompts that would not fit the smallest KV space are cut to it.

*Engines.* vLLM as the paper had it: prompts prefilled in steps of their own, optimistic admission, blocks of 16 tokens,
KV swapped to the host where it runs out. Step times are those of `a100-40g-llama2-7b` (put together from measured
parts, not validated end to end), for larger models by a rule that was not measured either:

- linear layers: × parameters / 6.74e9 × 1,555 GB/s / memory bandwidth (of all GPUs together);
- reading a KV token: × its bytes / 524,288 × the same ratio of bandwidths; swapping it: × bytes / 524,288 / GPUs;
- overhead of a step: the same. What tensor parallelism spends between GPUs is left out.

KV space: the paper gives it for 7B only, 459 blocks of 16, 7,344 tokens. 13B on four V100 has the same, since what 90 %
of the memory leaves (33,700 tokens) is not contended in any window; 32B on an H800 has what 90 % leaves, 20,976.

*Policies.* Tenants are charged engine time, except under VTC: there each run is a client of its own and pays p + 2d,
the paper's baseline. All other policies see one tenant.
"""

from dataclasses import dataclass, replace

import msgspec

from justitia_benchmarks.experiments.agent_runs import full_iteration
from justitia_scheduling.baselines.registry import build_policy
from justitia_scheduling.core.cost import EngineTime, WeightedTokens
from justitia_scheduling.core.policy import Policy
from justitia_simulator.arrivals import offered_load, scaled_to_load
from justitia_simulator.engine import Engine
from justitia_simulator.prediction import PredictionSource
from justitia_simulator.profiles import EngineProfile, Preemption, find_profile
from justitia_simulator.records import PolicyResults
from justitia_simulator.suite import agent_suite, per_run
from justitia_simulator.timing import LayerTiming
from justitia_simulator.workload import WorkloadRequest, WorkloadRun
from justitia_vocabulary.units import Seconds, Tokens

BASE = "a100-40g-llama2-7b"
WINDOWS: dict[str, Seconds] = {"1x": 1080.0, "2x": 540.0, "3x": 360.0}
WITHOUT_DM = "u=2.5, no DM"
LOADS = (*WINDOWS, WITHOUT_DM)
CONTENDED_LOAD = 2.5
LARGEST_CLASS = "DM"


@dataclass(frozen=True)
class ServedModel:
    """`parameters` in 1e9, `bandwidth` in GB/s of all `gpus`, `kv_bytes` a token of KV takes, KV space in tokens."""

    parameters: float
    bandwidth: float
    kv_bytes: int
    kv_tokens: Tokens
    gpus: int = 1


REFERENCE = "7B"
MODELS = {
    REFERENCE: ServedModel(6.74, 1555, 524_288, 7_344),
    "13B": ServedModel(13.0, 4 * 900, 819_200, 7_344, gpus=4),
    "32B": ServedModel(32.8, 2039, 262_144, 20_976),
}


def profile_of(model: str) -> EngineProfile:
    """The engine that serves the model, by the rule above."""
    served, first, base = MODELS[model], MODELS[REFERENCE], find_profile(BASE)
    assert isinstance(base.timing, LayerTiming)
    layers = served.parameters / first.parameters * first.bandwidth / served.bandwidth
    kv = served.kv_bytes / first.kv_bytes
    timing = LayerTiming(
        tuple((tokens, seconds * layers) for tokens, seconds in base.timing.layers),
        base.timing.per_kv_token * kv * first.bandwidth / served.bandwidth,
        base.timing.overhead,
    )
    return msgspec.structs.replace(
        base,
        name=model,
        timing=timing,
        kv_tokens=served.kv_tokens,
        token_budget=None,
        preemption=Preemption.SWAP,
        swap_per_token=base.swap_per_token * kv / served.gpus,
    )


def suite(seed: int, load: str, count: int = 300, model: str = REFERENCE) -> list[WorkloadRun]:
    """`count` runs at one of :data:`LOADS`; without document merging there are fewer."""
    window = WINDOWS.get(load, WINDOWS["2x"]) * count / 300
    runs = [as_served(run) for run in agent_suite(count, seed=seed, window=window)]
    if load in WINDOWS:
        return runs
    profile = profile_of(model)
    others = [run for run in runs if run.application != LARGEST_CLASS]
    return scaled_to_load(others, CONTENDED_LOAD, profile.kv_tokens, full_iteration(others, profile))


def load_of(workload: list[WorkloadRun], model: str) -> float:
    """The offered load u."""
    profile = profile_of(model)
    return offered_load(workload, profile.kv_tokens, full_iteration(workload, profile))


def serve(
    policy: str, workload: list[WorkloadRun], prediction: PredictionSource, model: str = REFERENCE
) -> PolicyResults:
    """Serve the workload under the policy, as the module says."""
    runs = per_run(workload) if policy == "vtc" else workload
    return serve_under([built(policy, model)], policy, runs, prediction, model)


def built(policy: str, model: str = REFERENCE) -> Policy:
    """The policy with the cost model that it has here."""
    return build_policy(policy, WeightedTokens() if policy == "vtc" else EngineTime(profile_of(model).charge))


def serve_under(
    policies: list[Policy], label: str, workload: list[WorkloadRun], prediction: PredictionSource, model: str
) -> PolicyResults:
    """Serve the workload on one engine for each policy."""
    engine = Engine(policies, profile_of(model), label=label, prediction=prediction, sample_every=1e9)
    return engine.serve(workload)


def as_served(run: WorkloadRun) -> WorkloadRun:
    """The run with prompts of its own that fit every model's KV space."""
    space = min(served.kv_tokens for served in MODELS.values())

    def request(r: WorkloadRequest) -> WorkloadRequest:
        output = min(r.output_tokens, space - 1)
        return WorkloadRequest(min(r.prompt_tokens, space - output), output)

    return replace(
        run, stages=tuple(replace(stage, requests=tuple(map(request, stage.requests))) for stage in run.stages)
    )
