"""Two real vLLMs of one pool share by weight, whichever a client reaches, if they have a Valkey between them."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from justitia_benchmarks.valkey_server import ValkeyServer, running_valkey
from justitia_cli.tiny_model import make_tiny_model
from support.serving import KEYS, MODEL, RunningSidecar, Vllm, eventually, http, running_sidecar, running_vllm

CLIENTS = 8
MEASURED = 12_000.0
"""Weighted tokens of both engines together: some dozen requests of each client."""
SCHEDULING = {"policy": "VTC", "costModel": "WeightedTokens", "enforcement": "Engine"}


@dataclass
class Pool:
    """Its first pod is that of `gold` (weight 4) and `silver` (weight 1), the second of `gold` alone."""

    sidecars: list[RunningSidecar]
    vllms: list[Vllm]
    valkey: ValkeyServer

    def shares(self, *, over_valkey: bool) -> None:
        shared = {"valkey": {"pool": "p", "addresses": [self.valkey.address]}} if over_valkey else {}
        for sidecar in self.sidecars:
            sidecar.reconfigure(scheduling=SCHEDULING, **shared)
        if over_valkey:
            eventually("each hears of the other", lambda: all(_others(sidecar) == 1 for sidecar in self.sidecars))

    def ratio(self) -> float:
        """What gold was served by what silver was."""
        over = threading.Event()
        clients = [(0, "gold"), (0, "silver"), (1, "gold")] * CLIENTS
        with ThreadPoolExecutor(len(clients)) as threads:
            for pod, tenant in clients:
                threads.submit(self._keep_asking, pod, tenant, over)
            try:
                before = self._await_service(self._total() + MEASURED / 4)
                after = self._await_service(sum(before.values()) + MEASURED)
            finally:
                over.set()
        return (after["gold"] - before["gold"]) / (after["silver"] - before["silver"])

    def _keep_asking(self, pod: int, tenant: str, over: threading.Event) -> None:
        body = {"model": MODEL, "prompt": [5] * 40, "max_tokens": 24, "ignore_eos": True}
        while not over.is_set():
            headers = {"authorization": f"Bearer {KEYS[tenant]}"}
            http.post(f"{self.sidecars[pod].public}/v1/completions", json=body, headers=headers).raise_for_status()

    def _service(self) -> dict[str, float]:
        told = [tenant for sidecar in self.sidecars for tenant in sidecar.status()["tenants"]]
        return {name: sum(t["service"] for t in told if t["name"] == name) for name in KEYS}

    def _total(self) -> float:
        return sum(self._service().values())

    def _await_service(self, enough: float) -> dict[str, float]:
        eventually(f"{enough:.0f} tokens were served", lambda: self._total() >= enough)
        return self._service()


def _others(sidecar: RunningSidecar) -> int:
    return int((sidecar.status().get("sharing") or {"others": 0})["others"])


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    directory = tmp_path_factory.mktemp("two")
    model = make_tiny_model(directory / "model")
    sidecars, vllms = [], []
    with ExitStack() as stack:
        valkey = stack.enter_context(running_valkey(directory))
        for name in ("first", "second"):
            folder = directory / name
            folder.mkdir()
            socket = folder / "engine.sock"
            vllm = stack.enter_context(
                running_vllm(
                    folder,
                    model,
                    max_length=256,
                    block_size=32,
                    blocks=17,
                    arguments=["--no-enable-prefix-caching"],
                    environment={"JUSTITIA_SOCKET": str(socket)},
                    scheduler="support.braked_scheduler.JustitiaScheduler",
                )
            )
            sidecar = stack.enter_context(running_sidecar(folder / "sidecar", vllm.url, engine_socket=socket))
            eventually("the plug-in has connected", lambda log=sidecar.log: "plug-in has connected" in log.read_text())
            vllms.append(vllm)
            sidecars.append(sidecar)
        yield Pool(sidecars, vllms, valkey)


def test_weights_hold_over_both_engines_and_without_valkey_in_each(pool: Pool) -> None:
    """Alone, each gives its own time 4 : 1 or all of it to gold, which is 9 : 1."""
    with pool.vllms[0].braked(0.03), pool.vllms[1].braked(0.03):
        pool.shares(over_valkey=True)
        assert pool.ratio() == pytest.approx(4.0, rel=0.15)
        pool.shares(over_valkey=False)
        assert pool.ratio() > 6.5
