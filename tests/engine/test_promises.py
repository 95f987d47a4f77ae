"""What users are promised, on a real vLLM with our scheduler inside. Each promise has a policy that breaks it."""

import itertools
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import httpx2 as httpx
import pytest

from justitia_channel.messages import PlugInSnapshot, RunEnded
from justitia_cli.tiny_model import make_tiny_model
from justitia_scheduling.core.model import kv_token_time
from justitia_scheduling.policies.tiered import THETA
from justitia_vocabulary.units import RunId
from support.plugged_engine import Call, PluggedEngine, plugged_engine
from support.serving import eventually, http

SEATS, BLOCK, BLOCKS = 2, 32, 9
"""Two requests at a time, and eight blocks of KV for them: order decides everything."""


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PluggedEngine]:
    directory = tmp_path_factory.mktemp("promises")
    model = make_tiny_model(directory / "model")
    seats = (f"--max-num-seqs={SEATS}",)
    with plugged_engine(directory, model, blocks=BLOCKS, block_size=BLOCK, max_length=256, arguments=seats) as engine:
        yield engine


class ClosedLoop:
    """Clients that send single-request runs one after the other, until they are stopped. `made` makes the next call.
    The engine works only while each client has one open.
    """

    def __init__(self, engine: PluggedEngine, clients: int, made: Callable[[int], Call]) -> None:
        self._engine = engine
        self._made = made
        self._over = threading.Event()
        self._all_ask = engine.vllm.braked(0, clients)
        self._threads = [threading.Thread(target=self._send, args=(i,)) for i in range(clients)]
        self.answered: Counter[str] = Counter()

    def _send(self, client: int) -> None:
        with httpx.Client() as own:
            while not self._over.is_set():
                call = self._made(client)
                self._engine.send(call, own)
                self._engine.peer.send(RunEnded(RunId(call.run or call.key)))
                self.answered[call.tenant] += 1

    def __enter__(self) -> "ClosedLoop":
        self._all_ask.__enter__()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._all_ask.__exit__(None, None, None)
        for thread in self._threads:
            thread.join()


def shares_of_service(engine: PluggedEngine, policy: str, weights: dict[str, float], until: float) -> dict[str, float]:
    """Each tenant's part of what was charged from one snapshot to a later one, at least `until` in all."""
    engine.configure(policy, "weighted-tokens", **weights)
    rng, tenants = random.Random(policy), list(weights)

    def made(client: int) -> Call:
        return Call(tenants[client % len(tenants)], [rng.randrange(10, 200) for _ in range(120)], 4)

    return shares_of(engine, tenants, made, lambda snapshot: snapshot.service, until)


def shares_of(
    engine: PluggedEngine,
    names: list[str],
    made: Callable[[int], Call],
    service: Callable[[PlugInSnapshot], Mapping[Any, float]],
    until: float,
) -> dict[str, float]:
    """The part of each in what `service` tells. There are six clients for each, so that requests of all of them wait
    whatever the engine's two are.
    """

    def counts() -> list[Mapping[Any, float]]:
        found = [message for message in engine.peer.heard[begun:] if isinstance(message, PlugInSnapshot)]
        told = [service(s) for s in found if s.generation == engine.generation]
        return [each for each in told if set(names) <= each.keys()]

    def delivered() -> dict[str, float]:
        first, *_, last = counts()
        return {name: last[name] - first[name] for name in names}

    begun = len(engine.peer.heard)
    with ClosedLoop(engine, 6 * len(names), made):
        enough = "so much has been served"
        eventually(enough, lambda: len(counts()) > 2 and sum(delivered().values()) >= until, within=900)
    served = delivered()
    return {name: had / sum(served.values()) for name, had in served.items()}


def test_tenants_in_a_closed_loop_get_their_weights_within_five_percent(engine: PluggedEngine) -> None:
    """Long enough for that: sum of weights * 40 (B + U / least weight), with U = 2 * M and B = U / 4."""
    weights = {"bronze": 1.0, "silver": 2.0, "gold": 4.0}
    in_engine = 2.0 * BLOCK * (BLOCKS - 1)
    enough = sum(weights.values()) * 40 * (in_engine / 4 + in_engine)
    shares = shares_of_service(engine, "tiered-justitia", weights, enough)
    for tenant, weight in weights.items():
        assert shares[tenant] == pytest.approx(weight / sum(weights.values()), rel=0.05), shares


