"""Refuses requests for which there is no room. Bounds are in sequences: a request is one, or several.

A request that is more than a bound allows by itself gets 400, because sending it again would not help. A request that
does not fit because of others gets 429.
"""

from dataclasses import dataclass

from justitia_api.wire import Refusal
from justitia_sidecar.refusals import RefusalError
from justitia_vocabulary.units import Tokens


@dataclass(frozen=True, slots=True)
class TenantQueue:
    """A tenant's sequences that are `waiting`, and the `most` that may be; None is no bound. What waits in other
    engines leaves `room` for so many here.
    """

    waiting: int
    most: int | None
    room: int | None

    def has_room(self, sequences: int) -> bool:
        return self.room is None or self.waiting + sequences <= self.room


def check_room(sequences: int, pool: int | None, tenant: TenantQueue, most_running: int | None) -> None:
    """Raises a refusal if the tenant's queue has no room, or if the request by itself is more than the pool holds or
    than the tenant may have running.
    """
    _check_alone(sequences, pool, "the pool's queue holds")
    _check_alone(sequences, tenant.most, "your tenant may have waiting")
    _check_alone(sequences, most_running, "your tenant may have running")
    if not tenant.has_room(sequences):
        raise RefusalError(
            Refusal.TENANT_QUEUE_FULL,
            f"Your tenant may have {tenant.most} requests waiting, and there is no room for more of them: retry later.",
            retry_after=5,
        )


def queue_full(most: int | None) -> RefusalError:
    """The refusal for a tenant that holds, or would hold, more of a full queue than its due."""
    return RefusalError(
        Refusal.QUEUE_FULL,
        f"The pool's queue is full ({most} requests), and your tenant's part of it by weight is used up: retry later.",
        retry_after=5,
    )


def check_fits(prompt_tokens: Tokens, max_tokens: Tokens, bounds: list[Tokens]) -> None:
    """Raises a refusal with 400 if a sequence is too long for the bounds, however empty the engine is."""
    if bounds and prompt_tokens + max(1, max_tokens) > min(bounds):
        raise RefusalError(
            Refusal.PROMPT_TOO_LONG,
            f"{prompt_tokens} prompt tokens and {max_tokens} of output exceed the {min(bounds)} tokens that a "
            "request may have in this pool: shorten the prompt or lower 'max_tokens'.",
            param="max_tokens",
        )


def _check_alone(sequences: int, most: int | None, whose: str) -> None:
    if most is not None and sequences > most:
        raise RefusalError(
            Refusal.UNSUPPORTED,
            f"This request asks for {sequences} sequences, but {most} are all that {whose}: lower 'n' or send fewer "
            "prompts at a time.",
            param="n",
        )
