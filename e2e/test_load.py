"""The main job on a real node: tenants that flood are served by their weights, and small runs end early."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import openai
import pytest

from justitia_e2e.example import (
    APPLICATION,
    CHANGE_SECONDS,
    NAMESPACE,
    POOL,
    READY,
    TENANT,
    Record,
    User,
    answer_of,
    client_of,
    complete,
    justitia,
    programmed,
)
from support.kubectl import eventually

WEIGHTS = {APPLICATION: 3.0, "summaries": 1.0}
"""The weights of the applications' tenants in the example."""
AT_ONCE = 24
"""Requests at once of each tenant that floods: more than the engine serves together."""
SECONDS = 60.0
TOKENS = 128
"""Tokens of an answer to tenants that flood. With fewer, the clients, which share the machine with the engine, do not
keep it busy. With more, the requests in the engine, by which a tenant may be ahead, are a large part of what is served.
"""
FEW_TOKENS = 8
LARGE, SMALL = 150, 3
"""Requests of a large and a small run. The large one has many times what the engine serves together, so that most of it
waits when its first requests are answered.
"""


OCCASIONAL = """\
apiVersion: v1
kind: Secret
metadata: {name: cpu-occasional-key, namespace: justitia-system}
stringData: {token: example-only-occasional-0123456789abcdef}
---
apiVersion: justitia.dev/v1alpha1
kind: Tenant
metadata: {name: cpu-occasional}
spec:
  weight: "4"
  namespaces: {names: [cpu]}
  apiKeys: [{secretRef: {name: cpu-occasional-key}}]
---
apiVersion: justitia.dev/v1alpha1
kind: LLMApplication
metadata: {name: occasional, namespace: cpu}
spec: {tenantRef: {name: cpu-occasional}, poolRef: {name: shared}}
"""


@dataclass(frozen=True)
class Answer:
    """An answer: its moments in seconds of the monotonic clock, and its tokens."""

    asked: float
    came: float
    tokens: int

    @property
    def seconds(self) -> float:
        return self.came - self.asked


def answer(client: openai.OpenAI, tokens: int = TOKENS) -> Answer:
    asked = time.monotonic()
    produced = complete(client, tokens)
    return Answer(asked, time.monotonic(), produced)


@pytest.fixture
def occasional(user: User, address: str) -> Iterator[openai.OpenAI]:
    """A client of a third tenant, which sends few requests, one at a time."""
    user("apply", "-f", "-", stdin=OCCASIONAL)
    eventually(lambda: user.condition("llmapp", "occasional", NAMESPACE, "Ready") == READY, CHANGE_SECONDS)
    with client_of(APPLICATION, address) as other:
        yield other.with_options(
            base_url=f"http://{address}/applications/{NAMESPACE}/occasional/v1",
            api_key="example-only-occasional-0123456789abcdef",
        )
    user("delete", "--wait=false", "-f", "-", stdin=OCCASIONAL)


@contextmanager
def flood(client: openai.OpenAI) -> Iterator[list[Answer]]:
    """Keep `AT_ONCE` requests under way. Yields the answers so far."""
    answers: list[Answer] = []
    over = threading.Event()

    def ask() -> None:
        while not over.is_set():
            answers.append(answer(client))

    with ThreadPoolExecutor(AT_ONCE) as threads:
        asking = [threads.submit(ask) for _ in range(AT_ONCE)]
        try:
            yield answers
        finally:
            over.set()
    for each in asking:
        each.result()


def ahead(before: dict[str, Any], after: dict[str, Any], first: str, other: str) -> tuple[float, float]:
    """How much more the other tenant was charged for its weight between two looks, and how much the policy allows."""
    were, are = ({t["name"]: t for t in status["tenants"]} for status in (before, after))
    one, two = ((are[t]["service"] - were[t]["service"]) / are[t]["weight"] for t in (first, other))
    burst, inside = (max(status["gate"][part] for status in (before, after)) for part in ("burst", "inEngine"))
    return two - one, 2 * burst + sum(inside / are[t]["weight"] for t in (first, other))