def shares_of_applications(engine: PluggedEngine, weights: dict[str, float]) -> dict[str, float]:
    """Parts of their tenant's service, which has another tenant beside it, by weights that the policy is told."""
    engine.configure("tiered-justitia", "weighted-tokens", applications=weights, gold=1.0, silver=1.0)
    rng, names = random.Random(1), ["ns/chat", "ns/batch"]
    of = [("gold", "ns/chat"), ("gold", "ns/batch"), ("silver", "ns/silver")]

    def made(client: int) -> Call:
        tenant, application = of[client % len(of)]
        return Call(tenant, [rng.randrange(10, 200) for _ in range(120)], 4, application=application)

    return shares_of(engine, names, made, lambda snapshot: snapshot.application_service, 40_000)


def test_applications_of_a_tenant_get_their_weights_of_its_service(engine: PluggedEngine) -> None:
    """The control tells them equal weights."""
    shares = shares_of_applications(engine, {"ns/chat": 1.0, "ns/batch": 3.0})
    assert shares["ns/batch"] == pytest.approx(0.75, rel=0.05), shares
    equal = shares_of_applications(engine, {"ns/chat": 1.0, "ns/batch": 1.0})
    assert equal["ns/batch"] == pytest.approx(0.5, rel=0.05), equal


def test_by_arrival_the_same_tenants_get_the_same(engine: PluggedEngine) -> None:
    """Negative control."""
    shares = shares_of_service(engine, "fcfs", {"bronze": 1.0, "silver": 2.0, "gold": 4.0}, 20_000)
    assert shares["gold"] < 0.45, shares


def spread_of_runs(engine: PluggedEngine, policy: str) -> float:
    """How many admissions lie between the first and the last one of a run, on average, where 12 runs of four parallel
    requests are sent in turns: the first request of each run, then the second of each, and so on.
    """
    engine.configure(policy, "kv-token-time", gold=1.0)
    rng = random.Random(policy)
    calls = [
        Call("gold", [rng.randrange(10, 200) for _ in range(60)], 30, run=f"{policy}-{run}", cost=4e3)
        for _ in range(4)
        for run in range(12)
    ]
    run_of = {call.key: call.run for call in calls}
    engine.send_all(calls)
    eventually("all are closed", lambda: {c.key for c in engine.peer.closed()} >= run_of.keys())
    engine.peer.send(*(RunEnded(RunId(str(run))) for run in set(run_of.values())))
    order = [run_of[admitted.key] for admitted in engine.peer.admitted() if admitted.key in run_of]
    places = {run: [i for i, other in enumerate(order) if other == run] for run in set(order)}
    return sum(p[-1] - p[0] - 3 for p in places.values()) / len(places)


def test_the_parallel_requests_of_a_run_are_served_together(engine: PluggedEngine) -> None:
    together, by_arrival = spread_of_runs(engine, "tiered-justitia"), spread_of_runs(engine, "fcfs")
    assert together < 6
    assert by_arrival > 2 * together, (together, by_arrival)


SMALL = (8, 4)
CLIENTS = 12


def small_runs_before_the_large_one(
    engine: PluggedEngine, policy: str, large: tuple[int, int], tenant: str, most: int
) -> int:
    """How many small runs of gold, of which twelve are always open, are answered before a run that has so `large` a
    prompt and output is begun, at most so many.
    """
    engine.configure(policy, "kv-token-time", gold=1.0, silver=1.0)
    rng, numbers = random.Random(policy), itertools.count()

    def call(of: str, name: str, size: tuple[int, int]) -> Call:
        prompt = [rng.randrange(10, 200) for _ in range(size[0])]
        return Call(of, prompt, size[1], f"{policy}-{tenant}-{name}", kv_token_time(*size))

    waits = call(tenant, "large", large)
    sent = threading.Thread(target=engine.send, args=(waits, http))

    def is_begun() -> bool:
        return any(admitted.key == waits.key for admitted in engine.peer.admitted())

    with ClosedLoop(engine, CLIENTS, lambda _: call("gold", f"small-{next(numbers)}", SMALL)) as loop:
        eventually("the small ones wait for each other", lambda: loop.answered["gold"] > 5 * CLIENTS)
        before = loop.answered["gold"]
        sent.start()
        eventually("it is begun", lambda: is_begun() or loop.answered["gold"] - before >= most, within=900)
        passed = loop.answered["gold"] - before
    sent.join()
    engine.peer.send(RunEnded(RunId(str(waits.run))))
    return passed


def test_a_run_a_hundred_times_as_large_as_those_of_another_tenant_waits_for_its_turn(engine: PluggedEngine) -> None:
    large = (60, 50)
    assert kv_token_time(*large) >= 100 * kv_token_time(*SMALL)
    in_engine = BLOCK * (BLOCKS - 1) * large[1]
    bound = round(1.25 * in_engine / kv_token_time(*SMALL)) + CLIENTS
    passed = small_runs_before_the_large_one(engine, "tiered-justitia", large, "silver", bound)
    print(f"{passed} small runs passed it, of {bound} at most")  # noqa: T201
    assert passed < bound
    assert small_runs_before_the_large_one(engine, "srjf", large, "silver", bound) >= bound, "SRJF starves it"


