"""A real vLLM with our scheduler inside, and the sidecar's end of the channel, driven by a test."""

import contextlib
import pickle
import socket
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import httpx2 as httpx

from justitia_channel.messages import (
    VERSION,
    Admitted,
    AskQueue,
    Closed,
    Configure,
    Hello,
    Message,
    PlugInSnapshot,
    Queue,
    Share,
    Ticket,
)
from justitia_channel.wire import Lines, decode, encode
from justitia_vocabulary.units import ApplicationId, RunId, TenantId
from support.serving import MODEL, Vllm, eventually, running_vllm

OPEN = ("vllm:num_requests_running", "vllm:num_requests_waiting")


class TestPeer:
    """The sidecar's end: sends what a test tells it to, keeps what the engine says."""

    __test__ = False

    def __init__(self, path: Path) -> None:
        self.heard: list[Message] = []
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(path))
        self._listener.listen()
        self._peer: socket.socket | None = None
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                peer, _ = self._listener.accept()
            except OSError:
                return
            with peer:
                peer.sendall(encode(Hello(VERSION, uuid.uuid4().hex)))
                self._peer = peer
                self._hear(peer)
                self._peer = None

    def _hear(self, peer: socket.socket) -> None:
        lines = Lines()
        with contextlib.suppress(OSError):
            while data := peer.recv(1 << 16):
                self.heard += [decode(line) for line in lines.feed(data)]

    @property
    def connected(self) -> bool:
        return self._peer is not None

    def send(self, *messages: Message) -> None:
        assert self._peer is not None
        self._peer.sendall(b"".join(map(encode, messages)))

    def send_bytes(self, data: bytes) -> None:
        assert self._peer is not None
        self._peer.sendall(data)

    def drop(self) -> None:
        """End the connection; the engine connects again."""
        assert self._peer is not None
        self._peer.shutdown(socket.SHUT_RDWR)

    def closed(self) -> list[Closed]:
        return [message for message in self.heard if isinstance(message, Closed)]

    def admitted(self) -> list[Admitted]:
        return [message for message in self.heard if isinstance(message, Admitted)]

    def state(self) -> PlugInSnapshot:
        return next(m for m in reversed(self.heard) if isinstance(m, PlugInSnapshot))

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()


@dataclass
class Call:
    """A request to make; without an `application`, of the tenant's only one."""

    tenant: str
    prompt: Sequence[int]
    max_tokens: int
    run: str | None = None
    cost: float | None = None
    body: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    ticketed: bool = True
    sequences: int = 1
    application: str | None = None
    key: str = field(default_factory=lambda: uuid.uuid4().hex)

    def request(self) -> dict[str, Any]:
        """What `httpx` is to send."""
        body = {
            "model": MODEL,
            "prompt": list(self.prompt),
            "max_tokens": self.max_tokens,
            "temperature": 0,
            "ignore_eos": True,
        }
        return {"json": body | self.body, "headers": {"x-request-id": self.key, **self.headers}}


