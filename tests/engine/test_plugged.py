"""Our scheduler inside a real vLLM: order, charges, preemption, tickets."""

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest

from justitia_channel.messages import Queue, RunEnded
from justitia_cli.tiny_model import make_tiny_model
from justitia_scheduling.baselines.registry import build_policy
from justitia_scheduling.core.model import kv_token_time
from justitia_scheduling.core.policy import Policy
from justitia_vocabulary.units import RequestId, RunId, Tokens
from support.plugged_engine import Call, PluggedEngine, plugged_engine
from support.serving import eventually, running_vllm

BLOCK, BLOCKS = 32, 33


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PluggedEngine]:
    directory = tmp_path_factory.mktemp("plugged")
    model = make_tiny_model(directory / "model")
    with plugged_engine(directory, model, blocks=BLOCKS, block_size=BLOCK) as engine:
        yield engine


def prompt(rng: random.Random, tokens: int) -> list[int]:
    return [rng.randrange(10, 200) for _ in range(tokens)]


def replay(engine: PluggedEngine) -> dict[str, int]:
    """The recorded events told to policies made anew: every answer must be the same. Returns how often each came."""
    policies: dict[int, Policy] = {}
    in_cache: dict[RequestId, Tokens] = {}
    counts: dict[str, int] = {}
    for number, event, arguments, answer in engine.recorded():
        counts[event] = counts.get(event, 0) + 1
        if event == "made":
            policies[number] = build_policy(*arguments)
            policies[number].in_cache = lambda request: in_cache.get(request, 0)
            continue
        if event == "in_cache":
            in_cache[arguments[0]] = answer
            continue
        policy = policies[number]
        if event == "step_time":
            policy.cost_model.learn_step_time(*arguments)
            continue
        if event == "admitted":
            assert policy.head() == arguments[0]
        assert getattr(policy, event)(*arguments) == answer, (event, arguments)
    return counts


def at_rest(engine: PluggedEngine, calls: list[Call]) -> None:
    eventually("all are closed", lambda: {c.key for c in engine.peer.closed()} >= {call.key for call in calls})


@pytest.mark.parametrize("policy", ["fcfs", "vtc", "justitia", "tiered-justitia", "uniboost", "srpt"])
def test_the_order_served_is_the_policys_and_nothing_is_lost_or_charged_twice(
    engine: PluggedEngine, policy: str
) -> None:
    rng = random.Random(policy)
    engine.configure(policy, "kv-token-time", gold=2.0, silver=1.0)
    calls = [
        Call(
            rng.choice(["gold", "silver"]),
            prompt(rng, rng.choice([20, 100, 300])),
            rng.choice([5, 40, 120]),
            run=f"{policy}-{i // 3}",
            cost=rng.choice([1e3, 1e4, 1e5]),
        )
        for i in range(30)
    ]
    answers: list[dict[str, Any]] = engine.send_all(calls)
    at_rest(engine, calls)
    closed = {each.key: each for each in engine.peer.closed()}
    for call, answer in zip(calls, answers, strict=True):
        assert answer["usage"]["completion_tokens"] == call.max_tokens == closed[call.key].produced
        assert closed[call.key].charge == kv_token_time(len(call.prompt) - closed[call.key].cached, call.max_tokens)
        assert closed[call.key].finished
    counts = replay(engine)
    assert counts["admitted"] >= 30
    assert engine.peer.state().failures == 0, engine.peer.state()
    engine.peer.send(*(RunEnded(RunId(run)) for run in {call.run for call in calls if call.run}))


def test_a_storm_of_preemptions_loses_nothing_and_answers_as_stock_vllm_does(
    engine: PluggedEngine, tmp_path: Path
) -> None:
    """KV for three requests as long as they become, forty waiting. Where a greedy answer first differs from that of
    vLLM with its own scheduler and space for all, the two best tokens must have been as good as equal.
    """
    rng = random.Random(3)
    engine.configure("tiered-justitia", "kv-token-time", gold=2.0, silver=1.0)
    calls = [
        Call(rng.choice(["gold", "silver"]), prompt(rng, 100), 220, cost=1e4, body={"logprobs": 2}) for _ in range(40)
    ]
    answers = engine.send_all(calls)
    at_rest(engine, calls)
    closed = {each.key: each for each in engine.peer.closed()}
    preempted = [closed[call.key].preemptions for call in calls]
    assert sum(preempted) >= 10
    for call, answer in zip(calls, answers, strict=True):
        assert answer["usage"]["completion_tokens"] == closed[call.key].produced == 220
        assert closed[call.key].charge == kv_token_time(100 - closed[call.key].cached, 220)
    replay(engine)

    gaps = [gap_where_they_differ(*both) for both in zip(stock_answers(tmp_path, calls), answers, strict=True)]
    differ = [gap for gap in gaps if gap is not None]
    print(  # noqa: T201
        f"{len(calls)} greedy answers, {sum(map(bool, preempted))} of requests that were preempted: "
        f"{len(calls) - len(differ)} are stock's, {len(differ)} first differ where the best two are {differ} apart"
    )
    assert all(gap < 1e-3 for gap in differ), gaps
    assert len(differ) < len(calls) / 2


