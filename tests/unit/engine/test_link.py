"""The engine's end of the channel on a real socket, and peers that do what they should not."""

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from justitia_channel.messages import VERSION, About, Admitted, Hello, Message, PlugInSnapshot, RunEnded
from justitia_channel.wire import LONGEST_LINE, Lines, decode, encode
from justitia_engine import link as link_module
from justitia_engine.link import MOST, Link
from justitia_vocabulary.units import RunId
from support.serving import eventually


class Peer:
    """The sidecar's end. `between` counts how often the link lets the desk do something."""

    def __init__(self, path: Path) -> None:
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(str(path))
        self.listener.listen()
        self.listener.settimeout(10)
        self.logged: list[str] = []
        self.between = 0
        self.link = Link(str(path), About(kv_tokens=5), self.logged.append)
        self.link.start(self.count)
        self._connections: list[socket.socket] = []
        self._lines = Lines()

    def count(self) -> None:
        self.between += 1

    def meet(self, version: int = VERSION, instance: str = "one") -> socket.socket:
        """The next connection, greeted."""
        peer, _ = self.listener.accept()
        self._connections.append(peer)
        peer.settimeout(10)
        peer.sendall(encode(Hello(version, instance)))
        self._lines = Lines()
        return peer

    def close(self) -> None:
        self.link.close()
        for each in (*self._connections, self.listener):
            each.close()

    def read(self, peer: socket.socket, most: int = 1 << 16) -> list[Message]:
        return [decode(line) for line in self._lines.feed(peer.recv(most))]

    def heard(self) -> list[Message]:
        return [message for message in self.link.inbox if not isinstance(message, Hello)]


@pytest.fixture
def peer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Peer]:
    monkeypatch.setattr(link_module, "RETRY", 0.01)
    made = Peer(tmp_path / "engine.sock")
    yield made
    made.close()


def ended(name: str) -> RunEnded:
    return RunEnded(RunId(name))


def test_each_side_says_hello_and_messages_come_in_order(peer: Peer) -> None:
    connection = peer.meet()
    hello, *_ = peer.read(connection)
    assert isinstance(hello, Hello)
    assert hello.about == About(kv_tokens=5)
    connection.sendall(b"".join(encode(ended(str(i))) for i in range(100)))
    eventually("all are there", lambda: peer.heard() == [ended(str(i)) for i in range(100)])
    peer.link.send(Admitted("a", 1))
    assert peer.read(connection) == [Admitted("a", 1)]


def test_a_peer_that_dies_in_the_middle_of_a_line_and_comes_back_is_understood(peer: Peer) -> None:
    first = peer.meet()
    peer.read(first)  # a peer that dies before the link has greeted it is not heard at all
    first.sendall(encode(ended("whole")) + encode(ended("half"))[:10])
    first.close()
    second = peer.meet(instance="two")
    second.sendall(encode(ended("after")))
    eventually("the second is heard", lambda: peer.heard() == [ended("whole"), ended("after")])
    hellos = [message.instance for message in peer.link.inbox if isinstance(message, Hello)]
    assert hellos == ["one", "two"]
    assert peer.link.malformed == 0


def test_garbage_is_counted_logged_once_and_what_follows_is_heard(peer: Peer) -> None:
    garbage = [
        b"\xff\xfe",
        b"",
        b"[]",
        b'{"kind":[]}',
        b'{"kind":"ticket"}',
        b"{" * 5000,
        b'{"kind":"runended","run":1}',
    ]
    connection = peer.meet()
    connection.sendall(b"\n".join(garbage * 100) + b"\n" + encode(ended("after")))
    eventually("what follows is heard", lambda: peer.heard() == [ended("after")])
    assert peer.link.malformed == 100 * len(garbage)
    assert len(peer.logged) == 1


def test_a_peer_of_another_version_is_left_and_said_so_once(peer: Peer) -> None:
    for _ in range(3):
        connection = peer.meet(version=VERSION + 1)
        with contextlib.suppress(OSError):
            while connection.recv(1 << 16):
                pass
    assert not peer.link.inbox
    assert len([line for line in peer.logged if f"version {VERSION + 1}, not {VERSION}" in line]) == 1
    peer.meet().sendall(encode(ended("understood")))
    eventually("the next one is heard", lambda: peer.heard() == [ended("understood")])


def test_a_line_without_an_end_is_not_kept(peer: Peer) -> None:
    connection = peer.meet()
    with contextlib.suppress(OSError):
        while True:
            connection.sendall(b"x" * LONGEST_LINE)
    peer.meet().sendall(encode(ended("after")))
    eventually("the next one is heard", lambda: peer.heard() == [ended("after")])
    assert [f"a line of more than {LONGEST_LINE} bytes" in line for line in peer.logged] == [True]


def test_what_nobody_takes_is_bounded_and_the_oldest_goes(peer: Peer) -> None:
    connection = peer.meet()
    connection.sendall(b"".join(encode(ended(str(i))) for i in range(MOST + 1000)))
    eventually("the last is there", lambda: peer.link.inbox and peer.link.inbox[-1] == ended(str(MOST + 999)))
    assert len(peer.link.inbox) == MOST
    assert peer.link.dropped_in == 1001


def test_a_peer_that_never_reads_holds_nothing_up_and_hears_whole_lines_once_it_does(peer: Peer) -> None:
    connection = peer.meet()
    for i in range(3 * MOST):
        peer.link.send(Admitted("a" * 32, i))
    assert len(peer.link.outbox) <= MOST
    assert peer.link.dropped_out >= MOST
    before = peer.between
    eventually("the desk goes on", lambda: peer.between > before + 10)
    connection.sendall(encode(ended("heard all the same")))
    eventually("it is heard", lambda: peer.heard() == [ended("heard all the same")])
    sequences: list[int] = []
    while not sequences or sequences[-1] != 3 * MOST - 1:
        sequences += [message.sequence for message in peer.read(connection) if isinstance(message, Admitted)]
    assert sequences == sorted(set(sequences))
    assert len(sequences) == 3 * MOST - peer.link.dropped_out


def test_a_peer_that_has_closed_its_ear_is_left(peer: Peer) -> None:
    connection = peer.meet()
    connection.shutdown(socket.SHUT_RD)
    peer.link.send(Admitted("a", 1))
    second = peer.meet(instance="two")
    eventually("it has connected again", lambda: peer.link.connected)
    assert type(peer.read(second)[0]) is Hello
    peer.link.send(Admitted("b", 1))
    while Admitted("b", 1) not in peer.read(second):
        pass


def test_what_cannot_be_said_is_counted_and_the_rest_is_said(peer: Peer) -> None:
    connection = peer.meet()
    peer.read(connection)
    peer.link.send(PlugInSnapshot(failure="x" * LONGEST_LINE))
    peer.link.send(Admitted("a", 1))
    assert peer.read(connection) == [Admitted("a", 1)]
    assert peer.link.dropped_out == 1
    assert len(peer.logged) == 1
