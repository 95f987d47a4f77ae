import json
from typing import Any

import pytest

from justitia_api.wire import Refusal
from justitia_sidecar.refusals import RefusalError
from justitia_sidecar.request.body import Endpoint, ParsedBody, TokensPerByte, parse_body
from justitia_vocabulary.units import ApplicationId

APPLICATION = ApplicationId("ns/chat")


def completion(*, several: bool = False, **fields: Any) -> ParsedBody:
    return parse_body(
        Endpoint.COMPLETION, json.dumps({"model": "m", "prompt": "hello", **fields}).encode(), several=several
    )


def chat(*, several: bool = False, **fields: Any) -> ParsedBody:
    body = {"model": "m", "messages": [{"role": "user", "content": "hello"}], **fields}
    return parse_body(Endpoint.CHAT, json.dumps(body).encode(), several=several)


@pytest.mark.parametrize("prompt", [[1, 2, 3], [[1, 2, 3]]], ids=["ids", "one array of ids"])
def test_token_ids_are_counted_exactly(prompt: list[Any]) -> None:
    assert completion(prompt=prompt).prompt_tokens == 3


@pytest.mark.parametrize("prompt", ["héllo", ["héllo"]], ids=["text", "one text"])
def test_text_is_measured_in_bytes(prompt: Any) -> None:
    parsed = completion(prompt=prompt)
    assert (parsed.prompt_tokens, parsed.prompt_bytes) == (None, 6)


def test_a_completion_without_bound_gets_the_engines_default() -> None:
    assert completion().max_tokens == 16


def test_a_chat_without_bound_has_none() -> None:
    assert chat().max_tokens is None


def test_the_newer_name_of_a_chats_bound_wins() -> None:
    assert chat(max_tokens=5, max_completion_tokens=7).max_tokens == 7


def test_tools_count_as_prompt() -> None:
    assert chat(tools=[{"type": "function"}]).prompt_bytes > chat().prompt_bytes


def test_the_run_is_read_from_metadata_and_never_from_user() -> None:
    assert chat(metadata={"run_id": "r1"}, user="u").run == "r1"
    assert chat(user="u").run is None


@pytest.mark.parametrize(
    ("options", "wants"),
    [
        (None, (False, False)),
        ({"include_usage": True}, (True, False)),
        ({"include_usage": True, "continuous_usage_stats": True}, (True, True)),
        ({"continuous_usage_stats": True}, (False, False)),
    ],
)
def test_usage_that_the_client_asks_for(options: Any, wants: tuple[bool, bool]) -> None:
    parsed = chat(stream=True, stream_options=options)
    assert (parsed.wants_usage, parsed.wants_continuous_usage) == wants


@pytest.mark.parametrize(
    "fields",
    [
        {"n": 2},
        {"best_of": 2},
        {"use_beam_search": True},
        {"prompt": ["a", "b"]},
        {"prompt": [[1], [2]]},
        {"prompt_embeds": "AAAA"},
    ],
    ids=str,
)
def test_more_than_one_sequence_is_unsupported(fields: dict[str, Any]) -> None:
    with pytest.raises(RefusalError) as refused:
        completion(**fields)
    assert refused.value.refusal is Refusal.UNSUPPORTED


@pytest.mark.parametrize(
    ("fields", "prompts", "choices", "tokens", "longest"),
    [
        ({"prompt": [1, 2], "n": 3}, 1, 3, 2, 2),
        ({"prompt": [[1, 2], [3]]}, 2, 1, 3, 2),
        ({"prompt": [[1, 2], [3]], "n": 2}, 2, 2, 3, 2),
        ({"prompt": ["ab", "c"], "n": 2}, 2, 2, None, None),
        ({"n": 1024}, 1, 1024, None, None),
    ],
    ids=str,
)
def test_several_sequences_are_counted_where_the_engine_keeps_the_order(
    fields: dict[str, Any], prompts: int, choices: int, tokens: int | None, longest: int | None
) -> None:
    parsed = completion(several=True, **fields)
    assert (parsed.prompts, parsed.choices, parsed.sequences) == (prompts, choices, prompts * choices)
    assert (parsed.prompt_tokens, parsed.longest_prompt) == (tokens, longest)


def test_texts_are_measured_together() -> None:
    assert completion(several=True, prompt=["h\u00e9llo", "you"]).prompt_bytes == 9


