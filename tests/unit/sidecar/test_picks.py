"""The sidecar's door for its endpoint picker: whose request it is, what it counts as, and for how long."""

import asyncio
import time
from collections.abc import Callable
from contextlib import ExitStack

import msgspec
import pytest

from justitia_api.wire import Refusal
from justitia_sidecar.engine.client import EngineClient
from justitia_sidecar.metrics import SidecarMetrics
from justitia_sidecar.pool.asks import Answer, Ask, HandedOn, Over, Pick, Refuse, answers
from justitia_sidecar.pool.peers import Peers
from justitia_sidecar.pool.picking import Picking
from justitia_sidecar.pool.updates import Load, WriterId
from justitia_sidecar.ports.picks import COMES_WITHIN, HANDED_ON_WITHIN, Counted, PickerConversation
from justitia_sidecar.service import Sidecar
from support.misbehaving_engine import MisbehavingEngine
from support.sidecar_client import KEY, engine_answers, give_key, pool
from support.simulated_time import in_simulated_time

HERE, THERE = "10.0.0.1:8000", "10.0.0.2:8000"
AUTHORIZED = {"authorization": f"Bearer {KEY.decode()}"}
SIZE = 1000
TOKENS = 300
"""What a body of that size counts as, without anything learned."""


class Door:
    """A picker's conversation with a sidecar that has another one beside it."""

    def __init__(self, sidecar: Sidecar) -> None:
        self.peers = sidecar.parts.peers
        self.peers.heard(WriterId("other"), Load("other", 0, takes=True, public=THERE))
        self.said: list[Answer] = []
        self.picking = Picking(self.peers)
        self.conversation = PickerConversation(
            sidecar.parts, self.picking, lambda data: self.said.append(answers.decode(data[4:]))
        )

    def ask(self, id: int = 1, path: str = "/v1/completions", **changes: object) -> Answer:
        ask = Ask(id, path, SIZE, AUTHORIZED)
        self.conversation.hear(msgspec.structs.replace(ask, **changes))
        return self.said[-1]

    def coming(self) -> tuple[int, int]:
        """Tokens that count as sent here, and there."""
        (there,) = self.peers.takers()
        return self.picking._coming, there.sent


async def served(behave: Callable[[Door, Sidecar], object], *, ready: bool = True) -> None:
    async with MisbehavingEngine().serving() as engine, EngineClient.session() as session:
        peers = Peers("here", time.monotonic, HERE)
        sidecar = Sidecar(EngineClient(engine.url, session), SidecarMetrics(), time.monotonic, peers=peers)
        give_key(sidecar)
        sidecar.parts.current.put_config(pool())
        if ready:
            await engine_answers(sidecar)
        behave(Door(sidecar), sidecar)


async def test_a_request_with_a_key_counts_with_its_size_where_it_was_sent() -> None:
    def behave(door: Door, sidecar: Sidecar) -> None:
        assert door.ask(1) == Pick(1, HERE, "gold")
        assert door.coming() == (TOKENS, 0)
        assert door.ask(2) == Pick(2, THERE, "gold")
        assert door.coming() == (TOKENS, TOKENS)
        for number in (1, 2):
            door.conversation.hear(Over(number))
        assert door.coming() == (0, 0)
        picks = sidecar.parts.metrics.picks
        assert [picks.labels(where)._value.get() for where in ("here", "elsewhere")] == [1, 1]

    await served(behave)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"headers": {}}, id="without a key"),
        pytest.param({"headers": {"authorization": "Bearer wrong"}}, id="with a wrong key"),
        pytest.param({"headers": AUTHORIZED | {"x-justitia-application": "ns/none"}}, id="of an unknown application"),
        pytest.param({"headers": AUTHORIZED | {"x-justitia-run": "r" * 1000}}, id="of a run with too long a name"),
        pytest.param({"path": "/v1/models"}, id="for no tokens"),
        pytest.param({"path": "/applications/ns/none/v1/completions"}, id="at a wrong path"),
        pytest.param({"headers": {"authorization": "\u4e2d"}}, id="in no header's encoding"),
    ],
)
async def test_what_the_sidecar_will_refuse_is_sent_to_one_and_counts_as_nothing(changes: dict[str, object]) -> None:
    def behave(door: Door, sidecar: Sidecar) -> None:
        for number in range(5):
            assert isinstance(door.ask(number, **changes), Pick)
        assert door.coming() == (0, 0)

    await served(behave)


