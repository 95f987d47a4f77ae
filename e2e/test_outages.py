"""Parts of the machine die, stop or go away under an engine that serves, and all is as before after a while.

The test run prints the seconds at its end.
"""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import openai
import pytest

from justitia_e2e.daemons import Daemons
from justitia_e2e.example import (
    CHANGE_SECONDS,
    ENGINE_SECONDS,
    NAMESPACE,
    POOL,
    TENANT,
    Record,
    User,
    answered,
    complete,
    engines_available,
    generation_in_effect,
    pods,
    processes,
    restarts,
    serves,
    streams,
    timed,
)
from justitia_e2e.machine import State
from justitia_e2e.memory import exhausted
from support.kubectl import Kubectl, eventually

pytestmark = pytest.mark.node

AWAY_SECONDS = 30.0
"""Twice the time after which a leader that cannot renew its Lease ends."""
STREAMS = 4
LOST_SECONDS = 240.0
"""The time until a node counts as lost: 50 s after its last sign of life. The controller that decides it may need up to
a minute to watch again, because the API server was away before.
"""
DRAIN_SECONDS = 180.0
"""A little more than a pod of the example may take to go."""


def kill(pod: dict[str, Any], part: str, number: signal.Signals = signal.SIGKILL) -> None:
    os.kill(process_of(pod, part), number)


def process_of(pod: dict[str, Any], part: str) -> int:
    """The process of the pod with this part in its command line."""
    (process,) = (process for process, line in processes(pod).items() if part in line)
    return process


@contextmanager
def engine_starts_again(user: User, client: openai.OpenAI, record: Record, after: str) -> Iterator[dict[str, Any]]:
    """Yields the pod. Checks afterwards that the engine, and nothing else in the pod, was started again."""
    (pod,) = pods(user)
    before = restarts(pod)
    yield pod
    with timed(record, f"{after}, until answers come again"):
        eventually(lambda: answered(client), ENGINE_SECONDS)
    eventually(lambda: serves(user), CHANGE_SECONDS)
    (pod,) = pods(user)
    assert restarts(pod) == before | {"engine": before["engine"] + 1}


def test_a_killed_sidecar_comes_back_and_the_engine_goes_on(
    user: User, client: openai.OpenAI, record_property: Record
) -> None:
    (pod,) = pods(user)
    before = restarts(pod)
    kill(pod, "justitia_sidecar")
    with timed(record_property, "sidecar killed, until answers come again"):
        eventually(lambda: not answered(client), CHANGE_SECONDS)
        eventually(lambda: answered(client), CHANGE_SECONDS)
    # The pod answers before its status says that it was started again.
    wanted = before | {"sidecar": before["sidecar"] + 1}
    eventually(lambda: [restarts(pod) for pod in pods(user)] == [wanted], CHANGE_SECONDS)


def test_a_killed_engine_fails_what_it_had_begun_and_comes_back(
    user: User, client: openai.OpenAI, record_property: Record
) -> None:
    with engine_starts_again(user, client, record_property, "engine killed") as pod, streams(client, 1) as (stream,):
        kill(pod, "VLLM::EngineCore")
        noticed = timed(record_property, "engine killed, until its streams fail")
        with noticed, pytest.raises(openai.APIError):
            stream.result(CHANGE_SECONDS)
        with timed(record_property, "engine killed, until the pool is not ready"):
            eventually(lambda: not serves(user), CHANGE_SECONDS)


def test_an_engine_that_ran_out_of_memory_comes_back_and_the_pool_says_what_to_raise(
    user: User, client: openai.OpenAI, record_property: Record
) -> None:
    def told() -> bool:
        _, reason, message = engines_available(user)
        return reason == "EngineOutOfMemory" and "raise engine.resources.limits.memory" in message

    spent = "engine out of memory"
    with engine_starts_again(user, client, record_property, spent) as pod, streams(client, 1) as (stream,):
        with exhausted(process_of(pod, "VLLM::EngineCore")), pytest.raises(openai.APIError):
            stream.result(CHANGE_SECONDS)
        with timed(record_property, f"{spent}, until the pool says so"):
            eventually(told, CHANGE_SECONDS)


