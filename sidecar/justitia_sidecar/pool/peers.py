"""The pool's other engines, as far as they are known here, and which of them is to serve a request.

An engine is judged by the tokens of its requests that are not over: prompts, and the outputs that are expected. Of this
engine they are known as they are; of another one as its sidecar said last, and by what was sent there since. A request
goes elsewhere only if the other engine has fewer even with it: of equal ones, this engine serves it.

A run's next request goes to its home, the engine that has its context in its cache: what of the prompt is found there
does not count. It goes to another only if that has fewer by `REREAD` times its prompt, which would
have to be read again there.
"""

import math
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from justitia_sidecar.pool.state import Prefix
from justitia_sidecar.pool.updates import Load, WriterId
from justitia_vocabulary.units import RunId, Seconds, Tokens

FRESH: Seconds = 2.0
"""How long what a sidecar said of itself holds: four exchanges."""
REREAD = 5
"""A prompt that another engine than its run's home reads takes time there, and the place of what others would find in
its cache (docs/design/fleet.md).
"""


@dataclass(frozen=True, slots=True)
class Expected:
    """What is expected of a request, in tokens, and where its run's prefix is, if that is known."""

    prompt: Tokens
    output: Tokens
    prefix: Prefix | None = None

    @property
    def all(self) -> Tokens:
        return self.prompt + self.output

    def is_at_home(self, engine: WriterId | None) -> bool:
        return self.prefix is not None and self.prefix.home == engine

    def left_to(self, engine: WriterId | None) -> Tokens:
        """The tokens that the engine does not find in its cache."""
        found = min(self.prompt, self.prefix.tokens) if self.prefix is not None and self.is_at_home(engine) else 0
        return self.all - found

    def read_again(self, engine: WriterId | None) -> Tokens:
        """What the engine has to have fewer than the run's home."""
        return 0 if self.prefix is None or self.is_at_home(engine) else REREAD * self.prompt


@dataclass(slots=True, eq=False)
class Peer:
    """Another engine, by the name of its sidecar. `sent` are the tokens of requests that were sent there from here and
    are not over; there were so many of them `before` its sidecar was heard of last.
    """

    writer: WriterId
    load: Load
    heard: Seconds
    sent: Tokens = 0
    before: Tokens = 0

    @property
    def outstanding(self) -> Tokens:
        return max(0, self.load.outstanding + self.sent - self.before)

    def does_not_take(self) -> None:
        """It was not reached, or handed a request back: it gets no more until its sidecar says something new."""
        self.load = Load(self.load.address, self.load.outstanding)


class Peers:
    """`address` is where this sidecar takes requests from the others, empty if it takes none. `public` is where
    gateways reach it, empty if none asks. `takes` says whether its engine takes requests at the moment, `outstanding`
    what it has. So many were `passed_on` and answered. `prefix` says where a run's prefix is, in this one's engine
    under the name `own`.
    """

    def __init__(self, address: str, clock: Callable[[], Seconds], public: str = "") -> None:
        self.takes: Callable[[], bool] = lambda: True
        self.prefix: Callable[[RunId], Prefix | None] = lambda run: None
        self.own: WriterId | None = None
        self.outstanding: Tokens = 0
        self.passed_on = 0
        self.public = public
        self._address = address
        self._clock = clock
        self._peers: dict[WriterId, Peer] = {}

    @property
    def load(self) -> Load | None:
        """What the others have to know of this engine."""
        return Load(self._address, self.outstanding, self.takes(), self.public) if self._address else None

    @property
    def known(self) -> bool:
        """Whether there are others, as far as is known."""
        return any(self._clock() - peer.heard <= FRESH for peer in self._peers.values())

    def heard(self, writer: WriterId, load: Load | None) -> None:
        """Take what another sidecar says of itself."""
        if load is None or load.address == self._address or not self._address:
            self._peers.pop(writer, None)
            return
        now, peer = self._clock(), self._peers.get(writer)
        if peer is None:
            self._peers = {each: known for each, known in self._peers.items() if now - known.heard <= FRESH}
            self._peers[writer] = Peer(writer, load, now)
        else:
            peer.load, peer.heard, peer.before = load, now, peer.sent

    def better(self, request: Expected) -> Peer | None:
        """The engine that is to serve the request. None: this one is."""
        chosen, least = None, self.outstanding + request.read_again(self.own) if self.takes() else math.inf
        home = None if request.prefix is None else self._peers.get(request.prefix.home)
        if home is not None and self._takes(home) and home.outstanding < least:
            chosen, least = home, home.outstanding
        other = self.best()
        if other is not None and other.outstanding + request.read_again(other.writer) + request.all < least:
            chosen = other
        return chosen

    def best(self, without: Container[Peer] = ()) -> Peer | None:
        """The other engine that has least, of those that take requests. None if there is none."""
        takers = (peer for peer in self.takers() if peer not in without)
        return min(takers, key=lambda peer: peer.outstanding, default=None)

    def takers(self) -> Iterator[Peer]:
        """The other engines that take requests."""
        return filter(self._takes, self._peers.values())

    @contextmanager
    def serving(self, tokens: Tokens) -> Iterator[None]:
        """While a request of so many tokens is served here."""
        self.outstanding += tokens
        try:
            yield
        finally:
            self.outstanding -= tokens

    @contextmanager
    def sending(self, peer: Peer, tokens: Tokens) -> Iterator[None]:
        """While a request of so many tokens is served by another engine."""
        peer.sent += tokens
        try:
            yield
        finally:
            peer.sent -= tokens

    def _takes(self, peer: Peer) -> bool:
        return peer.load.takes and self._clock() - peer.heard <= FRESH
