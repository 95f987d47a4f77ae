"""What the tail-aware paper's evaluation serves: engines, mixes at a stated utilisation, and the policies by name.

*Utilisation.* A closed backlog of the very same requests is served in order of arrival (`sarathi`). What it processes
a second while requests still wait is the engine's capacity c in tokens; n requests of W tokens altogether arrive at the
rate `rho * c * n / W`. So rho = 1 is what this engine sustains with this mix, chunked prefill and recomputation
included, and a policy that batches better has a little more.
"""

import random
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from msgspec import structs

from justitia_benchmarks.statistics import quantile
from justitia_scheduling.baselines.registry import build_policy
from justitia_scheduling.core.cost import CostModel, WeightedTokens
from justitia_scheduling.core.opened import OpenRequest
from justitia_scheduling.core.policy import Policy
from justitia_scheduling.policies.uniboost import QUANTUM, UniBoost
from justitia_simulator.arrivals import conversation_arrivals
from justitia_simulator.engine import Engine
from justitia_simulator.mixes import (
    CONVERSATION,
    LIGHT_REASONING,
    REASONING,
    RequestKind,
    reasoning_mix,
    starvation_mix,
)
from justitia_simulator.prediction import TRUE
from justitia_simulator.profiles import EngineProfile, Preemption, find_profile
from justitia_simulator.records import PolicyResults, RequestResult
from justitia_simulator.summary import largest_decile, throughput, tpot, ttft, ttlt
from justitia_simulator.workload import WorkloadRequest, WorkloadRun
from justitia_vocabulary.policies import HYSTERESIS, Knob
from justitia_vocabulary.units import Seconds, Tokens

COST = WeightedTokens()
PAPER, PAPER_DELTA = "uniboost-paper", 0.1
CHUNK: Tokens = 1024
NO_SAMPLES: Seconds = 1e5
"""Longer than any request takes alone."""
SWAP = 0.04e-3
"""Seconds to move a token's KV to the host, and again back: the one measured figure, that of the A100-40GB."""

LARGE, SMALL = "a100-80g-llama2-7b", "a100-40g-llama2-7b"
SHORTER = {LARGE: 10_000_000, SMALL: 16_384}
"""No prompt and no output is longer than this: what the small engine's KV cannot hold could never be served."""


def engine_of(name: str, *, swap: bool = False, chunk: Tokens = CHUNK) -> EngineProfile:
    profile = structs.replace(find_profile(name), token_budget=chunk)
    return structs.replace(profile, preemption=Preemption.SWAP, swap_per_token=SWAP) if swap else profile


def mix(name: str, count: int, seed: int, profile: EngineProfile) -> list[WorkloadRun]:
    """`heavy-70` or `light-20`: the part of reasoning requests in per cent; `starvation`: A.3. One a second.

    Heavy lengths are the trace's, light ones end at 4,096 tokens; the rest is conversation.
    """
    if name == "starvation":
        return starvation_mix(count, seed=seed, rho=1.0, service_seconds=_one_second)
    weight, share = name.split("-")
    longest = SHORTER[profile.name]
    lengths = LIGHT_REASONING if weight == "light" else RequestKind(REASONING.lengths, longest, longest)
    return reasoning_mix(
        count, int(share) / 100, seed=seed, rho=1.0, service_seconds=_one_second, reasoning=lengths, other=CONVERSATION
    )


def _one_second(request: WorkloadRequest) -> Seconds:
    return 1.0


def at_load(
    runs: Sequence[WorkloadRun], profile: EngineProfile, rho: float, *, bursty_seed: int | None = None
) -> list[WorkloadRun]:
    """The same requests, their arrivals drawn out or pushed together to this part of the engine's capacity.

    With `bursty_seed` they come in the shape of a conversation trace instead, over the same time.
    """
    work = sum(r.prompt_tokens + r.output_tokens for run in runs for r in run.requests)
    rate = rho * capacity(runs, profile) * len(runs) / work
    moments = [run.arrival / rate for run in runs]
    if bursty_seed is not None:
        rng = random.Random(f"{bursty_seed}/bursts")
        moments = conversation_arrivals(len(runs), len(runs) / rate, rng)
    return [replace(run, arrival=moment) for run, moment in zip(runs, moments, strict=True)]


