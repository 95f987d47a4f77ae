"""Plans what is measured of an engine and in which order, and measures it.

- Warm-up: a few small batches, so that nothing is compiled or connected for the first time later.
- *Lone prompts* of several lengths, one token of output each: the time to the first token.
- *Batches* of 1, 2, 4, ... requests that decode together, at a short context and, every second size, at the longest
  that fits the KV space side by side: the duration of a step while all of them decode.
- *Arrivals*: short and longer prompts sent at once to a batch that decodes: the time to the last of their first tokens,
  and the steps that the batch saw in it. This is what a loaded engine does: it reads prompts and decodes in one step.
- *A mixed load* that the fit does not see: a few clients that send one request after another, of mixed lengths. The
  simulator's figure for the same load shows the profile's error.

Each point is measured `rounds` times, one whole round after another. So a machine that is busy for a while disturbs one
repetition of many points, and not all repetitions of one.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from justitia_cli.calibrate_engine import LiveEngine, Timeline, all_of
from justitia_simulator.calibration import ArrivalSample, CalibrationError, DecodeSample, PrefillSample
from justitia_simulator.workload import WorkloadRequest, WorkloadRun, WorkloadStage
from justitia_vocabulary.units import ApplicationId, RunId, Seconds, TenantId, Tokens

SHORT_PROMPT = 16
WINDOW_STEPS = 40
"""Steps for which all requests of a batch decode together."""

ARRIVALS = ((2, 4), (4, 8), (8, 16))
"""How many requests decode, and how many prompts arrive."""

LARGEST_BATCH = 64
"""Larger batches take long and are seldom reached."""

MIXED_CLIENTS, MIXED_REQUESTS = 4, 3
MIXED_OUTPUT = (4, 64)
WARM_UPS = 3

Report = Callable[[int, str], None]


@dataclass(frozen=True, slots=True)
class Limits:
    """The engine's limits: tokens of one request, tokens of all, requests at once, prompt tokens in a step."""

    longest: Tokens
    kv_tokens: Tokens
    requests: int
    token_budget: Tokens