def test_an_engine_that_hangs_is_ended_and_comes_back(
    user: User, client: openai.OpenAI, record_property: Record
) -> None:
    """Its server answers health checks all the while."""
    hung = "engine hung and ended"
    with engine_starts_again(user, client, record_property, hung) as pod, streams(client, 1) as (stream,):
        kill(pod, "VLLM::EngineCore", signal.SIGSTOP)
        noticed = timed(record_property, "engine hangs, until its streams fail")
        with noticed, pytest.raises(openai.APIError):
            stream.result(CHANGE_SECONDS)


def test_engines_serve_on_while_the_api_server_is_away(
    user: User, client: openai.OpenAI, record_property: Record
) -> None:
    daemons = Daemons(State())
    (pod,) = pods(user)
    before, generation = restarts(pod), generation_in_effect(pod["status"]["podIP"])
    daemons.stop("kube-apiserver")
    try:
        until = time.monotonic() + AWAY_SECONDS
        answers = 0
        while time.monotonic() < until:
            answers += complete(client) == 8
        record_property(f"answers while the API server was away for {AWAY_SECONDS:.0f} s", answers)
    finally:
        daemons.start_again("kube-apiserver")
    eventually(lambda: user.run("get", "--raw", "/readyz").stdout == "ok", CHANGE_SECONDS)
    with timed(record_property, "API server back, until a changed weight is in effect"):
        user.patch("tenant", TENANT, "", {"spec": {"weight": "4"}})
        eventually(lambda: generation_in_effect(pod["status"]["podIP"]) > generation, CHANGE_SECONDS)
    user.patch("tenant", TENANT, "", {"spec": {"weight": "3"}})
    eventually(lambda: serves(user), CHANGE_SECONDS)
    (after,) = pods(user)
    assert restarts(after) == before


def test_an_engine_serves_on_while_the_kubelet_stands_still(
    user: User, client: openai.OpenAI, record_property: Record
) -> None:
    """The node counts as lost and its endpoints leave the Service, but nothing is ended."""
    kubelet = Daemons(State()).running()["kubelet"]
    (pod,) = pods(user)
    os.kill(kubelet, signal.SIGSTOP)
    try:
        with timed(record_property, "kubelet stands still, until the pool is not ready"):
            eventually(lambda: not serves(user), LOST_SECONDS)
        directly = client.with_options(
            base_url=str(client.base_url).replace(client.base_url.host, pod["status"]["podIP"] + ":8000")
        )
        assert complete(directly) == 8
    finally:
        os.kill(kubelet, signal.SIGCONT)
    with timed(record_property, "kubelet goes on, until the pool is ready"):
        eventually(lambda: serves(user), CHANGE_SECONDS)
    eventually(lambda: answered(client), CHANGE_SECONDS)
    (after,) = pods(user)
    assert (after["metadata"]["uid"], restarts(after)) == (pod["metadata"]["uid"], restarts(pod))


def test_a_drained_node_finishes_what_it_has_begun_and_serves_again_when_it_may(
    administrator: Kubectl, user: User, client: openai.OpenAI, record_property: Record
) -> None:
    (pod,) = pods(user)
    node = pod["spec"]["nodeName"]
    with streams(client, STREAMS) as begun:
        pool = f"--pod-selector=justitia.dev/pool={POOL}"
        try:
            # A drain that has timed out goes on where it was.
            eventually(
                lambda: administrator("drain", node, pool, "--delete-emptydir-data", "--timeout=30s"), DRAIN_SECONDS
            )
        finally:
            administrator("uncordon", node)
        assert [stream.result() for stream in begun] == ["length"] * STREAMS
    with timed(record_property, "node drained and back, until answers come again"):
        eventually(
            lambda: serves(user) and [p["metadata"]["uid"] for p in pods(user)] != [pod["metadata"]["uid"]],
            ENGINE_SECONDS,
        )
        eventually(lambda: answered(client), ENGINE_SECONDS)
    assert user.exists("servingpool", POOL, NAMESPACE)
