"""Makes runs of applications from a trace of single requests.

A production trace tells when requests came and how long they were, not which run they belonged to. Here consecutive
requests of the trace are grouped into runs of known shapes, and their lengths scaled into a small model's context.
Arrival pattern and the joint distribution of prompt and output lengths are the trace's; the grouping is ours. The
same trace, seed and parameters give the same workload.

Trace files: CSV with `TIMESTAMP,ContextTokens,GeneratedTokens` (Azure's LLM inference traces of 2023).
"""

import csv
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from justitia_simulator.workload import WorkloadRequest, WorkloadRun, WorkloadStage
from justitia_vocabulary.units import ApplicationId, RunId, Seconds, TenantId, Tokens


class TraceError(ValueError):
    """A trace file cannot be used. The text is `file:line: what is wrong`."""


@dataclass(frozen=True, slots=True)
class TraceRequest:
    """One request of a trace; `time` in seconds since the first."""

    time: Seconds
    prompt_tokens: Tokens
    output_tokens: Tokens


@dataclass(frozen=True, slots=True)
class Scale:
    """Lengths of the trace times a factor, cut to what a small model can hold."""

    prompt: float = 0.35
    output: float = 0.4
    maximum_prompt: Tokens = 1536
    maximum_output: Tokens = 256
    minimum_prompt: Tokens = 16
    minimum_output: Tokens = 4

    def request(self, traced: TraceRequest) -> WorkloadRequest:
        prompt, output = round(traced.prompt_tokens * self.prompt), round(traced.output_tokens * self.output)
        return WorkloadRequest(self.cut_prompt(prompt), min(max(output, self.minimum_output), self.maximum_output))

    def cut_prompt(self, tokens: Tokens) -> Tokens:
        return min(max(tokens, self.minimum_prompt), self.maximum_prompt)


def load_trace(path: Path) -> list[TraceRequest]:
    """The trace's requests in order of time. Raises TraceError or OSError."""
    requests: list[tuple[datetime, Tokens, Tokens]] = []
    with path.open(newline="", encoding="utf-8") as file:
        rows = csv.DictReader(file)
        for row in rows:
            try:
                # Seven digits of a second: the datetime parser takes six.
                moment = datetime.fromisoformat(row["TIMESTAMP"][:26])
                requests.append((moment, int(row["ContextTokens"]), int(row["GeneratedTokens"])))
            except (KeyError, TypeError, ValueError):
                columns = "TIMESTAMP,ContextTokens,GeneratedTokens: a time and two whole numbers"
                raise TraceError(f"{path}:{rows.line_num}: expected {columns}") from None
    if not requests:
        raise TraceError(f"{path}:1: no requests in the file")
    requests.sort(key=lambda r: r[0])
    start = requests[0][0]
    return [TraceRequest((moment - start).total_seconds(), p, d) for moment, p, d in requests]


class Source:
    """Consecutive requests of a trace from a seeded position on, round and round."""

    def __init__(self, trace: Sequence[TraceRequest], scale: Scale, rng: random.Random) -> None:
        self._trace = trace
        self._position = rng.randrange(len(trace))
        self.scale = scale
        self.rng = rng

    def take(self, count: int = 1) -> list[WorkloadRequest]:
        taken = [self._trace[(self._position + i) % len(self._trace)] for i in range(count)]
        self._position += count
        return [self.scale.request(t) for t in taken]

    def after(self, outputs: Sequence[WorkloadRequest]) -> WorkloadRequest:
        """The next request, reading the outputs of these: its prompt is as long as they are together."""
        [request] = self.take()
        return WorkloadRequest(self.scale.cut_prompt(sum(r.output_tokens for r in outputs)), request.output_tokens)

    def arrivals(self, count: int, window: Seconds) -> list[Seconds]:
        """Arrival times of `count` consecutive requests of the trace, stretched over [0, window]."""
        if count > len(self._trace):
            raise ValueError(
                f"{count} runs of one tenant from a trace of {len(self._trace)} requests: use a longer trace"
            )
        first = self.rng.randrange(len(self._trace) - count + 1)
        times = [r.time for r in self._trace[first : first + count]]
        span = times[-1] - times[0] or 1.0
        return [round((t - times[0]) / span * window, 3) for t in times]


Shape = Callable[[Source], tuple[WorkloadStage, ...]]