@pytest.mark.parametrize(
    "fields",
    [
        {"best_of": 2},
        {"use_beam_search": True},
        {"prompt_embeds": "AAAA"},
        {"n": 1025},
        {"prompt": [[1]] * 513, "n": 2},
    ],
    ids=", ".join,
)
def test_what_is_refused_even_there(fields: dict[str, Any]) -> None:
    with pytest.raises(RefusalError) as refused:
        completion(several=True, **fields)
    assert refused.value.refusal is Refusal.UNSUPPORTED
    assert "send" in refused.value.message


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("messages", ["[[]]", ' [ [{"role":"user","content":"a"}] ]', "[\n\t[], []]"])
def test_a_batch_of_conversations_is_refused(several: bool, messages: str) -> None:
    body = f'{{"model": "m", "messages": {messages}}}'.encode()
    with pytest.raises(RefusalError) as refused:
        parse_body(Endpoint.CHAT, body, several=several)
    assert refused.value.refusal is Refusal.UNSUPPORTED


def test_a_chat_may_have_several_choices() -> None:
    assert chat(several=True, n=3).sequences == 3


@pytest.mark.parametrize("prompt", [["a", ""], [[1], []], ["a", [1]], [[1], 2], [[]], [""], [1, "a"]], ids=str)
def test_prompts_are_of_one_kind_and_not_empty(prompt: list[Any]) -> None:
    with pytest.raises(RefusalError) as refused:
        completion(several=True, prompt=prompt)
    assert refused.value.refusal is Refusal.INVALID_BODY


@pytest.mark.parametrize(
    "fields",
    [
        {"n": 0},
        {"n": -1},
        {"model": None},
        {"prompt": None},
        {"prompt": []},
        {"prompt": [1, "a"]},
        {"prompt": [True]},
        {"prompt": 7},
        {"max_tokens": -1},
        {"max_tokens": "many"},
        {"n": "2"},
        {"stream": "yes"},
        {"stream_options": 1},
    ],
    ids=str,
)
def test_a_malformed_body_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(RefusalError) as refused:
        completion(**fields)
    assert refused.value.refusal is Refusal.INVALID_BODY


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b"\xff"])
def test_what_is_not_a_json_object_is_refused(body: bytes) -> None:
    for endpoint in Endpoint:
        with pytest.raises(RefusalError) as refused:
            parse_body(endpoint, body, several=False)
        assert refused.value.refusal is Refusal.INVALID_BODY


def test_the_last_of_two_equal_members_decides_as_in_the_engine() -> None:
    body = b'{"model": "m", "prompt": "a", "max_tokens": 1, "max_tokens": 9}'
    assert parse_body(Endpoint.COMPLETION, body, several=False).max_tokens == 9


def test_tokens_per_byte_are_learnt_by_application_then_pool() -> None:
    ratio = TokensPerByte()
    assert ratio.estimate(APPLICATION, 100) == 30
    ratio.observe(ApplicationId("ns/other"), 1000, 500)
    assert ratio.estimate(APPLICATION, 100) == 50
    ratio.observe(APPLICATION, 1000, 100)
    assert ratio.estimate(APPLICATION, 100) == 10
    assert ratio.estimate(APPLICATION, 0) == 1


def test_an_output_is_fixed_where_only_its_bound_ends_it() -> None:
    assert completion(ignore_eos=True).fixed_output
    assert not completion(ignore_eos=True, stop="x").fixed_output
    assert not completion().fixed_output


IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


@pytest.mark.parametrize("name", ['"uuid"', '"\\u0075uid"', '"u\\u0075\\u0069\\u0064"'])
def test_media_may_not_be_named(name: str) -> None:
    content = json.dumps([{"type": "text", "text": "what is it?"}, IMAGE])[:-2] + f', {name}: "theirs"}}]'
    body = f'{{"model": "m", "messages": [{{"role": "user", "content": {content}}}]}}'
    assert json.loads(body)["messages"][0]["content"][1]["uuid"] == "theirs"
    with pytest.raises(RefusalError, match="'uuid' of a content part is not supported"):
        parse_body(Endpoint.CHAT, body.encode(), several=False)


def test_the_word_may_be_said() -> None:
    said = [
        {
            "role": "user",
            "content": [{"type": "text", "text": 'what is a \\u0075uid, and "uuid"?'}, IMAGE | {"uuid": None}],
        }
    ]
    assert chat(messages=said).messages == 1
    assert chat(messages=[{"role": "user", "content": "uuid"}]).messages == 1


@pytest.mark.parametrize("ask", [chat, completion], ids=["chat", "completion"])
def test_where_kv_blocks_are_is_not_for_clients_to_say(ask: Any) -> None:
    assert ask(kv_transfer_params=None).model == "m"
    with pytest.raises(RefusalError, match="'kv_transfer_params' is not supported"):
        ask(kv_transfer_params={"remote_host": "a.example"})


def test_of_several_members_of_one_name_the_last_counts_as_for_the_engine() -> None:
    body = b'{"model":"a","model":"m","messages":[],"messages":[{"content":[{"uuid":"a"}]}]}'
    with pytest.raises(RefusalError, match="'uuid'"):
        parse_body(Endpoint.CHAT, body, several=False)