@dataclass(frozen=True, slots=True)
class Batch:
    """`size` requests that decode together, with prompts and outputs of these lengths."""

    size: int
    prompt_tokens: Tokens
    output_tokens: Tokens

    @property
    def kv_tokens(self) -> Tokens:
        """KV tokens that a step in the middle of their outputs reads."""
        return self.size * (self.prompt_tokens + self.output_tokens // 2)


@dataclass(frozen=True, slots=True)
class Arrivals:
    """`prompts` of `prompt_tokens` each, which arrive once all of the batch decode."""

    batch: Batch
    prompts: int
    prompt_tokens: Tokens


@dataclass(frozen=True, slots=True)
class CalibrationPlan:
    """The points to measure, each `rounds` times, and the mixed load."""

    prompts: tuple[Tokens, ...]
    batches: tuple[Batch, ...]
    arrivals: tuple[Arrivals, ...]
    mixed: tuple[WorkloadRun, ...]
    rounds: int

    @property
    def steps(self) -> int:
        return WARM_UPS + self.rounds * (len(self.prompts) + len(self.batches) + len(self.arrivals) + 1)


@dataclass(frozen=True, slots=True)
class Measurements:
    decode: tuple[DecodeSample, ...]
    prefill: tuple[PrefillSample, ...]
    arrivals: tuple[ArrivalSample, ...]
    mixed: tuple[Seconds, ...]
    """Mean duration of the mixed load's clients, for each round."""


def plan_measurements(limits: Limits, rounds: int) -> CalibrationPlan:
    """Plan points that fit the engine, from a single short request to as many as it takes."""
    return CalibrationPlan(
        tuple(_prompts(limits)), tuple(_batches(limits)), tuple(_arrivals(limits)), _mixed(limits), rounds
    )


def _prompts(limits: Limits) -> Iterator[Tokens]:
    """Lengths 16, 64, 256, then doubled, and the longest: from 256 on the prompt outweighs the rest."""
    longest = min(limits.longest, limits.kv_tokens) - 1
    length = SHORT_PROMPT
    while length < longest * 0.75:
        yield length
        length *= 4 if length < 256 else 2
    yield longest


def _batches(limits: Limits) -> Iterator[Batch]:
    size, long_too = 1, True
    while size <= min(limits.requests, LARGEST_BATCH):
        # Behind a gateway that sends few at once, every second request may come a step later than the one before.
        output = WINDOW_STEPS + size
        room = int(limits.kv_tokens * 0.9) // size
        if SHORT_PROMPT + output > min(room, limits.longest):
            return
        yield Batch(size, SHORT_PROMPT, output)
        # Prompts may fill several steps: those that are read first decode while others are still being read.
        output += -(-size * min(room, limits.longest) // limits.token_budget)
        long = min(room, limits.longest) - output
        if long_too and long >= 4 * SHORT_PROMPT:
            yield Batch(size, long, output)
        size, long_too = size * 2, not long_too


def _arrivals(limits: Limits) -> Iterator[Arrivals]:
    """Prompts of 16 and, if they fit, of 256 tokens, beside batches that decode until all of them have arrived."""
    for decoding, prompts in ARRIVALS:
        output = WINDOW_STEPS + decoding + 2 * prompts
        batch = Batch(decoding, SHORT_PROMPT, output)
        room = int(limits.kv_tokens * 0.9) - decoding * (SHORT_PROMPT + output)
        if decoding >= limits.requests or SHORT_PROMPT + output > limits.longest:
            continue
        for length in (SHORT_PROMPT, 16 * SHORT_PROMPT):
            if length < min(limits.longest, room // prompts):
                yield Arrivals(batch, prompts, length)


def _mixed(limits: Limits) -> tuple[WorkloadRun, ...]:
    """Clients as runs with one request in each stage: a request is sent when the one before has been answered."""
    drawn = random.Random(1)
    most = min(limits.longest, limits.kv_tokens // MIXED_CLIENTS)
    prompts = range(SHORT_PROMPT, most - MIXED_OUTPUT[1])
    if not prompts:
        raise CalibrationError(
            f"the longest requests that fit {MIXED_CLIENTS} at a time have {most} tokens: too short to calibrate with"
        )
    return tuple(
        WorkloadRun(
            RunId(f"client-{number}"),
            TenantId("calibration"),
            ApplicationId("mixed"),
            0.0,
            tuple(
                WorkloadStage((WorkloadRequest(drawn.choice(prompts), drawn.randint(*MIXED_OUTPUT)),))
                for _ in range(MIXED_REQUESTS)
            ),
        )
        for number in range(MIXED_CLIENTS)
    )


async def measure(engine: LiveEngine, plan: CalibrationPlan, report: Report) -> Measurements:
    """Carry out the plan. `report` gets the number of steps that are done, and what comes next. Raises
    CalibrationError.
    """
    decode: list[DecodeSample] = []
    prefill: list[PrefillSample] = []
    arrivals: list[ArrivalSample] = []
    mixed: list[Seconds] = []
    done = 0

    def show(what: str) -> None:
        nonlocal done
        report(done, what)
        done += 1

    counts = 0
    for _ in range(WARM_UPS):
        show("warming up")
        counts += sum(len(t.produced) - 1 for t in await engine.together([SHORT_PROMPT] * 4, WINDOW_STEPS))
    if not counts:
        raise CalibrationError(
            f"the endpoint counts its {WINDOW_STEPS} tokens only at the end: calibration needs usage in every chunk, "
            "as vLLM sends it (stream_options.continuous_usage_stats)"
        )
    for _ in range(plan.rounds):
        for tokens in plan.prompts:
            show(f"prompts of {tokens} tokens")
            timeline = await engine.request(tokens, 1)
            prefill.append(PrefillSample(tokens, timeline.first - timeline.sent))
        for batch in plan.batches:
            show(f"{batch.size} decoding at {batch.prompt_tokens} tokens")
            timelines = await engine.together([batch.prompt_tokens] * batch.size, batch.output_tokens)
            if (step := step_duration(timelines)) is not None:
                decode.append(DecodeSample(batch.size, batch.kv_tokens, step))
        for each in plan.arrivals:
            show(f"{each.prompts} prompts of {each.prompt_tokens} beside {each.batch.size} decoding")
            batch = each.batch
            decoding, arrived = await engine.arriving(
                [batch.prompt_tokens] * batch.size, batch.output_tokens, [each.prompt_tokens] * each.prompts
            )
            if (seen := steps_seen(decoding, arrived)) is not None:
                arrivals.append(ArrivalSample(batch.size, batch.kv_tokens, each.prompts, each.prompt_tokens, *seen))
        show("a mixed load")
        mixed.append(await _serve_mixed(engine, plan.mixed))
    return Measurements(tuple(decode), tuple(prefill), tuple(arrivals), tuple(mixed))


async def _serve_mixed(engine: LiveEngine, clients: Sequence[WorkloadRun]) -> Seconds:
    async def serve(client: WorkloadRun) -> Seconds:
        timelines = [await engine.request(r.prompt_tokens, r.output_tokens) for r in client.requests]
        return timelines[-1].last - timelines[0].sent

    return fmean(await all_of([serve(client) for client in clients]))


def step_duration(timelines: Sequence[Timeline]) -> Seconds | None:
    """The duration of a step while all of these requests decode. None if they hardly decoded at the same time.

    It is the median slope of moment against tokens over all pairs of events (Theil-Sen), so chunks that a stall held
    back and then let go together are outvoted.
    """
    begin, end = max(t.first for t in timelines), min(t.last for t in timelines)
    slopes: list[float] = []
    for timeline in timelines:
        inside = [event for event in timeline.produced if begin <= event[0] <= end]
        if len(inside) < 2 or inside[-1][1] - inside[0][1] < WINDOW_STEPS // 4:
            continue
        moments, tokens = np.array(inside).T
        first, second = np.triu_indices(len(inside), 1)
        slopes.append(float(np.median((moments[second] - moments[first]) / (tokens[second] - tokens[first]))))
    slope = float(np.median(slopes)) if slopes else 0.0
    return slope if slope > 0 else None


def steps_seen(decoding: Sequence[Timeline], arrived: Sequence[Timeline]) -> tuple[float, Seconds] | None:
    """The steps from the sending of the first arrival to the first token of the last one, as tokens that each of the
    batch produced on average, and the seconds. None if one of the batch did not decode all that time.
    """
    begin, end = min(t.sent for t in arrived), max(t.first for t in arrived)
    if any(t.first > begin or t.last < end for t in decoding):
        return None
    return fmean(produced_until(t, end) - produced_until(t, begin) for t in decoding), end - begin


def produced_until(timeline: Timeline, moment: Seconds) -> Tokens:
    return max((tokens for when, tokens in timeline.produced if when <= moment), default=0)