async def test_no_body_counts_as_larger_than_the_pool_takes() -> None:
    def behave(door: Door, sidecar: Sidecar) -> None:
        most = sidecar.parts.current.configured().config.queue.maximum_body_bytes
        door.ask(1, size=2**62)
        assert door.coming()[0] <= most * 0.3 + 1

    await served(behave)


async def test_with_no_engine_that_takes_it_the_client_is_refused_with_503() -> None:
    def behave(door: Door, sidecar: Sidecar) -> None:
        refusal = door.ask(1, allowed=["10.9.9.9:8000"])
        assert isinstance(refusal, Refuse)
        assert refusal.status == 503
        assert Refusal.ENGINE_UNAVAILABLE.value.encode() in refusal.body
        assert (b"retry-after", b"2") in refusal.headers
        sidecar.parts.open.draining = True
        assert door.ask(2) == Pick(2, THERE, "gold")
        refusal = door.ask(3, allowed=[HERE])
        assert isinstance(refusal, Refuse)
        assert Refusal.DRAINING.value.encode() in refusal.body

    await served(behave)


async def test_while_the_engine_here_does_not_answer_the_others_get_all() -> None:
    def behave(door: Door, sidecar: Sidecar) -> None:
        assert [door.ask(number) for number in range(3)] == [Pick(number, THERE, "gold") for number in range(3)]

    await served(behave, ready=False)


async def test_a_sidecar_without_a_configuration_refuses() -> None:
    async with EngineClient.session() as session:
        peers = Peers("here", time.monotonic, HERE)
        sidecar = Sidecar(EngineClient("http://127.0.0.1:1", session), SidecarMetrics(), time.monotonic, peers=peers)
        refusal = Door(sidecar).ask()
        assert isinstance(refusal, Refuse)
        assert Refusal.NOT_CONFIGURED.value.encode() in refusal.body


async def test_nothing_counts_any_more_when_the_picker_has_gone_or_says_an_id_again() -> None:
    def behave(door: Door, sidecar: Sidecar) -> None:
        door.ask(1)
        door.ask(2)
        door.ask(2)
        assert sum(door.coming()) == 2 * TOKENS
        door.conversation.hear(Over(7))
        door.conversation.hear(HandedOn(7))
        door.conversation.gone()
        assert door.coming() == (0, 0)

    await served(behave)


MOMENTS = (0.05, 1.05, 1.0 + COMES_WITHIN + 0.05, HANDED_ON_WITHIN + 0.5, 100.0)


@pytest.mark.parametrize(
    ("here", "handed_on", "counts"),
    [
        pytest.param(False, 1.0, 5, id="elsewhere, until it is over"),
        pytest.param(True, 1.0, 2, id="here, until it has come in"),
        pytest.param(False, None, 3, id="elsewhere, and its client withholds its body"),
        pytest.param(True, None, 3, id="here, and its client withholds its body"),
    ],
)
def test_how_long_a_request_counts(here: bool, handed_on: float | None, counts: int) -> None:
    async def look() -> list[bool]:
        counting, open_ = ExitStack(), {1}
        counting.callback(open_.clear)
        counted, loop = Counted(counting, here=here), asyncio.get_running_loop()
        if handed_on is not None:
            loop.call_at(handed_on, counted.handed_on)
        found = []
        for moment in MOMENTS:
            await asyncio.sleep(moment - loop.time())
            found.append(bool(open_))
        counted.end()
        assert not open_
        return found

    assert in_simulated_time(look()) == [True] * counts + [False] * (len(MOMENTS) - counts)