@dataclass
class PluggedEngine:
    vllm: Vllm
    peer: TestPeer
    events: Path
    log: Path
    generation: int = 0

    @property
    def url(self) -> str:
        return self.vllm.url

    def configure(
        self,
        policy: str,
        cost_model: str = "kv-token-time",
        gamma: tuple[float, float] | None = None,
        applications: Mapping[str, float] = MappingProxyType({}),
        **weights: float,
    ) -> None:
        """`applications` have these weights."""
        self.generation += 1
        knobs = {} if gamma is None else {"gammaFloor": gamma[0], "gammaCeiling": gamma[1]}
        shares = {ApplicationId(name): Share(weight) for name, weight in applications.items()}
        self.peer.send(Configure(self.generation, policy, cost_model, weights, knobs, shares))

    def ticket(self, call: Call) -> None:
        run = RunId(call.run or call.key)
        application = ApplicationId(call.application or f"ns/{call.tenant}")
        self.peer.send(Ticket(call.key, TenantId(call.tenant), application, run, call.sequences, call.cost))

    def send(self, call: Call, client: httpx.Client) -> dict[str, Any]:
        """Ticket and request; returns the answer."""
        if call.ticketed:
            self.ticket(call)
        return self._ask(call, client)

    def _ask(self, call: Call, client: httpx.Client) -> dict[str, Any]:
        answer = client.post(f"{self.url}/v1/completions", timeout=300, **call.request())
        found: dict[str, Any] = answer.raise_for_status().json()
        return found

    def leave_after_first_chunk(self, call: Call, then: Callable[[], None] = lambda: None, chunks: int = 1) -> None:
        """A client that reads a chunk, does something, reads as many chunks more as it says, and goes away."""
        request = call.request()
        request["json"]["stream"] = True
        with httpx.stream("POST", f"{self.url}/v1/completions", timeout=300, **request) as answer:
            lines = answer.iter_lines()
            next(lines)
            then()
            for _ in range(2 * chunks):
                next(lines)

    def queue(self, limit: int = 0) -> Queue:
        """What the engine answers when it is asked for its queue."""
        seen = len(self.peer.heard)
        self.peer.send(AskQueue(limit))
        answer: Queue = eventually("an answer", lambda: self._first(Queue, seen))
        return answer

    def state(self) -> PlugInSnapshot:
        """The next snapshot that was made after all that has happened so far."""
        self.queue()
        seen = len(self.peer.heard)
        snapshot: PlugInSnapshot = eventually("a snapshot", lambda: self._first(PlugInSnapshot, seen))
        return snapshot

    def _first(self, kind: type[Message], seen: int) -> Message | None:
        return next((message for message in self.peer.heard[seen:] if isinstance(message, kind)), None)

    def send_all(
        self, calls: Sequence[Call], when: tuple[int, Callable[[], None]] | None = None
    ) -> list[dict[str, Any]]:
        """All at once, when the engine has their tickets; the answers in the order of the calls. The engine is braked
        until they have all arrived. `when` that many are closed, something is done.
        """
        ticketed = [call for call in calls if call.ticketed]
        for call in ticketed:
            self.ticket(call)
        if ticketed:
            self.queue()  # it is answered after all that was told before
        answers: list[Any] = [None] * len(calls)
        limits = httpx.Limits(max_connections=None)

        with httpx.Client(limits=limits) as client:

            def one(i: int) -> None:
                try:
                    answers[i] = self._ask(calls[i], client)
                except Exception as error:
                    answers[i] = error

            threads = [threading.Thread(target=one, args=(i,)) for i in range(len(calls))]
            eventually("nothing is open", lambda: self.vllm.metric(*OPEN) == 0)
            begun, all_arrived = len(self.peer.closed()), self._arrived() + sum(call.sequences for call in calls)
            with self.vllm.braked():
                for thread in threads:
                    thread.start()
                eventually("all have arrived", lambda: self._arrived() == all_arrived)
            if when is not None:
                eventually("enough are closed", lambda: len(self.peer.closed()) - begun >= when[0])
                when[1]()
            for thread in threads:
                thread.join()
        return answers

    def _arrived(self) -> float:
        """Sequences, by vLLM's own count as of its last step: those that are open and those that have ended."""
        return self.vllm.metric(*OPEN, "vllm:request_success_total")

    def recorded(self) -> Iterator[tuple[int, str, tuple[Any, ...], Any]]:
        """Number of the policy, event, arguments and answer, in order."""
        with self.events.open("rb") as log:
            while True:
                try:
                    yield pickle.load(log)
                except EOFError:
                    return


@contextmanager
def plugged_engine(
    directory: Path,
    model: Path,
    *,
    blocks: int,
    block_size: int,
    max_length: int = 1024,
    arguments: Sequence[str] = (),
    environment: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[PluggedEngine]:
    path, events = directory / "engine.sock", directory / "events"
    peer = TestPeer(path)
    channel = {"JUSTITIA_SOCKET": str(path), "JUSTITIA_TEST_LOG": str(events)}
    try:
        with running_vllm(
            directory,
            model,
            max_length=max_length,
            block_size=block_size,
            blocks=blocks,
            arguments=arguments,
            environment={**environment, **channel},
            scheduler="support.recorded_scheduler.JustitiaScheduler",
        ) as vllm:
            eventually("the plug-in has connected", lambda: peer.connected)
            yield PluggedEngine(vllm, peer, events, directory / "log")
    finally:
        peer.close()
