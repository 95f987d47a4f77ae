"""Which pod of the pool gets a request that comes through a gateway: the one whose engine begins it soonest.

The gateway sends it there itself, so no pod is nearer than another: the engine that has fewest tokens gets it, and of
equal ones the engine here. What was picked counts as sent until the gateway says that the request is over. For the
engine here it counts until the request has come in, since this sidecar counts what it serves.
"""

from collections.abc import Container, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from justitia_sidecar.pool.peers import Peer, Peers
from justitia_vocabulary.units import ApplicationId, Tokens


@dataclass(frozen=True, slots=True)
class Asked:
    """What is known of a request before it is read. `application` is None if it is nobody's, or asks for no tokens;
    `run` is the client's name of its run.
    """

    tokens: Tokens = 0
    application: ApplicationId | None = None
    run: str | None = None


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

    def pick(self, asked: Asked, allowed: Container[str] | None = None) -> Picked | None:
        """The pod for a request. None if no engine takes it. `allowed`: only these, as HOST:PORT, or HOST for all
        ports.
        """
        able = (
            picked for picked in self._able() if allowed is None or picked.endpoint in allowed or picked.host in allowed
        )
        return min(able, key=lambda picked: self._before(picked, asked), default=None)

    def counted(self, picked: Picked, asked: Asked) -> AbstractContextManager[None]:
        """Count the request as sent to what was picked."""
        return self._here(asked.tokens) if picked.peer is None else self._peers.sending(picked.peer, asked.tokens)

    def _able(self) -> Iterator[Picked]:
        peers = self._peers
        if peers.public and peers.takes():
            yield Picked(peers.public, None)
        yield from (Picked(peer.load.public, peer) for peer in peers.takers() if peer.load.public)

    def _before(self, picked: Picked, asked: Asked) -> Tokens:
        """The tokens that the engine has before it begins the request."""
        return self._peers.outstanding + self._coming if picked.peer is None else picked.peer.outstanding

    @contextmanager
    def _here(self, tokens: Tokens) -> Iterator[None]:
        self._coming += tokens
        try:
            yield
        finally:
            self._coming -= tokens