def map_reduce_summary(source: Source) -> tuple[WorkloadStage, ...]:
    """Three to eight parts summarised in parallel, then their summaries merged."""
    parts = source.take(source.rng.randint(3, 8))
    return WorkloadStage(tuple(parts)), WorkloadStage((source.after(parts),))


def self_consistency(source: Source) -> tuple[WorkloadStage, ...]:
    """Three to six parallel samples of one prompt."""
    samples = source.take(source.rng.randint(3, 6))
    return (WorkloadStage(tuple(WorkloadRequest(samples[0].prompt_tokens, s.output_tokens) for s in samples)),)


def code_checking(source: Source) -> tuple[WorkloadStage, ...]:
    """One request that writes, then three that check what it wrote, after a short tool run."""
    [written] = source.take()
    prompt = source.scale.cut_prompt(written.prompt_tokens + written.output_tokens)
    checks = tuple(WorkloadRequest(prompt, r.output_tokens) for r in source.take(3))
    return WorkloadStage((written,)), WorkloadStage(checks, delay=0.4)


def fact_verification(source: Source) -> tuple[WorkloadStage, ...]:
    """Two to four requests one after the other, each after a look-up."""
    requests = source.take(source.rng.randint(2, 4))
    return tuple(WorkloadStage((r,), delay=0.8 if i else 0.0) for i, r in enumerate(requests))


def chat(source: Source) -> tuple[WorkloadStage, ...]:
    """A single request."""
    return (WorkloadStage(tuple(source.take())),)


SHAPES: dict[str, Shape] = {
    "map-reduce-summary": map_reduce_summary,
    "self-consistency": self_consistency,
    "code-checking": code_checking,
    "fact-verification": fact_verification,
    "chat": chat,
}


@dataclass(frozen=True, slots=True)
class TenantTraffic:
    """What one tenant sends: runs of its applications in turn until they come to `work`, over `window` seconds.

    `work` is in weighted tokens (prompt + 2 * output). `applications` are names of :data:`SHAPES`.
    """

    tenant: str
    applications: tuple[str, ...]
    work: float
    window: Seconds
    scale: Scale = Scale()

    def asking(self, work: float, window: Seconds) -> "TenantTraffic":
        """The same kind of load in another amount."""
        return replace(self, work=work, window=window)


def tenant_runs(trace: Sequence[TraceRequest], load: TenantTraffic, *, seed: int) -> list[WorkloadRun]:
    """The tenant's runs in order of arrival."""
    source = Source(trace, load.scale, random.Random(f"{seed}/{load.tenant}"))
    built: list[tuple[str, tuple[WorkloadStage, ...]]] = []
    work = 0.0
    while work < load.work:
        application = load.applications[len(built) % len(load.applications)]
        stages = SHAPES[application](source)
        built.append((application, stages))
        work += sum(r.prompt_tokens + 2 * r.output_tokens for stage in stages for r in stage.requests)
    arrivals = source.arrivals(len(built), load.window)
    return [
        WorkloadRun(
            RunId(f"{load.tenant}-{number}"), TenantId(load.tenant), ApplicationId(application), arrival, stages
        )
        for number, ((application, stages), arrival) in enumerate(zip(built, arrivals, strict=True))
    ]


def demo_workload(
    trace: Sequence[TraceRequest],
    *,
    seed: int = 1,
    flood_seconds: Seconds = 60.0,
    research_work: float = 150_000,
    batch_work: float = 150_000,
    support_work: float = 30_000,
    support_seconds: Seconds = 60.0,
    scale: Scale = Scale(),
) -> list[WorkloadRun]:
    """Three tenants: `research` and `batch` flood for `flood_seconds`, `support` is light for `support_seconds`.

    Work is in weighted tokens (prompt + 2 * output) and comes in whole runs, so a tenant exceeds it by part of a run.
    """
    loads = (
        TenantTraffic("research", ("map-reduce-summary", "self-consistency"), research_work, flood_seconds, scale),
        TenantTraffic("batch", ("code-checking", "fact-verification"), batch_work, flood_seconds, scale),
        TenantTraffic("support", ("chat",), support_work, support_seconds, scale),
    )
    runs = [run for load in loads for run in tenant_runs(trace, load, seed=seed)]
    return sorted(runs, key=lambda run: run.arrival)
