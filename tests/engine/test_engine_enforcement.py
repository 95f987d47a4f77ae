"""A real vLLM with our scheduler inside and a real sidecar in front of it."""

import json
import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx2 as httpx
import pytest

from justitia_cli.tiny_model import make_tiny_model
from support.serving import KEYS, MODEL, RunningSidecar, Vllm, at_rest, eventually, http, running_sidecar, running_vllm
from support.stalled_reader import stalled_readers

BLOCK, BLOCKS = 32, 33  # one of them is vLLM's null block: 1024 tokens
FIXED: dict[str, Any] = {"model": MODEL, "ignore_eos": True, "seed": 7, "temperature": 1.0}
LARGE = [7] * 600
"""A prompt of which two do not fit beside each other."""


@dataclass
class Pool:
    sidecar: RunningSidecar
    vllm: Vllm

    def post(self, body: dict[str, Any], tenant: str = "gold", **more: Any) -> httpx.Response:
        path = "/v1/chat/completions" if "messages" in body else "/v1/completions"
        headers = {"authorization": f"Bearer {KEYS[tenant]}", **more.pop("headers", {})}
        return http.post(f"{self.sidecar.public}{path}", json={**FIXED, **body}, headers=headers, **more)

    @contextmanager
    def streaming(self, body: dict[str, Any]) -> Iterator[Iterator[str]]:
        """A request that has begun; its lines."""
        with httpx.stream(
            "POST",
            f"{self.sidecar.public}/v1/completions",
            json={**FIXED, **body, "stream": True},
            headers={"authorization": f"Bearer {KEYS['gold']}"},
            timeout=120,
        ) as answer:
            lines = answer.iter_lines()
            next(lines)
            yield lines

    def counted(self, name: str) -> float:
        """A metric of the tenant gold."""
        pattern = rf'^justitia_{name}_total\{{application="demo/chat",tenant="gold"\}} (\S+)$'
        return sum(float(value) for value in re.findall(pattern, self.sidecar.metrics(), re.MULTILINE))

    def service(self) -> float:
        """What gold has been charged. The engine tells it about once a second, between two steps: so that it tells what
        is true after this call, silver asks until its own charges are told twice.
        """
        for _ in range(2):
            before = self.sidecar.tenant("silver")["service"]
            eventually(
                "silver's requests are charged",
                lambda: (
                    self.post({"prompt": [3], "max_tokens": 1}, "silver")
                    and self.sidecar.tenant("silver")["service"] > before  # noqa: B023
                ),
            )
        return float(self.sidecar.tenant("gold")["service"])

    def in_engine(self) -> float:
        return self.vllm.metric("vllm:num_requests_running") + self.vllm.metric("vllm:num_requests_waiting")

    def listed(self, number: int) -> Any:
        return eventually(f"{number} wait", lambda: len(rows := self.sidecar.queue()) == number and (rows or True))


@pytest.fixture(scope="module")
def running_pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    directory = tmp_path_factory.mktemp("pool")
    socket = directory / "engine.sock"
    model = make_tiny_model(directory / "model")
    with (
        running_vllm(
            directory,
            model,
            max_length=1024,
            block_size=BLOCK,
            blocks=BLOCKS,
            arguments=["--no-enable-prefix-caching"],
            environment={"JUSTITIA_SOCKET": str(socket)},
            scheduler="support.braked_scheduler.JustitiaScheduler",
        ) as vllm,
        running_sidecar(directory / "sidecar", vllm.url, engine_socket=socket) as sidecar,
    ):
        eventually("the plug-in has connected", lambda: "plug-in has connected" in sidecar.log.read_text())
        yield Pool(sidecar, vllm)


@pytest.fixture
def pool(running_pool: Pool) -> Pool:
    """With its first configuration, at rest."""
    running_pool.sidecar.reconfigure()
    eventually("nothing is open", lambda: at_rest(running_pool.sidecar) and running_pool.in_engine() == 0)
    return running_pool