def stock_answers(directory: Path, calls: list[Call]) -> list[dict[str, Any]]:
    """The answers of vLLM with its own scheduler, which never preempts."""
    model, blocks = (
        make_tiny_model(directory / "model"),
        1 + sum(-(-(len(c.prompt) + c.max_tokens) // BLOCK) for c in calls),
    )
    with (
        running_vllm(directory, model, max_length=1024, block_size=BLOCK, blocks=blocks) as stock,
        httpx.Client(limits=httpx.Limits(max_connections=None)) as client,
        ThreadPoolExecutor(len(calls)) as threads,
    ):
        url = f"{stock.url}/v1/completions"
        answers = list(threads.map(lambda call: client.post(url, timeout=300, **call.request()), calls))
        assert stock.metric("vllm:num_preemptions_total") == 0
    return [answer.raise_for_status().json() for answer in answers]


def gap_where_they_differ(answer: dict[str, Any], other: dict[str, Any]) -> float | None:
    """Difference of the two best log-probabilities at the first token that is another one; None if none is."""
    ours, theirs = (each["choices"][0]["logprobs"] for each in (answer, other))
    for token, another, best in zip(ours["tokens"], theirs["tokens"], ours["top_logprobs"], strict=True):
        if token != another:
            first, second, *_ = sorted(best.values(), reverse=True)
            return float(first - second)
    return None


def test_one_ticket_serves_all_sequences_of_a_request(engine: PluggedEngine) -> None:
    engine.configure("vtc", "kv-token-time", gold=1.0)
    several = Call("gold", prompt(random.Random(1), 30), 8, body={"n": 3, "temperature": 1.0})
    prompts = Call("gold", [], 8, body={"prompt": [[5] * 20, [6] * 40]})
    prompts.sequences, several.sequences = 2, 3
    engine.send_all([several, prompts])
    eventually(
        "all five are closed", lambda: sum(c.key in {several.key, prompts.key} for c in engine.peer.closed()) == 5
    )
    closed = [c for c in engine.peer.closed() if c.key in {several.key, prompts.key}]
    assert len({(c.key, c.sequence) for c in closed}) == 5
    assert sorted(c.prompt_tokens for c in closed) == [20, 30, 30, 30, 40]
    assert all(c.produced == 8 for c in closed)
    assert engine.peer.state().unticketed == 0


def test_what_a_client_sends_as_priority_changes_nothing(engine: PluggedEngine) -> None:
    engine.configure("fcfs", "kv-token-time", gold=1.0)
    rng = random.Random(5)
    calls = [
        Call("gold", prompt(rng, 300), 60, body={"priority": -i}, headers={"x-vllm-priority": str(-1000 * i)})
        for i in range(9)
    ]
    engine.send_all(calls)
    at_rest(engine, calls)
    replay(engine)


def test_a_client_that_goes_away_is_charged_for_what_was_produced(engine: PluggedEngine) -> None:
    engine.configure("tiered-justitia", "kv-token-time", gold=1.0)
    call = Call("gold", prompt(random.Random(7), 50), 900)
    engine.ticket(call)
    with engine.vllm.braked():
        engine.leave_after_first_chunk(call)
        at_rest(engine, [call])
    closed = next(c for c in engine.peer.closed() if c.key == call.key)
    assert not closed.finished
    assert 0 < closed.produced < 900
    assert closed.charge == kv_token_time(50 - closed.cached, closed.produced)


def test_without_a_ticket_or_with_a_malformed_one_a_request_is_served_and_counted(engine: PluggedEngine) -> None:
    engine.configure("tiered-justitia", "kv-token-time", gold=1.0)
    before = engine.state()
    calls = [Call("gold", [9] * 20, 5, ticketed=False), Call("gold", [9] * 20, 5, ticketed=False)]
    engine.peer.send_bytes(b'{"kind":"ticket","key":"' + calls[1].key.encode() + b'","tenant":5}\n\xff\xfe\n')
    assert all(answer["usage"]["completion_tokens"] == 5 for answer in engine.send_all(calls))
    eventually("they are counted", lambda: engine.state().unticketed - before.unticketed == 2)
    assert engine.state().malformed - before.malformed == 2


def test_a_ticket_that_comes_late_corrects_the_order(engine: PluggedEngine) -> None:
    engine.configure("vtc", "kv-token-time", gold=1.0)
    before = engine.state()
    call = Call("gold", prompt(random.Random(11), 50), 900, ticketed=False)
    with engine.vllm.braked():
        engine.leave_after_first_chunk(call, then=lambda: engine.ticket(call), chunks=20)
        at_rest(engine, [call])
    after = engine.state()
    assert after.late_tickets - before.late_tickets == 1
    assert after.service["gold"] > before.service.get("gold", 0.0)


def test_when_the_sidecar_is_gone_requests_are_served_and_when_it_is_back_it_is_heard(engine: PluggedEngine) -> None:
    engine.configure("vtc", "kv-token-time", gold=1.0)
    engine.peer.drop()
    orphan = Call("gold", [9] * 20, 5, ticketed=False)
    assert engine.send_all([orphan])[0]["usage"]["completion_tokens"] == 5
    eventually("the engine is back", lambda: engine.peer.connected)
    engine.configure("vtc", "kv-token-time", gold=1.0)
    call = Call("gold", [9] * 20, 5)
    engine.send_all([call])
    at_rest(engine, [call])
    replay(engine)


def test_a_policy_that_raises_is_dismissed_and_the_engine_serves_on(engine: PluggedEngine) -> None:
    engine.configure("raises-at-the-third-step", "kv-token-time", gold=1.0)
    before = engine.state().failures
    rng = random.Random(13)
    calls = [Call("gold", prompt(rng, 200), 40) for _ in range(12)]
    assert all(answer["usage"]["completion_tokens"] == 40 for answer in engine.send_all(calls))
    assert engine.state().failures == before + 1
    assert "on purpose" in engine.state().failure
    engine.configure("tiered-justitia", "kv-token-time", gold=1.0)
    after = Call("gold", [9] * 20, 5)
    engine.send_all([after])
    at_rest(engine, [after])
    assert engine.state().failures == before + 1


def test_weights_change_between_two_steps(engine: PluggedEngine) -> None:
    engine.configure("vtc", "kv-token-time", gold=1.0, silver=1.0)
    rng = random.Random(17)
    calls = [Call(tenant, prompt(rng, 200), 60) for _ in range(12) for tenant in ("gold", "silver")]

    def change() -> None:
        assert engine.queue().waiting
        engine.configure("vtc", "kv-token-time", gold=1.0, silver=7.0)

    with engine.vllm.braked(0.005):
        engine.send_all(calls, when=(8, change))
    at_rest(engine, calls)
    assert any(e == "set_weight" and a[:2] == ("silver", 7.0) for _, e, a, _ in engine.recorded())
    assert engine.state().generation == engine.generation
    replay(engine)


def test_an_idle_engine_takes_a_policy_and_bounds_of_gamma_answers_and_says_so(engine: PluggedEngine) -> None:
    """No request is made."""
    eventually("it is idle", lambda: engine.state().running == 0)
    for bounds in ((0.5, 0.5), (2.0, 3.0)):
        engine.configure("uniboost", gamma=bounds, gold=1.0)
        state = engine.state()
        assert (state.generation, state.policy.gamma) == (engine.generation, bounds[0])
    assert engine.queue(5) == Queue(0, [])
    put_in_effect = [line for line in engine.log.read_text().splitlines() if "policy uniboost is in effect" in line]
    assert len([line for line in put_in_effect if f"by configuration {engine.generation - 1}," in line]) == 1
    assert not [line for line in put_in_effect if f"by configuration {engine.generation}," in line]


def test_the_policy_changes_while_requests_run_and_wait_and_nothing_is_lost_or_charged_twice(
    engine: PluggedEngine,
) -> None:
    engine.configure("vtc", "kv-token-time", gold=2.0, silver=1.0)
    rng = random.Random(19)
    calls = [Call(rng.choice(["gold", "silver"]), prompt(rng, 150), 150, cost=1e4) for _ in range(30)]

    def change() -> None:
        assert engine.queue().waiting
        for policy in ("uniboost", "srpt", "sjf", "fcfs", "tiered-justitia"):
            engine.configure(policy, "kv-token-time", gold=2.0, silver=1.0)
            engine.queue()

    with engine.vllm.braked(0.005):
        answers = engine.send_all(calls, when=(3, change))
    at_rest(engine, calls)
    closed = {each.key: each for each in engine.peer.closed()}
    assert len([c for c in engine.peer.admitted() if c.key in {call.key for call in calls}]) == len(calls)
    for call, answer in zip(calls, answers, strict=True):
        assert answer["usage"]["completion_tokens"] == closed[call.key].produced == 150
        assert closed[call.key].charge == kv_token_time(150 - closed[call.key].cached, 150)
    replay(engine)
