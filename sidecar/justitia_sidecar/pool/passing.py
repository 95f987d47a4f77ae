"""Connections between the sidecars of a pool: TLS, with the pool's own certificates on both sides.

They are files that change while the pod runs. New connections use the new ones.
"""

import socket
import ssl
from collections.abc import Callable
from pathlib import Path

import aiohttp
from aiohttp.connector import AddrInfoType

from justitia_api.wire import PEER_CERTIFICATE_FILE, PEER_KEY_FILE, PEER_NAME, PEERS_FILE
from justitia_sidecar.engine.client import post
from justitia_sidecar.pool.peers import Peer
from justitia_vocabulary.units import Seconds

CONNECT_WITHIN: Seconds = 2.0
"""A sidecar that is reached takes a connection at once."""
LOST_WITHIN: Seconds = 20.0
"""A node that is gone says nothing of it: the kernel asks, and ends the connection."""
KEEPALIVE: Seconds = 60.0
"""Less than its server keeps one open, so that no request meets a connection that is being closed."""


def socket_that_notices(address: AddrInfoType) -> socket.socket:
    """A socket whose connection ends when the other node does not answer any more."""
    made = socket.socket(*address[:3])
    part = int(LOST_WITHIN / 4)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        ("TCP_KEEPIDLE", part),
        ("TCP_KEEPINTVL", part),
        ("TCP_KEEPCNT", 3),
        ("TCP_USER_TIMEOUT", int(1000 * LOST_WITHIN)),
    ):
        if (number := getattr(socket, option, None)) is not None:  # not every system has all
            made.setsockopt(socket.IPPROTO_TCP, number, value)
    return made


class PeerCredentials:
    """The credentials in a folder. Raises OSError if a file is missing, ssl.SSLError if one is damaged."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: tuple[bytes, bytes] = (b"", b"")
        self.server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.server.verify_mode = ssl.CERT_REQUIRED
        self.client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        for context in (self.server, self.client):
            context.minimum_version = ssl.TLSVersion.TLSv1_3
        self.refresh()

    def refresh(self) -> None:
        """Read the files again."""
        certificate, key = self._folder / PEER_CERTIFICATE_FILE, self._folder / PEER_KEY_FILE
        authorities = self._folder / PEERS_FILE
        read = certificate.read_bytes(), authorities.read_bytes()
        if read == self._read:
            return
        for context in (self.server, self.client):
            context.load_verify_locations(authorities)
            context.load_cert_chain(certificate, key)
        self._read = read


class PeerClient:
    """Sends requests to other sidecars of the pool."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    @staticmethod
    def session(context: ssl.SSLContext) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(
            limit=0, keepalive_timeout=KEEPALIVE, ssl=context, socket_factory=socket_that_notices
        )
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_WITHIN)
        return aiohttp.ClientSession(connector=connector, timeout=timeout, auto_decompress=False, read_bufsize=2**16)

    async def send(
        self, peer: Peer, path: str, body: bytes, headers: list[tuple[str, str]], on_written: Callable[[], None]
    ) -> aiohttp.ClientResponse:
        """Like `EngineClient.send`."""
        return await post(
            self._session, f"https://{peer.load.address}{path}", body, headers, on_written, server_name=PEER_NAME
        )
