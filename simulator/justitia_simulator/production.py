"""A production trace served as it is: every request a run of its own, drawn onto tenants by weight.

CSV (`TIMESTAMP,ContextTokens,GeneratedTokens`, Azure) or JSON Lines (`timestamp` in ms, `input_length`,
`output_length`, `hash_ids` of 512-token blocks, Mooncake FAST'25). A prompt's prefix is its longest leading chain of
blocks that some other prompt of the trace begins with too. A request names one prefix only, so prompts whose chains
part at different places do not share what they have in common before. Times in seconds.
"""

import random
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import msgspec

from justitia_simulator.traces import TraceError, load_trace
from justitia_simulator.workload import MAXIMUM_TOKENS, WorkloadRequest, WorkloadRun, WorkloadStage
from justitia_vocabulary.units import ApplicationId, RunId, TenantId, Tokens

BLOCK: Tokens = 512

_Count = Annotated[int, msgspec.Meta(ge=1, le=MAXIMUM_TOKENS)]


class _Line(msgspec.Struct, frozen=True):
    timestamp: Annotated[float, msgspec.Meta(ge=0, le=1e12)]
    input_length: _Count
    output_length: _Count
    hash_ids: tuple[int, ...] = ()


def trace_workload(path: Path, tenants: Mapping[str, float], *, seed: int) -> list[WorkloadRun]:
    """The trace's requests in order of arrival. Raises TraceError or OSError."""
    rng = random.Random(f"{seed}/tenants")
    if path.suffix == ".jsonl":
        requests = _with_prefixes(path)
    else:
        requests = [(t.time, WorkloadRequest(t.prompt_tokens, t.output_tokens)) for t in load_trace(path)]
    owners = rng.choices(list(tenants), list(tenants.values()), k=len(requests))
    return [
        WorkloadRun(RunId(f"r{i}"), TenantId(owner), ApplicationId("trace"), arrival, (WorkloadStage((request,)),))
        for i, (owner, (arrival, request)) in enumerate(zip(owners, requests, strict=True))
    ]


def _with_prefixes(path: Path) -> list[tuple[float, WorkloadRequest]]:
    lines: list[_Line] = []
    for number, raw in enumerate(path.read_bytes().splitlines(), 1):
        try:
            lines.append(msgspec.json.decode(raw, type=_Line))
        except msgspec.DecodeError as error:
            raise TraceError(f"{path}:{number}: {error}") from None
    if not lines:
        raise TraceError(f"{path}:1: no requests in the file")
    lines.sort(key=lambda line: line.timestamp)
    # A block's id stands for the whole chain up to it.
    seen = Counter(block for line in lines for block in set(line.hash_ids))
    requests = []
    for line in lines:
        shared = next((i for i, block in enumerate(line.hash_ids) if seen[block] == 1), len(line.hash_ids))
        prefix = str(line.hash_ids[shared - 1]) if shared else None
        tokens = min(shared * BLOCK, line.input_length)
        requests.append((line.timestamp / 1000, WorkloadRequest(line.input_length, line.output_length, prefix, tokens)))
    return requests
