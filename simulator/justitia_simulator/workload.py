"""Workload files: who asks what of the engine, and when. The same file drives simulation and live replay.

JSON Lines (`.jsonl`, `.jsonl.gz`), one request a line:

    {"run": "r17", "tenant": "t1", "application": "EV", "arrival": 12.5, "stage": 0, "delay": 0.0,
     "prompt_tokens": 415, "output_tokens": 48}

`arrival` is the run's, in seconds from the start, the same on all its lines. The requests of stage k become ready
`delay` seconds (tool time) after the last one of stage k-1 has finished; those of stage 0 `delay` seconds after
the arrival. Optional: the run's `predicted_cost` in KV token-time, and what its prompt has in common with others'
(:mod:`.contexts`): it begins with the first `prefix_tokens` tokens of the text `prefix`, and with its output it is the
beginning of the run's `context`, or what that goes on with. Two turns of a conversation after a system prompt have

    "stage": 0, "prompt_tokens": 900, "output_tokens": 50, "prefix": "system", "prefix_tokens": 800, "context": "main"
    "stage": 1, "prompt_tokens": 990, "output_tokens": 40, "prefix": "main", "prefix_tokens": 950, "context": "main"

Fields with other names are kept and written back.

A file is accepted whole or refused with the number of the first bad line.
"""

import gzip
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import msgspec

from justitia_scheduling.core.model import kv_token_time
from justitia_simulator.contexts import ContextError, Contexts
from justitia_simulator.files import write_lines
from justitia_vocabulary.units import ApplicationId, KVTokenTime, RunId, Seconds, TenantId, Tokens

MAXIMUM_TOKENS = 10_000_000
MAXIMUM_SECONDS = 1e9
"""Thirty years; beyond it a float loses the microsecond."""


class WorkloadError(ValueError):
    """A workload file cannot be used. The text is `file:line: what is wrong`."""


@dataclass(frozen=True, slots=True)
class WorkloadRequest:
    """One request of a run."""

    prompt_tokens: Tokens
    output_tokens: Tokens
    prefix: str | None = None
    prefix_tokens: Tokens = 0
    extra: Mapping[str, object] = field(default_factory=dict)
    context: str | None = None

    @property
    def cost(self) -> KVTokenTime:
        return kv_token_time(self.prompt_tokens, self.output_tokens)


@dataclass(frozen=True, slots=True)
class WorkloadStage:
    """Requests of a run that become ready together, `delay` seconds after the stage before has finished."""

    requests: tuple[WorkloadRequest, ...]
    delay: Seconds = 0.0


@dataclass(frozen=True, slots=True)
class WorkloadRun:
    """One execution of an application."""

    id: RunId
    tenant: TenantId
    application: ApplicationId
    arrival: Seconds
    stages: tuple[WorkloadStage, ...]
    predicted_cost: KVTokenTime | None = None

    @property
    def cost(self) -> KVTokenTime:
        """True cost in KV token-time."""
        return sum(r.cost for r in self.requests)

    @property
    def requests(self) -> tuple[WorkloadRequest, ...]:
        return tuple(r for stage in self.stages for r in stage.requests)


NonNegative = Annotated[float, msgspec.Meta(ge=0, le=MAXIMUM_SECONDS)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=253)]
TokenCount = Annotated[int, msgspec.Meta(ge=1, le=MAXIMUM_TOKENS)]


class _Line(msgspec.Struct, frozen=True):
    run: Name
    tenant: Name
    application: Name
    arrival: NonNegative
    prompt_tokens: TokenCount
    output_tokens: TokenCount
    stage: Annotated[int, msgspec.Meta(ge=0, le=100_000)] = 0
    delay: NonNegative = 0.0
    prefix: Name | None = None
    prefix_tokens: Annotated[int, msgspec.Meta(ge=0, le=MAXIMUM_TOKENS)] = 0
    context: Name | None = None
    predicted_cost: Annotated[float, msgspec.Meta(gt=0)] | None = None


_KNOWN = frozenset(_Line.__struct_fields__)
_SHARED = ("tenant", "application", "arrival", "predicted_cost")


def load_workload(path: Path) -> list[WorkloadRun]:
    """The runs of a file in order of arrival. Raises WorkloadError (content) or OSError (file)."""
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rb") as lines:
            return parse_workload(lines, str(path))
    except (EOFError, gzip.BadGzipFile) as error:
        raise WorkloadError(f"{path}: is not a readable gzip file: {error}") from None


