"""The sidecar in front of a real vLLM, driven by the OpenAI client."""

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2 as httpx
import openai
import pytest

from support.serving import KEYS, KV_TOKENS, MODEL, RunningSidecar, Vllm, at_rest, eventually, http
from support.stalled_reader import stalled_readers

FIXED: dict[str, Any] = {"ignore_eos": True, "temperature": 0}
IDS = list(range(5, 25))


def headers(tenant: str = "gold", **more: str) -> dict[str, str]:
    return {"authorization": f"Bearer {KEYS[tenant]}", **more}


def long_body(tokens: int = 4000) -> dict[str, Any]:
    return {"model": MODEL, "prompt": IDS, "max_tokens": tokens, "stream": True, **FIXED}


STANDSTILL = 1.0
"""Seconds of a step in which a large request does not end."""


ONE_AT_A_TIME = ({"name": "gold", "weight": 1, "limits": {"runningRequests": 1}}, {"name": "silver", "weight": 1})
"""What more gold sends waits in the sidecar."""


def large_body(first: int) -> dict[str, Any]:
    """One that runs alone, as large as half the engine, and is soon over: nearly all of it is a prompt of its own."""
    prompt = [first, *[7] * (KV_TOKENS // 2)]
    return {"model": MODEL, "prompt": prompt, "max_tokens": 100, "stream": True, **FIXED}


def post(sidecar: RunningSidecar, body: Any, path: str = "/v1/completions", **more: str) -> httpx.Response:
    return http.post(f"{sidecar.public}{path}", json=body, headers=headers(**more))


def assert_refused(response: httpx.Response, status: int, code: str) -> None:
    assert response.status_code == status, response.text
    error = response.json()["error"]
    assert error["code"] == code
    assert set(error) == {"message", "type", "param", "code"}


def test_the_client_lists_the_pools_model(sidecar: RunningSidecar) -> None:
    assert [model.id for model in sidecar.client().models.list()] == [MODEL]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_the_client_gets_a_chat_answer(sidecar: RunningSidecar, stream: bool) -> None:
    chat = sidecar.client().chat.completions
    messages: Any = [{"role": "user", "content": "the quick brown fox"}]
    if stream:
        chunks = list(
            chat.create(
                model=MODEL,
                messages=messages,
                max_tokens=8,
                extra_body=FIXED,
                stream=True,
                stream_options={"include_usage": True},
            )
        )
        assert chunks[0].choices[0].delta.role == "assistant"
        assert chunks[-2].choices[0].finish_reason == "length"
        assert all(chunk.usage is None for chunk in chunks[:-1])
        usage = chunks[-1].usage
    else:
        answer = chat.create(model=MODEL, messages=messages, max_tokens=8, extra_body=FIXED)
        assert answer.choices[0].finish_reason == "length"
        usage = answer.usage
    assert usage is not None
    assert usage.completion_tokens == 8


def test_the_client_gets_a_completion_under_the_applications_path(sidecar: RunningSidecar) -> None:
    url = f"{sidecar.public}/applications/demo/summarise/v1"
    client = openai.OpenAI(base_url=url, api_key=KEYS["silver"], max_retries=0)
    answer = client.completions.create(model=MODEL, prompt=IDS, max_tokens=5, extra_body=FIXED)
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (len(IDS), 5)


def test_every_token_is_charged_once(sidecar: RunningSidecar, vllm: Vllm) -> None:
    """Weighted tokens charge p + 2d: the sum over all requests is what the engine itself has counted."""

    def counted() -> float:
        return vllm.metric("vllm:prompt_tokens_total") + 2 * vllm.metric("vllm:generation_tokens_total")

    def charged() -> float:
        return sum(float(t["service"]) for t in sidecar.status()["tenants"])

    def ask(i: int) -> None:
        client = sidecar.client("gold" if i % 2 else "silver")
        usage: Any = {"stream_options": {"include_usage": True}} if i % 3 else {}
        stream = i % 4 != 0
        text = "some more words " * (i + 1)
        options: Any = {"model": MODEL, "max_tokens": 5 + 3 * i, "extra_body": FIXED, "stream": stream}
        options |= usage if stream else {}
        if i % 5 == 0:
            answer = client.chat.completions.create(messages=[{"role": "user", "content": text}], **options)
        else:
            answer = client.completions.create(prompt=text if i % 2 else [*IDS, i + 30], **options)
        if stream:
            assert list(answer)

    engine_before, charged_before = counted(), charged()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(ask, range(24)))
    eventually("all are over", lambda: at_rest(sidecar))
    assert charged() - charged_before > 0
    eventually("charges equal the engine's count", lambda: charged() - charged_before == counted() - engine_before)


def normalised(stream: bytes) -> bytes:
    """Without what differs between two answers to the same request: id and time."""
    return re.sub(rb'"id":"[^"]*"|"created":\d+|"(created_)?cache(d)?_tokens":\d+', b"", stream)


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions"])
@pytest.mark.parametrize("asked", ["nothing", "totals", "continuous"])
def test_bytes_of_a_stream_are_the_engines_less_unasked_usage(
    sidecar: RunningSidecar, vllm: Vllm, path: str, asked: str
) -> None:
    options = {
        "nothing": {},
        "totals": {"stream_options": {"include_usage": True}},
        "continuous": {"stream_options": {"include_usage": True, "continuous_usage_stats": True}},
    }[asked]
    prompt: Any = {"prompt": IDS} if path == "/v1/completions" else {"messages": [{"role": "user", "content": "word"}]}
    # One step, and one token that may come: how the engine cuts its text into events then depends on nothing.
    body = {"model": MODEL, "max_tokens": 1, "stream": True, "allowed_token_ids": [70], **FIXED, **prompt, **options}
    own = http.post(f"{vllm.url}{path}", json=body).content
    events = own.split(b"\n\n")
    if asked == "nothing":
        events = [event for event in events if b'"choices":[]' not in event]
    expected = b"\n\n".join(
        event if asked == "continuous" or b'"choices":[]' in event else re.sub(rb',"usage":\{[^{}]*\}', b"", event)
        for event in events
    )
    got = post(sidecar, body, path).content
    assert normalised(got) == normalised(expected)
    assert (b'"usage"' in got) == (asked != "nothing")


def test_a_client_that_goes_away_frees_the_engine_and_is_charged(sidecar: RunningSidecar, vllm: Vllm) -> None:
    before = sidecar.tenant("gold")["service"]
    with vllm.braked():
        with http.stream("POST", f"{sidecar.public}/v1/completions", json=long_body(), headers=headers()) as response:
            lines = response.iter_lines()  # kept: its end would close the connection
            next(lines)
            eventually("the engine works on it", lambda: vllm.metric("vllm:num_requests_running") == 1)
        eventually("the engine is free", lambda: vllm.metric("vllm:num_requests_running") == 0)
        eventually("the sidecar is at rest", lambda: at_rest(sidecar))
    charged = sidecar.tenant("gold")["service"] - before
    assert len(IDS) + 2 <= charged < len(IDS) + 2 * 4000


def test_a_queued_client_that_goes_away_leaves_the_queue(sidecar: RunningSidecar, vllm: Vllm) -> None:
    def queued() -> int:
        return int(sidecar.tenant("gold")["queued"])

    sidecar.reconfigure(tenants=ONE_AT_A_TIME)
    with (
        vllm.braked(),
        http.stream("POST", f"{sidecar.public}/v1/completions", json=long_body(), headers=headers()) as first,
    ):
        lines = first.iter_lines()  # kept: its end would close the connection
        next(lines)
        with stalled_readers(sidecar.public, KEYS["gold"], long_body(), 1):
            eventually("the second waits", lambda: queued() == 1)
        eventually("the queue is empty", lambda: queued() == 0)
        assert sidecar.tenant("gold")["running"] == 1


def test_order_is_not_changed_by_what_clients_send(sidecar: RunningSidecar, vllm: Vllm) -> None:
    """Requests so large that one runs at a time; the last one claims every precedence it can."""
    finished: list[str] = []
    spoof_body = {"priority": -1000, "request_id": "first", "session_id": "s", "vllm_xargs": {"priority": -1}}
    spoof_headers = {"x-vllm-priority": "-1000", "x-request-id": "0", "x-session-id": "s"}

    def ask(name: str, body: dict[str, Any], **more: str) -> None:
        response = http.post(f"{sidecar.public}/v1/completions", json=body, headers=headers(**more))
        assert response.status_code == 200, response.text
        finished.append(name)

    threads = []
    with vllm.braked(STANDSTILL):
        for place, name in enumerate(["first", "second", "spoofing"]):
            body = large_body(10 + place) | (spoof_body if name == "spoofing" else {})
            more = spoof_headers if name == "spoofing" else {}
            threads.append(threading.Thread(target=ask, args=(name, body), kwargs=more))
            threads[-1].start()
            eventually("it is there", lambda: sidecar.tenant("gold")["running"] == place + 1)  # noqa: B023
    for thread in threads:
        thread.join()
    assert finished == ["first", "second", "spoofing"]


def test_mistakes_get_openai_errors_with_a_reason(sidecar: RunningSidecar) -> None:
    good = {"model": MODEL, "prompt": IDS, "max_tokens": 2}
    url = f"{sidecar.public}/v1/completions"
    wrong_key = http.post(url, json=good, headers={"authorization": "Bearer sk-wrong-key-000000000000"})
    assert_refused(wrong_key, 401, "invalid_api_key")
    assert "sk-wrong" not in wrong_key.text
    assert_refused(http.post(url, json=good), 401, "invalid_api_key")
    assert_refused(post(sidecar, good | {"model": "other"}), 404, "model_not_found")
    application = {"x-justitia-application": "demo/summarise"}
    assert_refused(http.post(url, json=good, headers=headers(**application)), 400, "unknown_application")
    assert_refused(http.post(url, content=b'{"model":', headers=headers()), 400, "invalid_body")
    assert_refused(post(sidecar, good | {"prompt": "x" * 70_000}), 413, "body_too_large")
    assert_refused(post(sidecar, good | {"n": 2}), 400, "unsupported")
    assert_refused(post(sidecar, good | {"prompt": [7] * KV_TOKENS}), 400, "prompt_too_long")


def test_the_openai_client_raises_its_own_errors(sidecar: RunningSidecar) -> None:
    client = openai.OpenAI(base_url=f"{sidecar.public}/v1", api_key="sk-wrong-key-000000000000", max_retries=0)
    with pytest.raises(openai.AuthenticationError, match="not known here"):
        client.models.list()


def test_a_full_queue_refuses_with_retry_after(sidecar: RunningSidecar, vllm: Vllm) -> None:
    sidecar.reconfigure(queue={"maximumRequests": 1}, tenants=ONE_AT_A_TIME)
    with (
        vllm.braked(),
        http.stream("POST", f"{sidecar.public}/v1/completions", json=long_body(), headers=headers()) as running,
    ):
        lines = running.iter_lines()  # kept: its end would close the connection
        next(lines)
        waiting = threading.Thread(target=post, args=(sidecar, long_body(100)))
        waiting.start()
        eventually("one waits", lambda: len(sidecar.queue()) == 1)
        refused = post(sidecar, long_body())
        assert_refused(refused, 429, "queue_full")
        assert int(refused.headers["retry-after"]) >= 1
    waiting.join()


def test_weights_and_policy_change_while_requests_run_and_wait(sidecar: RunningSidecar, vllm: Vllm) -> None:
    sidecar.reconfigure(tenants=ONE_AT_A_TIME)
    with ThreadPoolExecutor(4) as pool, vllm.braked(STANDSTILL) as release:
        asked = [pool.submit(post, sidecar, large_body(10 + i)) for i in range(3)]
        eventually("some wait and some run", lambda: sidecar.tenant("gold")["queued"] >= 1)
        before = sidecar.tenant("gold")["service"]
        tenants = [{"name": "gold", "weight": 2}, {"name": "silver", "weight": 3}]
        scheduling = {"policy": "TieredJustitia", "costModel": "WeightedTokens"}
        sidecar.reconfigure(tenants=tenants, scheduling=scheduling)
        status = sidecar.status()
        assert status["policy"] == "TieredJustitia"
        assert sidecar.tenant("gold")["weight"] == 2
        assert sidecar.tenant("gold")["service"] >= before
        release()
        assert [answer.result().status_code for answer in asked] == [200] * 3
    eventually("all is over", lambda: at_rest(sidecar))
    assert sidecar.status()["kvHeldTokens"] == 0


def test_an_invalid_configuration_leaves_the_old_one_in_effect(sidecar: RunningSidecar) -> None:
    in_effect = sidecar.status()["generation"]
    sidecar.write('{"generation": 999, "weight": "nonsense"}')
    line = 'justitia_config_reload_failures_total{document="config"}'
    eventually("the failure is counted", lambda: line in sidecar.metrics())
    assert sidecar.status()["generation"] == in_effect
    assert post(sidecar, {"model": MODEL, "prompt": IDS, "max_tokens": 2}).status_code == 200
    assert "config.json: namespace: Field required" in sidecar.log.read_text()


def test_a_run_is_ended_by_its_client(sidecar: RunningSidecar) -> None:
    body = {"model": MODEL, "prompt": IDS, "max_tokens": 2}
    assert post(sidecar, body, **{"x-justitia-run": "r1"}).status_code == 200
    url = f"{sidecar.public}/v1/runs/r1"
    assert http.delete(url, headers=headers()).status_code == 204
    assert_refused(http.delete(url, headers=headers()), 404, "run_not_found")


def test_keys_and_pepper_are_nowhere_to_be_seen(sidecar: RunningSidecar) -> None:
    post(sidecar, {"model": MODEL, "prompt": IDS, "max_tokens": 2})
    seen = sidecar.metrics() + sidecar.log.read_text() + str(sidecar.status())
    assert "justitia_requests_total" in seen
    for secret in (*KEYS.values(), "5e" * 16):
        assert secret not in seen