CHAT = [{"role": "user", "content": "the quick brown fox"}]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(
    ("body", "prompts", "choices"),
    [
        ({"prompt": [5, 6, 7], "n": 3}, 1, 3),
        ({"prompt": [[5, 6, 7], [8, 9]]}, 2, 1),
        ({"prompt": ["some words", "and some more words"], "n": 2}, 2, 2),
        ({"messages": CHAT, "n": 3}, 1, 3),
    ],
    ids=["choices", "prompts", "texts with choices", "chat with choices"],
)
def test_each_sequence_is_charged_and_counted_as_the_engine_counts(
    pool: Pool, body: dict[str, Any], prompts: int, choices: int, stream: bool
) -> None:
    def engine_counts() -> tuple[float, float]:
        return pool.vllm.metric("vllm:prompt_tokens_total"), pool.vllm.metric("vllm:generation_tokens_total")

    service, read, made = pool.service(), pool.counted("prompt_tokens"), pool.counted("output_tokens")
    before = engine_counts()
    options = {"stream": True, "stream_options": {"include_usage": True}} if stream else {}
    with pool.vllm.braked():  # a step begins after the ticket was read, which a thread of the engine's does
        answer = pool.post({**body, "max_tokens": 9, **options})
    assert answer.status_code == 200, answer.text
    if stream:
        assert answer.text.endswith("data: [DONE]\n\n")
        events = [json.loads(event[6:]) for event in answer.text.split("\n\n")[:-2]]
        assert {choice["index"] for event in events for choice in event["choices"]} == set(range(prompts * choices))
        assert not [event for event in events if event["choices"] and "usage" in event]
        usage = events[-1]["usage"]
    else:
        assert len(answer.json()["choices"]) == prompts * choices
        usage = answer.json()["usage"]
    assert usage["completion_tokens"] == 9 * prompts * choices
    eventually(
        "the engine has counted all",
        lambda: engine_counts()[1] - before[1] == usage["completion_tokens"],
    )
    prompt_tokens = engine_counts()[0] - before[0]
    assert prompt_tokens == choices * usage["prompt_tokens"]
    eventually("it is over", lambda: at_rest(pool.sidecar))
    assert pool.service() - service == prompt_tokens + 2 * usage["completion_tokens"]
    assert pool.counted("output_tokens") - made == usage["completion_tokens"]
    assert pool.counted("prompt_tokens") - read == usage["prompt_tokens"]


@pytest.mark.parametrize("asked", ["nothing", "totals", "continuous"])
def test_a_stream_of_several_choices_is_the_engines_less_unasked_usage(pool: Pool, asked: str) -> None:
    options = {
        "nothing": {},
        "totals": {"stream_options": {"include_usage": True}},
        "continuous": {"stream_options": {"include_usage": True, "continuous_usage_stats": True}},
    }[asked]
    body = {"prompt": [[5, 6, 7], [8, 9]], "n": 2, "max_tokens": 1, "stream": True, "allowed_token_ids": [70]}
    own = http.post(f"{pool.vllm.url}/v1/completions", json={**FIXED, **body, **options}).content.split(b"\n\n")
    if asked == "nothing":
        own = [event for event in own if b'"choices":[]' not in event]
    expected = [
        event if asked == "continuous" or b'"choices":[]' in event else re.sub(rb',"usage":\{[^{}]*\}', b"", event)
        for event in own
    ]
    got = pool.post({**body, **options}).content.split(b"\n\n")

    def normalised(events: list[bytes]) -> list[bytes]:
        """Without what differs between two answers to one request: id, time, and which of its choices comes first."""
        return sorted(re.sub(rb'"id":"[^"]*"|"created":\d+', b"", event) for event in events)

    assert normalised(got) == normalised(expected)


def test_an_aborted_request_that_shows_nothing_is_counted_exactly(pool: Pool) -> None:
    service, made = pool.service(), pool.counted("output_tokens")
    before = pool.vllm.metric("vllm:generation_tokens_total")
    body = {**FIXED, "prompt": [5, 6, 7], "n": 2, "max_tokens": 450}
    with pool.vllm.braked():
        with stalled_readers(pool.sidecar.public, KEYS["gold"], body, 1):
            eventually("it has begun", lambda: pool.vllm.metric("vllm:generation_tokens_total") > before)
        eventually("the engine is free", lambda: pool.in_engine() == 0)

    charged = pool.service() - service
    output = pool.counted("output_tokens") - made
    assert 0 < output < 2 * 450
    assert charged == 2 * 3 + 2 * output
    assert pool.counted("estimated_output_tokens") == 0


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_request_that_waits_in_the_engine_too_long_is_refused_and_leaves_it(pool: Pool, stream: bool) -> None:
    with pool.vllm.braked(), pool.streaming({"prompt": LARGE, "max_tokens": 400}):
        pool.sidecar.reconfigure(queue={"timeoutSeconds": 0.3})
        refused = pool.post({"prompt": LARGE, "max_tokens": 5, "stream": stream})
        assert refused.status_code == 503, refused.text
        assert refused.json()["error"]["code"] == "queue_timeout"
        eventually("the engine is rid of it", lambda: pool.vllm.metric("vllm:num_requests_waiting") == 0)
        assert pool.sidecar.tenant("gold")["queued"] == 0