def parse_workload(lines: Iterable[bytes], name: str) -> list[WorkloadRun]:
    """The runs of these lines in order of arrival, ties in order of appearance; blank lines count and are skipped."""
    runs: dict[str, list[tuple[int, _Line, WorkloadRequest]]] = {}
    for number, raw in enumerate(lines, 1):
        if not raw.strip():
            continue
        try:
            line, extra = _parse_line(raw)
        except (msgspec.DecodeError, ValueError) as error:
            raise WorkloadError(f"{name}:{number}: {error}") from None
        request = WorkloadRequest(
            line.prompt_tokens, line.output_tokens, line.prefix, line.prefix_tokens, extra, line.context
        )
        runs.setdefault(line.run, []).append((number, line, request))
    if not runs:
        raise WorkloadError(f"{name}:1: no requests in the file")
    built = [_build_run(name, entries) for entries in runs.values()]
    return sorted(built, key=lambda run: run.arrival)


def write_workload(runs: Iterable[WorkloadRun], path: Path) -> None:
    """Write the file atomically; compressed if the name ends in `.gz`."""
    write_lines(path, (msgspec.json.encode(line) for run in runs for line in workload_lines(run)))


def workload_lines(run: WorkloadRun) -> Iterator[dict[str, object]]:
    """The run's lines as objects, without fields that are at their default."""
    for index, stage in enumerate(run.stages):
        for request in stage.requests:
            line: dict[str, object] = {
                "run": run.id,
                "tenant": run.tenant,
                "application": run.application,
                "arrival": run.arrival,
                "stage": index,
                "delay": stage.delay,
                "prompt_tokens": request.prompt_tokens,
                "output_tokens": request.output_tokens,
            }
            if request.prefix is not None:
                line |= {"prefix": request.prefix, "prefix_tokens": request.prefix_tokens}
            if request.context is not None:
                line["context"] = request.context
            if run.predicted_cost is not None:
                line["predicted_cost"] = run.predicted_cost
            yield line | dict(request.extra)


def _parse_line(raw: bytes) -> tuple[_Line, dict[str, object]]:
    fields = msgspec.json.decode(raw)
    if not isinstance(fields, dict):
        raise ValueError(f"expected an object with the fields of one request, got {type(fields).__name__}")
    line = msgspec.convert(fields, _Line)
    if line.prefix_tokens > line.prompt_tokens:
        raise ValueError(f"prefix_tokens is {line.prefix_tokens}, more than prompt_tokens {line.prompt_tokens}")
    return line, {k: v for k, v in fields.items() if k not in _KNOWN}


def _build_run(name: str, entries: Sequence[tuple[int, _Line, WorkloadRequest]]) -> WorkloadRun:
    first_number, first, _ = entries[0]
    stages: dict[int, tuple[list[int], Seconds, list[WorkloadRequest]]] = {}
    for number, line, request in entries:
        for shared in _SHARED:
            mine, theirs = getattr(line, shared), getattr(first, shared)
            if mine != theirs:
                raise WorkloadError(
                    f"{name}:{number}: {shared} of run {line.run!r} is {mine!r} here and {theirs!r} on line "
                    f"{first_number}: it must be the same on all lines of a run"
                )
        numbers, delay, requests = stages.setdefault(line.stage, ([], line.delay, []))
        if line.delay != delay:
            raise WorkloadError(
                f"{name}:{number}: delay of stage {line.stage} of run {line.run!r} is {line.delay} here and {delay} "
                f"on line {numbers[0]}: a stage becomes ready as a whole"
            )
        numbers.append(number)
        requests.append(request)
    contexts = Contexts(RunId(first.run))
    for expected, index in enumerate(sorted(stages)):
        numbers, _, requests = stages[index]
        if index != expected:
            raise WorkloadError(f"{name}:{numbers[0]}: run {first.run!r} has stage {index} but no {expected}")
        try:
            contexts.follow(requests)
        except ContextError as error:
            raise WorkloadError(f"{name}:{numbers[error.request]}: run {first.run!r}: {error}") from None
    return WorkloadRun(
        RunId(first.run),
        TenantId(first.tenant),
        ApplicationId(first.application),
        first.arrival,
        tuple(WorkloadStage(tuple(stages[i][2]), stages[i][1]) for i in range(len(stages))),
        first.predicted_cost,
    )
