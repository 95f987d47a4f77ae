"""The pool's other engines, as far as they are known here, and which of them begins a request sooner than this one.

An engine is judged by the tokens of its requests that are not over: prompts, and the outputs that are expected. Of this
engine they are known as they are; of another one as its sidecar said last, and by what was sent there since. A request
goes elsewhere only if the other engine has fewer even with it: of equal ones, this engine serves it.
"""

from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from justitia_sidecar.pool.updates import Load, WriterId
from justitia_vocabulary.units import Seconds, Tokens

FRESH: Seconds = 2.0
"""How long what a sidecar said of itself holds: four exchanges."""


@dataclass(slots=True, eq=False)
class Peer:
    """Another engine. `sent` are the tokens of requests that were sent there from here and are not over; there were so
    many of them `before` its sidecar was heard of last.
    """

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
    what it has. So many were `passed_on` and answered.
    """

    def __init__(self, address: str, clock: Callable[[], Seconds], public: str = "") -> None:
        self.takes: Callable[[], bool] = lambda: True
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
            self._peers[writer] = Peer(load, now)
        else:
            peer.load, peer.heard, peer.before = load, now, peer.sent

    def sooner(self, tokens: Tokens) -> Peer | None:
        """The engine that begins a request of so many tokens sooner than this one. None: this one does."""
        takes = self.takes()
        if takes and self.outstanding <= tokens:
            return None
        best = self.best()
        return best if best is not None and (not takes or best.outstanding + tokens < self.outstanding) else None

    def best(self, without: Container[Peer] = ()) -> Peer | None:
        """The other engine that has least, of those that take requests. None if there is none."""
        takers = (peer for peer in self.takers() if peer not in without)
        return min(takers, key=lambda peer: peer.outstanding, default=None)

    def takers(self) -> Iterator[Peer]:
        """The other engines that take requests."""
        now = self._clock()
        return (peer for peer in self._peers.values() if peer.load.takes and now - peer.heard <= FRESH)

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