def test_order_is_not_changed_by_what_clients_send(pool: Pool) -> None:
    spoofed = {"priority": -1000, "request_id": "first", "session_id": "s", "vllm_xargs": {"priority": -1}}
    headers = {"x-vllm-priority": "-1000", "x-request-id": "0" * 32, "x-session-id": "s"}
    honest, spoofing = LARGE, [*LARGE, 7]
    with ThreadPoolExecutor(2) as others:
        with pool.vllm.braked():
            with pool.streaming({"prompt": LARGE, "max_tokens": 400}):
                asked = [others.submit(pool.post, {"prompt": honest, "max_tokens": 200})]
                pool.listed(1)
                body = {"prompt": spoofing, "max_tokens": 5, **spoofed}
                asked.append(others.submit(pool.post, body, headers=headers))
                assert [row["promptTokens"] for row in pool.listed(2)] == [len(honest), len(spoofing)]
            assert [row["promptTokens"] for row in pool.listed(1)] == [len(spoofing)]
        assert [each.result().status_code for each in asked] == [200, 200]


def test_a_tenant_at_its_running_limit_is_held_in_the_sidecar(pool: Pool) -> None:
    limits = {"runningRequests": 2}
    pool.sidecar.reconfigure(tenants=[{"name": "gold", "weight": 4, "limits": limits}, {"name": "silver", "weight": 1}])
    assert pool.post({"prompt": [5], "max_tokens": 1, "n": 3}).json()["error"]["code"] == "unsupported"
    with ThreadPoolExecutor(1) as others:
        with pool.vllm.braked(), pool.streaming({"prompt": [5], "max_tokens": 300, "n": 2}):
            held = others.submit(pool.post, {"prompt": [5], "max_tokens": 1})
            (row,) = pool.listed(1)
            assert row["reason"] == "TenantLimit"
            eventually("the engine has the others alone", lambda: pool.in_engine() == 2)
        assert held.result().status_code == 200


def test_the_status_says_what_each_application_of_a_tenant_had(pool: Pool) -> None:
    """That they share by weight is in `test_promises.py`."""
    scheduling = {"policy": "TieredJustitia", "costModel": "WeightedTokens", "enforcement": "Engine"}
    weights = {"chat": 1.0, "batch": 3.0}
    applications = [{"namespace": "demo", "name": n, "tenant": "gold", "weight": w} for n, w in weights.items()]
    silvers = {"namespace": "demo", "name": "summarise", "tenant": "silver"}
    pool.sidecar.reconfigure(scheduling=scheduling, applications=[*applications, silvers])
    eventually(
        "the engine orders by it",
        lambda: pool.sidecar.status()["plugIn"]["generation"] == pool.sidecar.generation,
    )

    def had() -> dict[str, float]:
        pool.service()  # what is true by then is told
        return {each["name"]: each["service"] for each in pool.sidecar.status()["applications"]}

    before = had()
    for name in ("chat", "batch", "batch", "batch"):
        named = {"x-justitia-application": f"demo/{name}"}
        pool.post({"prompt": [9] * 100, "max_tokens": 4}, headers=named).raise_for_status()
    after = had()
    assert {name: after[name] - before[name] for name in weights} == {"chat": 108, "batch": 3 * 108}
    assert [each["weight"] for each in pool.sidecar.status()["applications"]] == [1.0, 3.0, 1.0]


def test_draining_refuses_what_waits_in_the_engine_and_finishes_what_it_has_begun(pool: Pool) -> None:
    with (
        ThreadPoolExecutor(1) as others,
        pool.vllm.braked() as release,
        pool.streaming({"prompt": LARGE, "max_tokens": 400}) as lines,
    ):
        waiting = others.submit(pool.post, {"prompt": LARGE, "max_tokens": 5})
        pool.listed(1)
        drained = threading.Thread(target=http.post, args=(f"{pool.sidecar.admin}/internal/drain",))
        drained.start()
        refused = waiting.result()
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "draining")
        eventually("the engine is rid of it", lambda: pool.vllm.metric("vllm:num_requests_waiting") == 0)
        release()
        assert [line for line in lines if line][-1] == "data: [DONE]"
    drained.join()
