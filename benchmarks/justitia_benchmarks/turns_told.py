"""What a policy may know of sessions of agents when they begin, to see what predicting would be worth.

What a session costs depends on what the cache finds, so the costs are those of the same sessions served by the same
policy without any prediction. A prediction *by turns* is the application's: ln C = a + b ln(number of turns), fitted
to these.
"""

import math
import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from enum import StrEnum

import numpy as np

from justitia_scheduling.core.model import kv_token_time
from justitia_simulator.prediction import PredictionSource, Told
from justitia_simulator.records import PolicyResults
from justitia_simulator.workload import WorkloadRun
from justitia_vocabulary.units import RunId

OFF_BY = 2.0


class Known(StrEnum):
    """What a policy knows of each session."""

    COST = "told costs"
    CACHED = "told costs as if all were cached"
    TURNS = "told numbers of turns"
    ROUGHLY = "told numbers of turns, off by up to 2"


def prediction(known: Known, runs: Sequence[WorkloadRun], served: PolicyResults, seed: int) -> PredictionSource:
    """Tells what is known of these runs, which were `served` when nothing was told."""
    found = {(r.run, r.stage): r.cached_tokens for r in served.requests}
    match known:
        case Known.COST:
            told = {run.id: _cost(run, lambda run, stage: found[run.id, stage]) for run in runs}
        case Known.CACHED:
            told = {run.id: _cost(run, lambda run, stage: run.requests[stage].prefix_tokens) for run in runs}
        case Known.TURNS | Known.ROUGHLY:
            told = _by_turns(runs, prediction(Known.COST, runs, served, seed).tell(runs))
    if known is Known.ROUGHLY:
        rng, spread = random.Random(f"{seed}/roughly"), math.log(OFF_BY)
        told = {run: each.scaled(math.exp(rng.uniform(-spread, spread))) for run, each in told.items()}
    return PredictionSource(known, lambda _: told)


def _cost(run: WorkloadRun, cached: Callable[[WorkloadRun, int], int]) -> Told:
    """The cost where so many tokens of each prompt are found in the cache. A session has one request at a time."""
    requests = [(r.prompt_tokens - cached(run, stage), r.output_tokens) for stage, r in enumerate(run.requests)]
    cost = sum(kv_token_time(prompt, output) for prompt, output in requests)
    prompts, outputs = (float(sum(tokens)) for tokens in zip(*requests, strict=True))
    return Told(float(cost), [None] * len(requests), prompts, outputs)


def _by_turns(runs: Sequence[WorkloadRun], costs: dict[RunId, Told]) -> dict[RunId, Told]:
    of_application: defaultdict[str, list[WorkloadRun]] = defaultdict(list)
    for run in runs:
        of_application[run.application].append(run)
    told = {}
    for alike in of_application.values():
        turns = np.log([len(run.requests) for run in alike])
        figures = np.array([(costs[r.id].cost, costs[r.id].prompt_tokens, costs[r.id].output_tokens) for r in alike])
        slopes, constants = np.polyfit(turns, np.log(np.maximum(figures.astype(float), 1.0)), 1)
        for run, expected in zip(alike, np.exp(constants + np.outer(turns, slopes)), strict=True):
            cost, prompt, output = map(float, expected)
            told[run.id] = Told(cost, [None] * len(run.requests), prompt, output)
    return told
