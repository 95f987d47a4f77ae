"""What is refused at the door because there is no room for it. Bounds are in sequences: a request is one, or several.

A request that alone is more than a bound allows gets 400: to send it again would not help. Where others are in its
way it gets 429.
"""

from justitia_api.config import TenantLimits
from justitia_api.wire import Refusal
from justitia_scheduling.model import Tokens
from justitia_sidecar.refusals import RefusalError


def check_queue(sequences: int, waiting: int, most: int) -> None:
    """Raises a refusal where the pool's queue, which holds `most`, has no room."""
    _check_alone(sequences, most, "the pool's queue holds")
    if waiting + sequences > most:
        raise RefusalError(
            Refusal.QUEUE_FULL, f"The pool's queue is full ({most} requests): retry later.", retry_after=5
        )


def check_tenant(sequences: int, waiting: int, limits: TenantLimits) -> None:
    """Raises a refusal where the tenant's own limits leave no room."""
    if limits.running_requests is not None:
        _check_alone(sequences, limits.running_requests, "your tenant may have running")
    most = limits.queued_requests
    if most is not None:
        _check_alone(sequences, most, "your tenant may have waiting")
        if waiting + sequences > most:
            raise RefusalError(
                Refusal.TENANT_QUEUE_FULL,
                f"Your tenant has {most} requests waiting, which is its limit: retry later.",
                retry_after=5,
            )


def check_fits(prompt_tokens: Tokens, max_tokens: Tokens, bounds: list[Tokens]) -> None:
    """Raises a refusal with 400 where a sequence can never be served within the bounds."""
    if bounds and prompt_tokens + max(1, max_tokens) > min(bounds):
        raise RefusalError(
            Refusal.PROMPT_TOO_LONG,
            f"{prompt_tokens} prompt tokens and {max_tokens} of output exceed the {min(bounds)} tokens that a "
            "request may have in this pool: shorten the prompt or lower 'max_tokens'.",
            param="max_tokens",
        )


def _check_alone(sequences: int, most: int, whose: str) -> None:
    if sequences > most:
        raise RefusalError(
            Refusal.UNSUPPORTED,
            f"This request asks for {sequences} sequences, but {most} are all that {whose}: lower 'n' or send fewer "
            "prompts at a time.",
            param="n",
        )