def capacity(runs: Sequence[WorkloadRun], profile: EngineProfile) -> float:
    """Tokens a second that the engine processes of these requests while some of them still wait."""
    served = serve("sarathi", [replace(run, arrival=0.0) for run in runs], profile).requests
    end = max(r.admitted or 0.0 for r in served)
    return sum((r.prompt_tokens + r.output_tokens) * _part_done(r, end) for r in served) / end


def _part_done(request: RequestResult, moment: Seconds) -> float:
    """At an even pace from its admission to its last token."""
    assert request.admitted is not None
    assert request.finished is not None
    return min(1.0, (moment - request.admitted) / (request.finished - request.admitted))


class WatchedUniBoost(UniBoost):
    """UniBoost that keeps gamma, in 1/s, at the moment of every finished request."""

    def __init__(self, cost_model: CostModel, *, delta: float) -> None:
        super().__init__(cost_model, delta=delta)
        self.timeline: list[tuple[Seconds, float]] = []

    def on_closed(self, request: OpenRequest, finished: bool, now: Seconds) -> None:
        super().on_closed(request, finished, now)
        self.timeline.append((now, self.boosting.tail.gamma))


def contender(name: str) -> Policy:
    """A policy of the registry, or UniBoost with settings: `uniboost:gamma=0.1,quantum=64,delta=0`, gamma fixed.

    `uniboost-paper` has the paper's hysteresis.
    """
    if name == PAPER:
        return UniBoost(COST, delta=PAPER_DELTA)
    name, _, settings = name.partition(":")
    if not settings:
        return build_policy(name, COST)
    given = {key: float(value) for key, value in (setting.split("=") for setting in settings.split(","))}
    policy = UniBoost(COST, quantum=int(given.get("quantum", QUANTUM)))
    knobs = {Knob.HYSTERESIS: given.get("delta", HYSTERESIS)}
    if "gamma" in given:
        knobs |= {Knob.GAMMA_FLOOR: given["gamma"], Knob.GAMMA_CEILING: given["gamma"]}
    policy.tune(knobs)
    return policy


def serve(policy: str | Policy, runs: Sequence[WorkloadRun], profile: EngineProfile) -> PolicyResults:
    """Lengths are told as they will be: only `srpt` and `ltr` look at them."""
    chosen = contender(policy) if isinstance(policy, str) else policy
    return Engine(chosen, profile, label="served", prediction=TRUE, sample_every=NO_SAMPLES).serve(runs)


def alone(runs: Sequence[WorkloadRun], profile: EngineProfile) -> dict[str, float]:
    """Figures of the same requests with the engine to themselves: what no policy can go below."""
    return figures(serve("sarathi", [replace(run, arrival=i * NO_SAMPLES) for i, run in enumerate(runs)], profile))


def figures(results: PolicyResults) -> dict[str, float]:
    """Seconds, tokens a second for `throughput`, preemptions a request."""
    ends = ttlt(results.requests)
    firsts, paces = ttft(results.requests), tpot(results.requests)
    largest = {run.run for run in largest_decile(results.runs)}
    speed = throughput(results.requests)
    assert speed is not None
    return {
        "mean": fmean(ends),
        **{f"p{q * 100:g}": quantile(ends, q) for q in (0.5, 0.9, 0.95, 0.99, 0.999)},
        "max": max(ends),
        "largest": quantile(ttlt(r for r in results.requests if r.run in largest), 0.99),
        "ttft-mean": fmean(firsts),
        **{f"ttft-p{q * 100:g}": quantile(firsts, q) for q in (0.95, 0.99)},
        "tbt-mean": fmean(paces),
        **{f"tbt-p{q * 100:g}": quantile(paces, q) for q in (0.95, 0.99)},
        "throughput": speed["tokens_per_second"],
        "preemptions": fmean(r.preemptions for r in results.requests),
    }
