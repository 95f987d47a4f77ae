"""What is known of a workload once it has been served: requests, runs and a time series of tenants.

All times are seconds from the start of the workload. `arrival` is the run's, `ready` the moment the request could
start (its stage's turn), `admitted` None where the host does not see it. `output_tokens` is what was produced. `cost`
is in KV token-time; `finished` and `jct` are None for a run that did not finish. `status` is `finished`, or why not.
`cached_tokens` of the prompt were found in the prefix cache at the first admission; 0 where the host does not see it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from justitia_scheduling.core.model import kv_token_time
from justitia_vocabulary.units import KVTokenTime, Seconds, Tokens

FINISHED: Final = "finished"


class RequestResult(msgspec.Struct, frozen=True):
    """What happened to one request."""

    policy: str
    run: str
    tenant: str
    application: str
    stage: int
    arrival: Seconds
    ready: Seconds
    admitted: Seconds | None
    first_token: Seconds | None
    finished: Seconds | None
    prompt_tokens: Tokens
    output_tokens: Tokens
    preemptions: int
    status: str
    cached_tokens: Tokens = 0


class RunResult(msgspec.Struct, frozen=True):
    """What happened to one run."""

    policy: str
    run: str
    tenant: str
    application: str
    arrival: Seconds
    finished: Seconds | None
    cost: KVTokenTime
    jct: Seconds | None


class ServiceSample(msgspec.Struct, frozen=True):
    """A tenant at one moment. `service` only grows."""

    policy: str
    time: Seconds
    tenant: str
    service: float
    queued: int
    running: int


@dataclass(frozen=True)
class PolicyResults:
    """All that is known of one policy on one workload; `service_unit` is the unit of the samples' service."""

    policy: str
    requests: Sequence[RequestResult]
    runs: Sequence[RunResult]
    service: Sequence[ServiceSample] = ()
    weights: Mapping[str, float] = field(default_factory=dict)
    service_unit: str = "engine seconds"
    conditions: Mapping[str, object] = field(default_factory=dict)


def run_result(requests: Sequence[RequestResult], expected: int) -> RunResult:
    """The run of these requests; finished if all `expected` requests finished."""
    first = requests[0]
    ends = [r.finished for r in requests if r.status == FINISHED and r.finished is not None]
    finished = max(ends) if len(ends) == expected else None
    return RunResult(
        first.policy,
        first.run,
        first.tenant,
        first.application,
        first.arrival,
        finished,
        sum(kv_token_time(r.prompt_tokens, r.output_tokens) for r in requests if r.output_tokens),
        None if finished is None else finished - first.arrival,
    )
