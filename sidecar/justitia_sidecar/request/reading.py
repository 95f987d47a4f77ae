"""Reads a request's body on the account of its tenant (`held.py`), and holds it until the engine has it, or longer."""

from collections.abc import Callable

from justitia_api.wire import Refusal
from justitia_sidecar.limits.held import HeldBytes, HeldKind, Holding
from justitia_sidecar.refusals import RefusalError
from justitia_sidecar.request.asgi import ClientGoneError, Receive, Scope
from justitia_vocabulary.units import Seconds, TenantId


class Body:
    """A body. `give_way` is called if another tenant's bytes take its place, which cannot happen once it is pinned.
    With `keep` a copy stays once it is sent, until the request has begun: it may have to be sent elsewhere. Of that
    copy nobody hears when it gives way. `whole_at` is when all of it had come in, here or at another sidecar.
    """

    def __init__(self, account: HeldBytes, tenant: TenantId) -> None:
        self.content = b""
        self.keep = False
        self.whole_at: Seconds | None = None
        self.give_way: Callable[[RefusalError], None] = lambda refusal: None
        self._account = account
        self._sent = False
        self._holding = Holding(tenant, HeldKind.BODY, self._give_way)

    async def read(self, scope: Scope, receive: Receive, most: int) -> None:
        """Fill `content`. Raises a refusal, before a byte is read if the head gives the size, and ClientGoneError.

        A body without a size in its head counts as the largest that may be until it is whole.
        """
        declared = dict(scope["headers"]).get(b"content-length", b"")
        expected = int(declared) if declared.isdigit() else most
        if expected > most:
            raise _too_large(most)
        self._hold(expected)
        parts: list[bytes] = []
        received, more = 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientGoneError
            part = message.get("body", b"")
            parts.append(part)
            received += len(part)
            if received > most:
                raise _too_large(most)
            more = message.get("more_body", False)
        self.change(b"".join(parts))

    def change(self, content: bytes) -> None:
        """Replace the content. Raises a refusal if there is no room for it."""
        self._hold(len(content))
        self.content = content

    def pin(self) -> None:
        self._account.pin(self._holding)

    def written(self) -> None:
        """It has been sent."""
        if self.keep:
            self._sent = True
            self._account.only_a_copy(self._holding)
        else:
            self.let_go()

    def begun(self) -> None:
        """The request has begun, or is about to be sent: the body must not give way, and a copy is of no use."""
        self.keep = False
        if self._sent:
            self.let_go()
        else:
            self.pin()

    def let_go(self) -> None:
        self.content = b""
        self._account.put(self._holding, 0)

    def _hold(self, size: int) -> None:
        if not self._account.put(self._holding, size):
            raise _memory_full()

    def _give_way(self) -> None:
        if self._sent:
            self.content = b""
        else:
            self.give_way(_memory_full())


def _memory_full() -> RefusalError:
    return RefusalError(
        Refusal.QUEUE_FULL,
        "This server's memory is full, and your tenant's part of it by weight is used up: retry later, or send smaller "
        "bodies.",
        retry_after=5,
    )


def _too_large(most: int) -> RefusalError:
    return RefusalError(Refusal.BODY_TOO_LARGE, f"The body is larger than {most} bytes: shorten the prompt.")
