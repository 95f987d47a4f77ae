"""What an engine should have done for a request, where nobody says what it did."""

from math import ceil

from justitia_scheduling.core.cost import StepTime
from justitia_sidecar.admission.request import TrackedRequest
from justitia_vocabulary.units import Seconds, Tokens


def presumed(
    request: TrackedRequest, since: Seconds, now: Seconds, times: StepTime, *, running: int, resident: Tokens
) -> tuple[Tokens, Tokens]:
    """Tokens of prompts read and of output produced since the engine was given the request, or began with it, with the
    step under way, which it does not break off; a step serves so many `running` requests of so many tokens. At most
    the prompts and, of an answer that shows nothing before its end, all of its output; at least a token of each.
    """
    step = times.per_step + times.per_token * running + times.per_kv_token * resident
    reading = now - since + step - times.per_step
    if reading < times.per_token * request.account.prompt:
        return max(1, ceil(reading / times.per_token)), 1
    if request.asks.streamed:
        return request.account.prompt, 1
    producing = now - since - times.per_step - times.per_token * request.account.prompt
    return request.account.prompt, request.asks.sequences * min(request.asks.max_tokens, max(1, int(producing / step)))