def test_tenants_that_flood_are_served_by_their_weights_and_one_that_does_not_hardly_notices(
    user: User, address: str, occasional: openai.OpenAI, tmp_path: Path, record_property: Record
) -> None:
    """The burst is 0, because a minute is short: two tenants may be twice the burst apart over any time."""
    user.patch("servingpool", POOL, NAMESPACE, {"spec": {"scheduling": {"burstSeconds": 0}}})
    eventually(lambda: programmed(user) and answer_of(user, tmp_path, "top")["gate"]["burst"] == 0, CHANGE_SECONDS)
    alone = [answer(occasional, FEW_TOKENS).seconds for _ in range(20)]
    heavy, light = (client_of(application, address) for application in WEIGHTS)
    with heavy, light, flood(heavy) as of_heavy, flood(light) as of_light:
        eventually(lambda: of_heavy and of_light, CHANGE_SECONDS)
        before = answer_of(user, tmp_path, "top")
        begin = time.monotonic()
        beside: list[Answer] = []
        while not beside or beside[-1].came < begin + SECONDS:
            beside.append(answer(occasional, FEW_TOKENS))
        after = answer_of(user, tmp_path, "top")
    measured = [[a for a in answers if begin <= a.came < begin + SECONDS] for answers in (of_heavy, of_light, beside)]
    served = [sum(a.tokens for a in answers) for answers in measured]
    ratio, due = served[0] / served[1], WEIGHTS[APPLICATION] / WEIGHTS["summaries"]
    waited = [median(a.seconds for a in answers) for answers in measured]
    floods = f"two tenants that flood for {SECONDS:.0f} s and one that does not"
    record_property(f"tokens a second of {floods}", [round(n / SECONDS) for n in served])
    record_property(f"ratio of the first two, due {due:g}", f"{ratio:.2f}")
    record_property(f"median seconds for an answer of {floods}", [round(seconds, 2) for seconds in waited])
    record_property("the last one's when it is alone", round(median(alone), 2))
    user.patch("servingpool", POOL, NAMESPACE, {"spec": {"scheduling": {"burstSeconds": None}}})
    more, allowed = ahead(before, after, TENANT, "cpu-research")
    record_property("engine seconds that one is ahead for its weight", f"{more:.1f}, allowed are {allowed:.1f}")
    assert abs(more) <= allowed
    waiting = [[t["queued"] for t in status["tenants"]] for status in (before, after)]
    record_property("waiting requests of each tenant when it begins and ends", waiting)
    assert ratio == pytest.approx(due, rel=0.2)
    assert waited[2] < 0.3 * min(waited[:2])


def test_who_looks_sees_shares_and_why_a_request_waits_behind_whom(user: User, address: str, tmp_path: Path) -> None:
    heavy, light = (client_of(application, address) for application in WEIGHTS)

    def whole_queue() -> list[dict[str, Any]]:
        """The queue of both tenants. Its last request waits for seconds, so that it can be asked about."""
        queue: list[dict[str, Any]] = answer_of(user, tmp_path, "explain")
        assert len({row["tenant"] for row in queue}) == len(WEIGHTS)
        return queue

    def last_one() -> str:
        request: str = whole_queue()[-1]["request"]
        (one,) = answer_of(user, tmp_path, "explain", request)
        assert one["request"] == request
        return request

    def last_one_in_words() -> str:
        done = justitia(user, tmp_path, "explain", whole_queue()[-1]["request"])
        assert done.returncode == 0, done.stderr
        return done.stdout

    with heavy, light, flood(heavy), flood(light):
        queue = eventually(whole_queue, CHANGE_SECONDS)
        eventually(last_one, CHANGE_SECONDS)
        words = eventually(last_one_in_words, CHANGE_SECONDS)
        status = answer_of(user, tmp_path, "top")
    assert [row["position"] for row in queue] == list(range(1, len(queue) + 1))
    assert all(row["reason"] for row in queue)
    assert "before it:" in words
    assert set(WEIGHTS.values()) <= {tenant["weight"] for tenant in status["tenants"]}


def run_of(threads: ThreadPoolExecutor, client: openai.OpenAI, name: str, requests: int) -> list[Future[float]]:
    def ask() -> float:
        complete(client, TOKENS, run=name)
        return time.monotonic()

    return [threads.submit(ask) for _ in range(requests)]


def large_and_small(client: openai.OpenAI) -> tuple[float, float]:
    """The time of a run of many requests, and of a run of few that came when the first of those were answered."""
    with ThreadPoolExecutor(LARGE + SMALL) as threads:
        began = time.monotonic()
        large = run_of(threads, client, f"large-{began}", LARGE)
        eventually(lambda: any(each.done() for each in large), CHANGE_SECONDS)
        came = time.monotonic()
        small = run_of(threads, client, f"small-{began}", SMALL)
        return max(each.result() for each in large) - began, max(each.result() for each in small) - came


def test_a_small_run_ends_long_before_a_large_one_that_came_first(
    user: User, client: openai.OpenAI, record_property: Record
) -> None:
    """Under FCFS, which takes effect without a restart, it does not."""
    large, small = large_and_small(client)
    user.patch("servingpool", POOL, NAMESPACE, {"spec": {"scheduling": {"policy": "FCFS"}}})
    eventually(lambda: in_effect(user, "FCFS"), CHANGE_SECONDS)
    large_fcfs, small_fcfs = large_and_small(client)
    user.patch("servingpool", POOL, NAMESPACE, {"spec": {"scheduling": {"policy": None}}})
    eventually(lambda: in_effect(user, "TieredJustitia"), CHANGE_SECONDS)
    took = {"TieredJustitia": (large, small), "FCFS": (large_fcfs, small_fcfs)}
    for policy, (whole, part) in took.items():
        record_property(
            f"a run of {LARGE} and one of {SMALL} that came later, {policy}", f"{whole:.1f} s, {part:.1f} s"
        )
    assert small < 0.5 * small_fcfs
    assert large < 1.5 * large_fcfs


def in_effect(user: User, policy: str) -> bool:
    pool = user.get("servingpool", POOL, NAMESPACE)
    return pool["spec"]["scheduling"]["policy"] == policy and programmed(user) is not None
