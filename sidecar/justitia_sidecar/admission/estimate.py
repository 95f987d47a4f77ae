"""Estimates what an engine did for a request when nobody reports it."""

from math import ceil

from justitia_scheduling.core.cost import StepTime
from justitia_sidecar.admission.request import TrackedRequest
from justitia_vocabulary.units import Seconds, Tokens


def presumed(
    request: TrackedRequest, since: Seconds, now: Seconds, times: StepTime, *, running: int, resident: Tokens
) -> tuple[Tokens, Tokens]:
    """Tokens of prompts that the engine should have read, and of output that it should have produced, since it got the
    request or began with it. The step under way counts as a whole, because the engine does not break it off; a step
    serves `running` requests with `resident` tokens. The result is at most the prompts and, for an answer that is not
    streamed, all of its output; it is at least one token of each.
    """
    step = times.per_step + times.per_token * running + times.per_kv_token * resident
    reading = now - since + step - times.per_step
    if reading < times.per_token * request.account.prompt:
        return max(1, ceil(reading / times.per_token)), 1
    if request.asks.streamed:
        return request.account.prompt, 1
    producing = now - since - times.per_step - times.per_token * request.account.prompt
    return request.account.prompt, request.asks.sequences * min(request.asks.max_tokens, max(1, int(producing / step)))