def test_a_run_eight_times_as_large_as_those_of_its_tenant_waits_as_long_as_is_derived(engine: PluggedEngine) -> None:
    """By `docs/design/tiered-justitia.md`; costs are told, so kappa is theta."""
    large = (20, 12)
    ratio = kv_token_time(*large) / kv_token_time(*SMALL)
    expected = round((2 * THETA - 1) * ratio**2 + 2 * THETA * CLIENTS * ratio)
    passed = small_runs_before_the_large_one(engine, "tiered-justitia", large, "gold", 2 * expected)
    print(f"{passed} small runs passed it, expected {expected}")  # noqa: T201
    assert passed == pytest.approx(expected, rel=0.3)
    assert small_runs_before_the_large_one(engine, "srjf", large, "gold", passed + 1) > passed, "SRJF starves it"


def work_before_the_honest_are_done(engine: PluggedEngine, policy: str, divisor: float) -> tuple[float, float]:
    """Mean work that the engine had done when an honest run was over, and when a run of the other tenant was. The
    latter's are forty times as large, and it claims that they cost their `divisor`th part.
    """
    engine.configure(policy, "kv-token-time", honest=1.0, other=1.0)
    rng = random.Random(5)
    calls = []
    for tenant, count, (prompt, output) in (("honest", 16, (20, 8)), ("other", 12, (100, 60))):
        claimed = kv_token_time(prompt, output) / (divisor if tenant == "other" else 1.0)
        calls += [
            Call(tenant, [rng.randrange(10, 200) for _ in range(prompt)], output, cost=claimed) for _ in range(count)
        ]
    owner = {call.key: call.tenant for call in calls}
    engine.send_all(calls)
    eventually("all are closed", lambda: {c.key for c in engine.peer.closed()} >= owner.keys())
    engine.peer.send(*(RunEnded(RunId(key)) for key in owner))
    done, work = 0.0, {"honest": 0.0, "other": 0.0}
    for closed in engine.peer.closed():
        if closed.key in owner:
            done += closed.charge
            work[owner[closed.key]] += done
    return work["honest"] / 16, work["other"] / 12


def test_a_tenant_that_lies_neither_gains_nor_harms_beyond_twofold(engine: PluggedEngine) -> None:
    honest, other = work_before_the_honest_are_done(engine, "tiered-justitia", 1.0)
    beside_liar, liar = work_before_the_honest_are_done(engine, "tiered-justitia", 1000.0)
    assert beside_liar < 2 * honest
    assert liar > other / 2
    believed, _ = work_before_the_honest_are_done(engine, "justitia", 1000.0)
    assert believed > 2 * honest, "the paper's rule believes it"


def ended_before_the_light_one(engine: PluggedEngine, policy: str) -> int:
    """How many of two requests that hold all seats are over when another tenant's small one is. None loses a token."""
    engine.configure(policy, "engine-time", heavy=1.0, light=1.0)
    rng = random.Random(policy)

    def call(tenant: str, prompt: int, output: int) -> Call:
        tokens = [rng.randrange(10, 200) for _ in range(prompt)]
        return Call(tenant, tokens, output, cost=kv_token_time(prompt, output))

    heavy, light = [call("heavy", 20, 100) for _ in range(SEATS)], call("light", 20, 4)
    outputs: list[int] = []

    def send(sent: Call) -> None:
        with httpx.Client() as own:
            outputs.append(engine.send(sent, own)["usage"]["completion_tokens"])

    threads = [threading.Thread(target=send, args=(each,)) for each in heavy]
    with engine.vllm.braked(0.05):
        for thread in threads:
            thread.start()
        keys = {each.key for each in heavy}
        eventually("all seats are taken", lambda: {a.key for a in engine.peer.admitted()} >= keys)
        send(light)
    for thread in threads:
        thread.join()
    assert sorted(outputs) == [4, 100, 100]
    eventually("all are closed", lambda: {c.key for c in engine.peer.closed()} >= {*keys, light.key})
    engine.peer.send(*(RunEnded(RunId(each.key)) for each in (*heavy, light)))
    over = [closed.key for closed in engine.peer.closed()]
    return sum(over.index(each.key) < over.index(light.key) for each in heavy)


def test_a_tenant_that_asks_for_little_does_not_wait_for_those_that_take_all(engine: PluggedEngine) -> None:
    before = engine.state().evictions
    assert ended_before_the_light_one(engine, "tiered-justitia") == 0
    assert engine.state().evictions > before
    assert ended_before_the_light_one(engine, "vtc") > 0, "VTC never takes back what it admitted"
