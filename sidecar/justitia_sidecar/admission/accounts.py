"""What the engine says it did for requests: its `Closed` of each of their sequences, which may come after the client
has gone. A request has an account from when it is sent to the engine until all its sequences are over.

Of requests that are over, the accounts that still wait for the engine are bounded in number: the oldest is forgotten.
"""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field

from justitia_channel.messages import SEQUENCES_PER_PROMPT, Closed
from justitia_sidecar.admission.request import TrackedRequest
from justitia_vocabulary.units import KVTokenTime, RequestId, Seconds, Tokens

MOST_WAITING = 10_000


@dataclass(slots=True)
class PresumedWork:
    """What a request counts for whose answer showed nothing, unless the engine says something by `due`."""

    prompt_tokens: Tokens
    produced: Tokens
    due: Seconds
    counted: bool = False


@dataclass(slots=True)
class EngineAccount:
    """`instance` is the engine's that has the request, empty before the first has connected. `told`: it has the ticket
    too; `gaps` are those of the channel by then, None where the request came first. `begun` is when the engine said
    that it had begun. `cost` is what its run has been charged for it.
    """

    request: TrackedRequest
    instance: str
    gaps: int | None
    told: bool = True
    begun: Seconds | None = None
    estimate: PresumedWork | None = None
    cost: KVTokenTime = 0.0
    closed: dict[int, Closed] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        return len(self.closed) == self.request.asks.sequences

    @property
    def prompt_tokens(self) -> Tokens:
        """Of the prompts that were read, each once."""
        prompts: dict[int, Tokens] = {}
        for closed in self.closed.values():
            prompt, read = (
                closed.sequence // SEQUENCES_PER_PROMPT,
                closed.prompt_tokens if closed.produced else closed.read,
            )
            prompts[prompt] = max(read, prompts.get(prompt, 0))
        return sum(prompts.values())

    @property
    def produced(self) -> Tokens:
        return sum(closed.produced for closed in self.closed.values())


class EngineAccounts:
    def __init__(self) -> None:
        self._open: dict[RequestId, EngineAccount] = {}
        self._over: OrderedDict[RequestId, EngineAccount] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open) + len(self._over)

    @property
    def open(self) -> Iterable[EngineAccount]:
        return self._open.values()

    @property
    def newest_first(self) -> Iterable[EngineAccount]:
        """Of requests that are not over."""
        return reversed(self._open.values())

    @property
    def over(self) -> Iterable[EngineAccount]:
        """Of requests that are over, of which the engine has not said all."""
        return self._over.values()

    def get(self, request: RequestId) -> EngineAccount | None:
        """None where the engine does not have the request, or has said all of one that is over."""
        return self._open.get(request) or self._over.get(request)

    def opened(self, account: EngineAccount) -> None:
        self._open[account.request.id] = account

    def left(self, request: RequestId) -> EngineAccount | None:
        """The request is over; its account waits for what the engine has not said yet. Returns one that it forgets."""
        account = self._open.pop(request, None)
        if account is None or account.complete:
            return None
        self._over[request] = account
        return self._over.popitem(last=False)[1] if len(self._over) > MOST_WAITING else None

    def heard(self, closed: Closed) -> EngineAccount | None:
        """The account to which the engine has added, if it has."""
        account = self.get(RequestId(closed.key))
        if account is None or closed.sequence in account.closed:
            return None
        account.closed[closed.sequence] = closed
        if account.complete:
            self._over.pop(account.request.id, None)
        return account

    def forget_all_but(self, instance: str) -> list[EngineAccount]:
        """Removes what waits for another engine, of which nothing will be heard any more."""
        for account in (*self._open.values(), *self._over.values()):
            account.instance = account.instance or instance
        gone = [account for account in self._over.values() if account.instance != instance]
        for account in gone:
            del self._over[account.request.id]
        return gone
