"""Runs, requests, and what one engine step did for them (units: `justitia_vocabulary.units`)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from justitia_vocabulary.units import ApplicationId, KVTokenTime, RequestId, RunId, Seconds, TenantId, Tokens


@dataclass(frozen=True, slots=True)
class Run:
    """One execution of an application: stages of parallel requests, done when the last one is done.

    `predicted_cost` is in KV token-time, `predicted_prompt` and `predicted_output` are in tokens. All are sums over the
    run's requests, and None if nothing predicted them.
    """

    id: RunId
    tenant: TenantId
    application: ApplicationId
    predicted_cost: KVTokenTime | None = None
    predicted_prompt: float | None = None
    predicted_output: float | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """One inference: a prompt to read, then tokens to produce until the engine or the client stops it.

    `predicted_output` is the number of tokens it will produce, if something predicted it (a simulation may tell the
    true one), else None. `expected_prompt` is what is expected of a prompt that has not been counted, of which
    `prompt_tokens` is a lower bound. It decides about order only. `boosted_for` asks for a place by its tail
    for so many seconds from its arrival: its application declares an objective for single requests.
    """

    id: RequestId
    run: RunId
    prompt_tokens: Tokens
    predicted_output: float | None = None
    expected_prompt: Tokens | None = None
    boosted_for: Seconds | None = None


class ApplicationShare(NamedTuple):
    """How an application shares its tenant's service with the tenant's others: by `weight` with those of its own
    `priority`, and after those of a higher one.
    """

    weight: float = 1.0
    priority: int = 0


class Progress(NamedTuple):
    """What one step did for one request.

    `prefilled` counts prompt tokens processed, `produced` new output tokens, each token once in a request's
    life; `recomputed` counts tokens processed again after a preemption.
    """

    request: RequestId
    prefilled: Tokens = 0
    produced: Tokens = 0
    recomputed: Tokens = 0


@dataclass(frozen=True, slots=True)
class Step:
    """One engine iteration, or one observed chunk where iterations cannot be seen.

    `duration` is in engine seconds and None where it cannot be seen (then costs in time are estimated).
    """

    progress: Sequence[Progress]
    duration: Seconds | None = None


def kv_token_time(prompt_tokens: Tokens, output_tokens: Tokens) -> KVTokenTime:
    """Cost of a request: the sum of p + i over its output tokens i = 1..d (Justitia, section IV-A)."""
    return prompt_tokens * output_tokens + output_tokens * (output_tokens + 1) // 2
