"""What people see of a pool whose order is kept inside vLLM: queue, condition and metrics, with a real sidecar."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from justitia_cli.local.ports import free_ports
from justitia_cli.tiny_model import make_tiny_model
from support.serving import (
    KEYS,
    MODEL,
    RunningSidecar,
    Vllm,
    at_rest,
    eventually,
    http,
    running_sidecar,
    running_vllm,
)

BLOCK, BLOCKS = 32, 33
LONG = 1024
TENANTS = [{"name": "gold", "weight": 1}, {"name": "silver", "weight": 1}]
"""Equal weights: then a request of 800 tokens never takes the place of a running one, which has 1,000 at most."""


@dataclass
class Pool:
    """An engine with our scheduler in it, which may be started again, and a sidecar."""

    directory: Path
    model: Path
    port: int = field(default_factory=lambda: free_ports(1)[0])
    _engine: ExitStack = field(default_factory=ExitStack)
    _first: Iterator[int] = field(default_factory=lambda: cycle(range(3, 100)))
    sidecar: RunningSidecar = field(init=False)
    vllm: Vllm = field(init=False)

    def start_engine(self) -> None:
        self.vllm = self._engine.enter_context(
            running_vllm(
                self.directory,
                self.model,
                max_length=LONG,
                block_size=BLOCK,
                blocks=BLOCKS,
                environment={"JUSTITIA_SOCKET": str(self.socket)},
                port=self.port,
                scheduler="support.misbehaving_scheduler.JustitiaScheduler",
            )
        )

    def stop_engine(self) -> None:
        self._engine.close()

    @property
    def socket(self) -> Path:
        return self.directory / "engine.sock"

    def ask(self, tenant: str, prompt: int = 8, max_tokens: int = 4) -> dict[str, Any]:
        """Prompts have no prefix in common."""
        tokens = [next(self._first), *[7] * (prompt - 1)]
        body = {"model": MODEL, "prompt": tokens, "max_tokens": max_tokens, "ignore_eos": True}
        headers = {"authorization": f"Bearer {KEYS[tenant]}"}
        answer = http.post(f"{self.sidecar.public}/v1/completions", json=body, headers=headers)
        found: dict[str, Any] = answer.raise_for_status().json()
        return found

    def begin(self, tenant: str, prompt: int, max_tokens: int) -> threading.Thread:
        thread = threading.Thread(target=self.ask, args=(tenant, prompt, max_tokens))
        thread.start()
        return thread

    def metric(self, name: str) -> float:
        lines = [line for line in self.sidecar.metrics().splitlines() if line.startswith((name + "{", name + " "))]
        assert lines, f"no metric {name}"
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines)

    def condition(self) -> tuple[str, str]:
        (found,) = self.sidecar.status()["conditions"]
        assert found["type"] == "PolicyInEffect"
        return found["status"], found["reason"]

    def orders(self) -> bool:
        """Whether the engine orders as configured, once it has had a step."""
        self.ask("gold")
        return self.condition() == ("True", "Configured")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    directory = tmp_path_factory.mktemp("pool")
    pool = Pool(directory, make_tiny_model(directory / "model"))
    pool.start_engine()
    try:
        with running_sidecar(directory / "sidecar", f"http://127.0.0.1:{pool.port}", engine_socket=pool.socket) as up:
            pool.sidecar = up
            yield pool
    finally:
        pool.stop_engine()


@pytest.fixture
def pool(running: Pool) -> Pool:
    """At rest, with a policy that shares by weight."""
    configure(running, "TieredJustitia")
    eventually("the engine orders as configured", running.orders)
    eventually("nothing is open", lambda: at_rest(running.sidecar))
    return running


def configure(pool: Pool, policy: str) -> None:
    pool.sidecar.reconfigure(scheduling={"policy": policy, "costModel": "WeightedTokens"}, tenants=TENANTS)


def test_every_request_that_waits_says_why_and_by_what_it_is_ordered(pool: Pool) -> None:
    def seen() -> list[dict[str, Any]]:
        rows = pool.sidecar.queue()
        gated = [row["reason"] for row in rows if row["tenant"] == "gold"] == ["TenantGated"] * 2
        return rows if gated and len(rows) == 4 else []

    with pool.vllm.braked(0.01):
        threads = [pool.begin("gold", 300, 700)]
        eventually("it runs", lambda: pool.sidecar.tenant("gold")["running"] == 1)
        threads += [pool.begin(tenant, 800, 1) for tenant in ("gold", "gold", "silver", "silver")]
        rows = eventually("gold is ahead of its share", seen)
    assert [(row["tenant"], row["reason"]) for row in rows] == [
        ("silver", "NoKVSpace"),
        ("silver", "BehindOthers"),
        ("gold", "TenantGated"),
        ("gold", "TenantGated"),
    ]
    assert [row["rank"] for row in rows] == [row["position"] for row in rows] == [1, 2, 3, 4]
    keys = [tuple(row["orderKey"].values()) for row in rows]
    assert keys == sorted(keys)
    assert all(
        list(row["orderKey"]) == ["gated", "inTime", "overdueSince", "groupsBefore", "unboosted", "phiOrDistance"]
        for row in rows
    )
    assert all(row["run"] and row["sequences"] == 1 and row["promptTokens"] == 800 for row in rows)
    assert all(row["application"].startswith("demo/") and row["waitingSeconds"] >= 0 for row in rows)
    for thread in threads:
        thread.join()
    assert http.get(f"{pool.sidecar.admin}/internal/queue").json() == {"waiting": 0, "requests": []}


def test_what_the_engine_counts_is_exported(pool: Pool) -> None:
    """Steps are slow, so that no sequence ends before its ticket is heard."""
    before = pool.metric("justitia_tenant_kv_token_time_total")
    expected = before + 4 * 8 + 10

    def counted() -> bool:
        pool.ask("silver", 8, 4)
        return pool.metric("justitia_tenant_kv_token_time_total") >= expected

    with pool.vllm.braked():
        pool.ask("gold", 8, 4)
        eventually("it is counted", counted)
    assert pool.metric("justitia_engine_decision_seconds_count") > 0
    assert pool.metric("justitia_channel_lag_seconds_count") > 0
    mean = pool.metric("justitia_channel_lag_seconds_sum") / pool.metric("justitia_channel_lag_seconds_count")
    assert 0 < mean < 5
    assert pool.metric("justitia_channel_dropped_messages_total") == 0
    assert pool.metric("justitia_engine_unticketed_sequences_total") == 0
    assert pool.metric("justitia_plugin_connected") == 1


def test_a_policy_that_raises_is_told_and_a_change_of_configuration_puts_another_in_effect(pool: Pool) -> None:
    def failed() -> bool:
        pool.ask("gold")
        return pool.condition() == ("False", "PolicyFailed")

    before = pool.metric("justitia_engine_policy_failures_total")
    configure(pool, "Justitia")
    eventually("it has failed", failed)
    (condition,) = pool.sidecar.status()["conditions"]
    assert "on purpose" in condition["message"]
    assert pool.metric("justitia_engine_policy_failures_total") == before + 1
    assert pool.ask("silver")["usage"]["completion_tokens"] == 4
    configure(pool, "VTC")
    eventually("the engine orders as configured", pool.orders)


def test_an_engine_that_was_killed_is_missed_and_what_was_counted_does_not_fall(pool: Pool) -> None:
    names = (
        "justitia_engine_decision_seconds_count",
        "justitia_tenant_kv_token_time_total",
        "justitia_channel_lag_seconds_count",
        "justitia_engine_policy_failures_total",
    )
    before = {name: pool.metric(name) for name in names}
    pool.stop_engine()
    eventually("it is missed", lambda: pool.condition() == ("False", "NotConnected"))
    assert pool.metric("justitia_plugin_connected") == 0
    assert all(pool.metric(name) >= before[name] for name in names)  # it may have told more before it went
    pool.start_engine()
    eventually("it takes requests", lambda: pool.sidecar.status()["engineReady"])
    eventually("the engine orders as configured", pool.orders)
    assert all(pool.metric(name) >= before[name] for name in names)
    shares = [tenant["share"] for tenant in pool.sidecar.status()["tenants"]]
    assert all(share is None or 0 <= share <= 1 for share in shares)
