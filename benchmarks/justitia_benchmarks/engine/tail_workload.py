"""The requests of UniBoost's tail, in the sizes that a small model on a CPU serves in seconds, and their load.

The mix is that of `experiments/boost_serving.py` (tail-aware scheduling, section 4): 70 % reasoning with the lengths of
the trace, the rest conversation, by Poisson. Prompts, outputs and the engine's KV space are `SIZE` of those of the
simulated A100-40GB, so that as many requests run at a time.

*Load.* The same requests, all there from the beginning, are served by arrival; what the engine processes a second while
requests still wait is its capacity c. n requests of W tokens altogether arrive at the rate rho * c * n / W.
"""

from collections.abc import Sequence
from dataclasses import replace

from justitia_benchmarks.engine.servers import Space
from justitia_benchmarks.engine.tail_policies import SIZE
from justitia_benchmarks.engine.workload import BLOCK
from justitia_benchmarks.experiments.boost_serving import SHORTER, SMALL, engine_of, mix
from justitia_simulator.records import RequestResult
from justitia_simulator.workload import WorkloadRequest, WorkloadRun, WorkloadStage
from justitia_vocabulary.units import ApplicationId, Seconds, TenantId, Tokens

RECORDED = engine_of(SMALL)
SPACE = Space(
    blocks=round(RECORDED.kv_tokens * SIZE / BLOCK) + 1, block=BLOCK, longest=2 * round(SHORTER[SMALL] * SIZE) + BLOCK
)
SEATS = 128
TENANT = TenantId("bronze")
APPLICATION = ApplicationId("bench/single")
SHORTEST_PROMPT, SHORTEST_OUTPUT = 8, 2


def requests(name: str, count: int, seed: int) -> list[WorkloadRun]:
    """So many requests of the mix, one a second."""
    return [_small(run) for run in mix(name, count, seed, RECORDED)]


def _small(run: WorkloadRun) -> WorkloadRun:
    (request,) = run.requests
    prompt = max(SHORTEST_PROMPT, round(request.prompt_tokens * SIZE))
    output = max(SHORTEST_OUTPUT, round(request.output_tokens * SIZE))
    stage = WorkloadStage((WorkloadRequest(prompt, output),))
    return replace(run, tenant=TENANT, application=APPLICATION, stages=(stage,))


def at_once(runs: Sequence[WorkloadRun]) -> list[WorkloadRun]:
    return [replace(run, arrival=0.0) for run in runs]


def at_load(runs: Sequence[WorkloadRun], rho: float, capacity: float) -> list[WorkloadRun]:
    """The same requests, their arrivals pushed together to this part of the capacity, in tokens a second."""
    rate = rho * capacity * len(runs) / tokens_of(runs)
    return [replace(run, arrival=run.arrival / rate) for run in runs]


def tokens_of(runs: Sequence[WorkloadRun]) -> Tokens:
    return sum(r.prompt_tokens + r.output_tokens for run in runs for r in run.requests)


def capacity_of(served: Sequence[RequestResult]) -> float:
    """Tokens a second of a closed backlog, until the last of its requests has begun. Each is taken to be processed at
    an even pace from its first token to its last.
    """
    end = max(_first(r) for r in served)
    return sum(r.prompt_tokens + r.output_tokens * _part_done(r, end) for r in served) / end


def _part_done(request: RequestResult, moment: Seconds) -> float:
    assert request.finished is not None
    first = _first(request)
    if request.finished <= first:
        return 1.0
    return min(1.0, (moment - first) / (request.finished - first))


def _first(request: RequestResult) -> Seconds:
    assert request.first_token is not None
    return request.first_token
