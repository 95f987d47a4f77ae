"""KV of runs that pause between two turns, in a real vLLM: kept while others want its place, found by the next turn."""

import random
from collections.abc import Iterator

import httpx2 as httpx
import pytest

from justitia_channel.messages import Closed, RunEnded
from justitia_cli.tiny_model import make_tiny_model
from justitia_vocabulary.units import RunId
from support.plugged_engine import Call, PluggedEngine, plugged_engine
from support.serving import eventually

BLOCK, BLOCKS = 32, 33
LEARNT = 10
"""Turns after which the engine knows that the application's contexts are taken up."""
FIRST, MORE = 320, 32
"""Tokens of a first prompt and of what a turn adds."""


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PluggedEngine]:
    directory = tmp_path_factory.mktemp("kept")
    with plugged_engine(
        directory,
        make_tiny_model(directory / "model"),
        blocks=BLOCKS,
        block_size=BLOCK,
        environment={"VLLM_SERVER_DEV_MODE": "1"},
    ) as engine:
        engine.configure("tiered-justitia", "engine-time", gold=1.0, silver=1.0)
        yield engine


class Conversation:
    """A run that goes on with what was said."""

    def __init__(self, engine: PluggedEngine, seed: str, tenant: str = "gold", application: str = "ns/talk") -> None:
        self.rng = random.Random(seed)
        self.run, self.tenant, self.application = f"run-{seed}", tenant, application
        self.said = [self.rng.randrange(10, 200) for _ in range(FIRST)]
        self._engine = engine

    def turn(self, client: httpx.Client) -> Closed:
        call = Call(self.tenant, self.said, 2, run=self.run, application=self.application, cost=1e5)
        call.body["return_token_ids"] = True
        answer = self._engine.send(call, client)
        self.said = [*self.said, *answer["choices"][0]["token_ids"], *self._more()]
        return self._closed(call.key)

    def _more(self) -> list[int]:
        return [self.rng.randrange(10, 200) for _ in range(MORE)]

    def _closed(self, key: str) -> Closed:
        found: Closed = eventually(
            "it is closed", lambda: next((c for c in self._engine.peer.closed() if c.key == key), None)
        )
        return found

    def over(self) -> None:
        self._engine.peer.send(RunEnded(RunId(self.run)))


def others(engine: PluggedEngine, client: httpx.Client, number: int, tokens: int = 400) -> None:
    """Requests of another tenant that fill the cache and come one after the other."""
    rng = random.Random(number)
    for _ in range(number):
        engine.send(Call("silver", [rng.randrange(10, 200) for _ in range(tokens)], 2), client)


def learnt(engine: PluggedEngine, client: httpx.Client, seed: str, application: str = "ns/talk") -> Conversation:
    """A conversation that the engine has learnt to keep."""
    talk = Conversation(engine, seed, application=application)
    for _ in range(LEARNT):
        talk.turn(client)
    return talk


def test_a_paused_run_finds_its_context_beside_others(engine: PluggedEngine) -> None:
    """Others fit beside it, one at a time, and in all would have taken its place many times over."""
    with httpx.Client() as client:
        talk = learnt(engine, client, "a")
        kept = engine.state()
        assert kept.kept_tokens >= FIRST
        others(engine, client, 6, tokens=300)
        last = talk.turn(client)
        assert last.cached >= last.prompt_tokens - MORE - 2 * BLOCK
        assert engine.state().contexts_taken_over > kept.contexts_taken_over
        talk.over()


def test_without_having_learnt_it_the_context_is_gone(engine: PluggedEngine) -> None:
    """The control: the same, for an application that is new."""
    with httpx.Client() as client:
        talk = Conversation(engine, "b", application="ns/new")
        talk.turn(client)
        talk.turn(client)
        others(engine, client, 6, tokens=300)
        assert talk.turn(client).cached < FIRST
        talk.over()


def test_a_request_that_does_not_fit_beside_it_is_served(engine: PluggedEngine) -> None:
    """Nothing else runs, so nothing is waited for."""
    with httpx.Client() as client:
        talk = learnt(engine, client, "c")
        given_up = engine.state().contexts_given_up
        others(engine, client, 1, tokens=900)
        state = engine.state()
        assert state.contexts_given_up > given_up
        assert state.kept_tokens == 0
        talk.over()


def test_the_tenant_pays_for_what_is_held_while_others_work(engine: PluggedEngine) -> None:
    with httpx.Client() as client:
        talk = learnt(engine, client, "d")
        had = engine.state()
        others(engine, client, 6, tokens=100)
        talk.over()
        eventually("nothing is kept", lambda: engine.state().kept_tokens == 0)
        charged = engine.state().kv_token_time["gold"] - had.kv_token_time["gold"]
        assert charged > had.kept_tokens, "there were twelve steps meanwhile"


def test_the_cache_can_be_emptied_while_something_is_kept(engine: PluggedEngine) -> None:
    with httpx.Client() as client:
        talk = learnt(engine, client, "e")
        assert engine.state().kept_tokens
        client.post(f"{engine.url}/reset_prefix_cache", timeout=60).raise_for_status()
        assert engine.state().kept_tokens == 0
        assert talk.turn(client).cached == 0
        talk.over()


def test_all_blocks_come_back(engine: PluggedEngine) -> None:
    with httpx.Client() as client:
        talks = [learnt(engine, client, f"f{i}") for i in range(3)]
        others(engine, client, 3)
        for talk in talks:
            talk.turn(client)
            talk.over()
        eventually("nothing is kept", lambda: engine.state().kept_tokens == 0)
        others(engine, client, 1, tokens=20)
        eventually("no block is used", lambda: engine.vllm.metric("vllm:kv_cache_usage_perc") == 0)
