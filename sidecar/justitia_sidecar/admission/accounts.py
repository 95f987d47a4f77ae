"""Accounts of what the engine did for requests, by its message `Closed` for each of their sequences.

A request has an account from when it is sent to the engine until all its sequences are over. The messages may come
after the client has gone, so accounts outlive their requests. Such accounts are bounded in number: the oldest is
forgotten.
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
    """What a request without a visible answer presumably used. It counts unless the engine reports by `due`."""

    prompt_tokens: Tokens
    produced: Tokens
    due: Seconds
    counted: bool = False


@dataclass(slots=True)
class EngineAccount:
    """The engine's account of one request. `instance` is the engine process that has the request, empty if none had
    connected yet. `ticketed` says that it got the ticket too. `gaps` are those of the channel then, None if the
    request came before the ticket. `begun` is when the engine said that it had begun. `cost` is what the run has been
    charged for the request.
    """

    request: TrackedRequest
    instance: str
    gaps: int | None
    ticketed: bool = True
    begun: Seconds | None = None
    estimate: PresumedWork | None = None
    cost: KVTokenTime = 0.0
    closed: dict[int, Closed] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        return len(self.closed) == self.request.asks.sequences

    @property
    def prompt_tokens(self) -> Tokens:
        """Tokens of the prompts that were read, each prompt once."""
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
        """Accounts of requests that are not over, the newest first."""
        return reversed(self._open.values())

    @property
    def over(self) -> Iterable[EngineAccount]:
        """Accounts of requests that are over and not fully reported by the engine."""
        return self._over.values()

    def get(self, request: RequestId) -> EngineAccount | None:
        """None if the engine does not have the request, or has reported all of one that is over."""
        return self._open.get(request) or self._over.get(request)

    def opened(self, account: EngineAccount) -> None:
        self._open[account.request.id] = account

    def left(self, request: RequestId) -> EngineAccount | None:
        """Note that a request is over. Its account waits for what the engine has not reported yet. Returns the account
        that is forgotten for it, if any.
        """
        account = self._open.pop(request, None)
        if account is None or account.complete:
            return None
        self._over[request] = account
        return self._over.popitem(last=False)[1] if len(self._over) > MOST_WAITING else None

    def heard(self, closed: Closed) -> EngineAccount | None:
        """Add a report of the engine to its account. Returns the account, or None if the report changes nothing."""
        account = self.get(RequestId(closed.key))
        if account is None or closed.sequence in account.closed:
            return None
        account.closed[closed.sequence] = closed
        if account.complete:
            self._over.pop(account.request.id, None)
        return account

    def forget_all_but(self, instance: str) -> list[EngineAccount]:
        """Remove and return the accounts of requests that are over and were in another engine process: it will report
        nothing more.
        """
        for account in (*self._open.values(), *self._over.values()):
            account.instance = account.instance or instance
        gone = [account for account in self._over.values() if account.instance != instance]
        for account in gone:
            del self._over[account.request.id]
        return gone
