"""What the engine says it did for requests: its `Closed` of each of their sequences, which may come after the client
has gone. A request has an account from when the engine is told of it until all its sequences are over.

Of requests that are over, the accounts that still wait for the engine are bounded in number: the oldest is forgotten.
"""

from collections import OrderedDict
from dataclasses import dataclass, field

from justitia_scheduling.channel import SEQUENCES_PER_PROMPT, Closed
from justitia_scheduling.model import RequestId, Tokens
from justitia_sidecar.ticket import Ticket

MOST_WAITING = 10_000


@dataclass(slots=True)
class Account:
    """`instance` is the engine's that was told of the request, and `gaps` those of the channel by then."""

    ticket: Ticket
    instance: str
    gaps: int
    closed: dict[int, Closed] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        return len(self.closed) == self.ticket.sequences

    @property
    def prompt_tokens(self) -> Tokens:
        """Of the prompts for which something was produced, each once."""
        prompts = {c.sequence // SEQUENCES_PER_PROMPT: c.prompt_tokens for c in self.closed.values() if c.produced}
        return sum(prompts.values())

    @property
    def produced(self) -> Tokens:
        return sum(closed.produced for closed in self.closed.values())


class Accounts:
    def __init__(self) -> None:
        self._open: dict[RequestId, Account] = {}
        self._over: OrderedDict[RequestId, Account] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open) + len(self._over)

    def get(self, request: RequestId) -> Account | None:
        """None where the engine was not told of the request, or has said all."""
        return self._open.get(request) or self._over.get(request)

    def opened(self, account: Account) -> None:
        self._open[account.ticket.id] = account

    def left(self, request: RequestId) -> None:
        """The request is over; its account waits for what the engine has not said yet."""
        account = self._open.pop(request, None)
        if account is not None and not account.complete:
            self._over[request] = account
            if len(self._over) > MOST_WAITING:
                self._over.popitem(last=False)

    def heard(self, closed: Closed) -> Account | None:
        """The account to which the engine has added, if it has."""
        account = self.get(RequestId(closed.key))
        if account is None or closed.sequence in account.closed:
            return None
        account.closed[closed.sequence] = closed
        if account.complete:
            self._over.pop(account.ticket.id, None)
        return account

    def forget_all_but(self, instance: str) -> list[Account]:
        """Removes what waits for another engine, of which nothing will be heard any more."""
        gone = [account for account in self._over.values() if account.instance != instance]
        for account in gone:
            del self._over[account.ticket.id]
        return gone
