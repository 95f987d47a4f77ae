"""Which pod of the pool gets a request that comes through a gateway: the one whose engine begins it soonest.

The gateway sends it there itself, so no pod is nearer than another: the engine that has fewest tokens gets it, and of
equal ones the engine here. What another engine than its run's home would have to read again counts, too. What was
picked counts as sent until the gateway says that the request is over. For the engine here it counts until the request
has come in, since this sidecar counts what it serves.
"""

from collections.abc import Container, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from justitia_sidecar.pool.peers import Expected, Peer, Peers
from justitia_vocabulary.units import Tokens


@dataclass(frozen=True, slots=True)
class Picked:
    """`endpoint` is where its sidecar takes clients' requests (HOST:PORT). `peer` is None if it is the one here."""

    endpoint: str
    peer: Peer | None

    @property
    def host(self) -> str:
        return self.endpoint.rpartition(":")[0].strip("[]")


class Picking:
    def __init__(self, peers: Peers) -> None:
        self._peers = peers
        self._coming: Tokens = 0
        """Tokens of requests that were picked for the engine here, and have not come in."""

    def pick(self, request: Expected, allowed: Container[str] | None = None) -> Picked | None:
        """The pod for a request. None if no engine takes it. `allowed`: only these, as HOST:PORT, or HOST for all
        ports.
        """
        able = (
            picked for picked in self._able() if allowed is None or picked.endpoint in allowed or picked.host in allowed
        )
        return min(able, key=lambda picked: self._before(picked, request), default=None)

    def counted(self, picked: Picked, request: Expected) -> AbstractContextManager[None]:
        """Count the request as sent to what was picked."""
        if picked.peer is None:
            return self._here(request.left_to(self._peers.own))
        return self._peers.sending(picked.peer, request.left_to(picked.peer.writer))

    def _able(self) -> Iterator[Picked]:
        peers = self._peers
        if peers.public and peers.takes():
            yield Picked(peers.public, None)
        yield from (Picked(peer.load.public, peer) for peer in peers.takers() if peer.load.public)

    def _before(self, picked: Picked, request: Expected) -> Tokens:
        """The tokens that the engine has before it begins the request, and would have to read again."""
        if (peer := picked.peer) is None:
            return self._peers.outstanding + self._coming + request.read_again(self._peers.own)
        return peer.outstanding + request.read_again(peer.writer)

    @contextmanager
    def _here(self, tokens: Tokens) -> Iterator[None]:
        self._coming += tokens
        try:
            yield
        finally:
            self._coming -= tokens
