"""Our scheduler inside a real vLLM with its prefix cache: what the cache has goes first, inside a tenant."""

import random
from collections.abc import Iterator
from itertools import chain

import pytest

from justitia_channel.messages import Arrived
from justitia_cli.tiny_model import make_tiny_model
from justitia_vocabulary.units import RequestId, Tokens
from support.plugged_engine import Call, PluggedEngine, plugged_engine
from support.serving import eventually

BLOCK, BLOCKS, BLOCKS_SHARED = 32, 65, 8
COST = 1e5
ROUNDS = 3


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PluggedEngine]:
    """It serves one request at a time."""
    directory = tmp_path_factory.mktemp("cached")
    model = make_tiny_model(directory / "model")
    arguments = ["--max-num-seqs", "1"]
    with plugged_engine(directory, model, blocks=BLOCKS, block_size=BLOCK, arguments=arguments) as engine:
        yield engine


def prompt(rng: random.Random, tokens: int) -> list[int]:
    return [rng.randrange(10, 200) for _ in range(tokens)]


def served(engine: PluggedEngine, calls: list[Call]) -> tuple[list[str], list[str]]:
    """Keys of the calls in the order in which they arrived, and in which they were admitted."""
    begun = len(engine.peer.heard)
    engine.send_all(calls)
    eventually("all are closed", lambda: {c.key for c in engine.peer.closed()} >= {call.key for call in calls})
    heard = engine.peer.heard[begun:]
    own = {call.key for call in calls}
    admitted = [message.key for message in engine.peer.admitted() if message.key in own]
    return [message.key for message in heard if isinstance(message, Arrived)], admitted


def rounds(engine: PluggedEngine, policy: str) -> Iterator[tuple[Call, list[str], list[str]]]:
    """Runs of one cost wait, of two tenants, and vLLM has the prompt of one of them: it, arrivals and admissions."""
    engine.configure(policy, "engine-time", gold=1.0, silver=1.0)
    for number in range(ROUNDS):
        rng = random.Random(f"{policy}/{number}")
        shared = prompt(rng, BLOCKS_SHARED * BLOCK)
        served(engine, [Call("gold", [*shared, 5], 2, cost=COST)])
        warm = Call("gold", [*shared, 7], 2, cost=COST)
        cold = [Call(tenant, prompt(rng, len(warm.prompt)), 2, cost=COST) for tenant in ("gold", "silver") * 3]
        calls = [*cold[:3], warm, *cold[3:]]
        yield warm, *served(engine, calls)


def passed_over(engine: PluggedEngine, call: Call) -> list[str]:
    """Runs of the call's tenant that were admitted while it and others of the tenant waited, up to its own."""
    waiting: dict[str, str] = {}
    tenants: dict[str, str] = {}
    first: list[str] = []
    for _, event, arguments, _ in engine.recorded():
        match event, arguments:
            case "run_arrived", (run, _):
                tenants[run.id] = run.tenant
            case "request_arrived", (request, _):
                waiting[request.id] = request.run
            case "admitted", (request, *_):
                own = [run for run in waiting.values() if tenants[run] == call.tenant]
                run = waiting.pop(request)
                if call.key in own and len(own) > 1 and tenants[run] == call.tenant:
                    first.append(run)
    return first


def test_of_a_tenants_runs_the_one_goes_first_that_the_cache_has(engine: PluggedEngine) -> None:
    for warm, arrived, admitted in rounds(engine, "tiered-justitia"):
        assert passed_over(engine, warm) == [warm.key]
        cached = {c.key: c.cached for c in engine.peer.closed()}
        assert cached[warm.key] == BLOCKS_SHARED * BLOCK
        assert sorted(arrived) == sorted(admitted)
    assert engine.peer.state().failures == 0, engine.peer.state()


def test_the_control_a_policy_that_does_not_ask_serves_as_they_arrived(engine: PluggedEngine) -> None:
    orders = list(rounds(engine, "fcfs"))
    assert all(admitted == arrived for _, arrived, admitted in orders)


def test_what_is_said_to_be_in_the_cache_is_what_vllm_finds_there(engine: PluggedEngine) -> None:
    """Prompts that share blocks in part, more of them than fit: some are evicted."""
    engine.configure("tiered-justitia", "engine-time", gold=1.0)
    rng = random.Random(23)
    texts = [prompt(rng, 700) for _ in range(4)]
    calls = [
        Call("gold", rng.choice(texts)[: rng.randrange(20, 700)] + prompt(rng, rng.randrange(1, 60)), 3, cost=COST)
        for _ in range(40)
    ]
    served(engine, calls)
    said: dict[RequestId, Tokens] = {}
    compared: list[tuple[Tokens, Tokens]] = []
    for _, event, arguments, answer in engine.recorded():
        if event == "in_cache":
            said[arguments[0]] = answer
        elif event == "admitted" and arguments[0] in said:
            compared.append((said[arguments[0]], arguments[2]))
    assert [found for _, found in compared] == [expected for expected, _ in compared]
    assert len({found for _, found in compared}) > 5, compared
    assert min(chain(*compared)) == 0
