"""Reads the few fields of a request's body that decide anything. The bytes themselves are forwarded, with the tenant's
cache salt added (`salt.py`).

Prompt tokens are exact for an array of token ids. For text they are bytes x the application's running average of tokens
per byte, learned from what the engine counts.

A body asks for `prompts x choices` sequences. Several can be ordered and charged only inside the engine; elsewhere they
are refused as unsupported. Beams and `best_of` are refused everywhere, because the engine does not report their work.

Names that tenants would share, because no salt divides them, are refused: the `uuid` of a content part, under which
vLLM keeps media for all, and `kv_transfer_params`, which say where another engine's KV blocks are.

Fields cannot change the order: the sidecar's headers overrule the body's `priority` and `request_id`. `session_id` and
`vllm_xargs` have no effect on the engine's order and are passed on.
"""

import re
from collections import defaultdict
from dataclasses import dataclass
from enum import Enum

import msgspec

from justitia_api.wire import Refusal
from justitia_predictor.features import cut
from justitia_sidecar.refusals import RefusalError
from justitia_vocabulary.units import ApplicationId, Tokens

COMPLETION_DEFAULT_TOKENS = 16
"""`max_tokens` of a completion that names none, for OpenAI and vLLM."""

MOST_SEQUENCES = 1024
"""The most sequences of one body: as many as vLLM takes prompts in one."""

FIRST_TOKENS_PER_BYTE = 0.3
_HALF_LIFE_BYTES = 1_000_000


class Endpoint(Enum):
    CHAT = "/v1/chat/completions"
    COMPLETION = "/v1/completions"


class _StreamOptions(msgspec.Struct):
    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None


class _Common(msgspec.Struct):
    model: str | None = None
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    max_tokens: int | None = None
    n: int | None = None
    best_of: int | None = None
    use_beam_search: bool | None = None
    ignore_eos: bool | None = None
    stop: str | list[str] | None = None
    metadata: dict[str, object] | None = None
    kv_transfer_params: msgspec.Raw = msgspec.Raw()


class _Chat(_Common):
    max_completion_tokens: int | None = None
    messages: msgspec.Raw = msgspec.Raw()
    tools: msgspec.Raw = msgspec.Raw()


class _Completion(_Common):
    prompt: str | list[int | str | list[int]] | None = None
    prompt_embeds: msgspec.Raw = msgspec.Raw()


_MAY_NAME_MEDIA = re.compile(rb"uuid|\\u00(?:75|69|64)")
"""Finds the name, or an escape of one of its letters."""

_chat = msgspec.json.Decoder(_Chat)
_completion = msgspec.json.Decoder(_Completion)


@dataclass(frozen=True, slots=True)
class ParsedBody:
    """The fields that matter. `prompt_tokens`, for all prompts, and `longest_prompt` are None if only the engine can
    count them. Then `prompt_bytes` is the size of the texts, and `text` is the part that predictors see. `messages`
    counts those of a conversation, else the prompts.

    Each prompt is answered by so many `choices`. Each has at most `max_tokens`; None: the engine's own bound applies.
    `fixed_output` says that nothing else ends the output.
    """

    model: str
    stream: bool
    wants_usage: bool
    wants_continuous_usage: bool
    prompts: int
    choices: int
    prompt_tokens: Tokens | None
    longest_prompt: Tokens | None
    prompt_bytes: int
    text: bytes
    messages: int
    max_tokens: Tokens | None
    fixed_output: bool
    run: str | None

    @property
    def sequences(self) -> int:
        return self.prompts * self.choices


@dataclass(frozen=True, slots=True)
class _Prompts:
    """The prompts of a body: the tokens of each if they are exact, else the size of their texts."""

    count: int
    tokens: list[Tokens] | None
    size: int
    text: bytes = b""
    messages: int = 0


def parse_body(endpoint: Endpoint, body: bytes, *, several: bool) -> ParsedBody:
    """Parse a body. `several` says whether it may ask for several sequences. Raises a refusal with 400."""
    try:
        fields: _Common
        match endpoint:
            case Endpoint.CHAT:
                fields = chat = _chat.decode(body)
                messages = bytes(chat.messages)
                size = len(messages) + len(bytes(chat.tools))
                prompts = _Prompts(1, None, size, cut(messages), messages.count(b'"role"'))
                if _is_batch(messages):
                    raise RefusalError(
                        Refusal.UNSUPPORTED,
                        "One request is one conversation here: send a request of the same run for each of 'messages'.",
                        param="messages",
                    )
                _check_parts(messages)
                max_tokens = chat.max_tokens if chat.max_completion_tokens is None else chat.max_completion_tokens
            case Endpoint.COMPLETION:
                fields = completion = _completion.decode(body)
                prompts = _measure(completion)
                max_tokens = COMPLETION_DEFAULT_TOKENS if completion.max_tokens is None else completion.max_tokens
    except (msgspec.DecodeError, RecursionError) as error:
        raise RefusalError(
            Refusal.INVALID_BODY, f"The body is not a valid {endpoint.value[4:]} request: {error}."
        ) from None
    _check(fields, max_tokens)
    choices = 1 if fields.n is None else fields.n
    _check_sequences(fields, prompts.count, choices, several)
    options = fields.stream_options or _StreamOptions()
    run = (fields.metadata or {}).get("run_id")
    return ParsedBody(
        model=fields.model or "",
        stream=bool(fields.stream),
        wants_usage=bool(options.include_usage),
        wants_continuous_usage=bool(options.include_usage and options.continuous_usage_stats),
        prompts=prompts.count,
        choices=choices,
        prompt_tokens=None if prompts.tokens is None else sum(prompts.tokens),
        longest_prompt=None if prompts.tokens is None else max(prompts.tokens),
        prompt_bytes=prompts.size,
        text=prompts.text,
        messages=prompts.messages or prompts.count,
        max_tokens=max_tokens,
        fixed_output=bool(fields.ignore_eos) and not fields.stop,
        run=run if isinstance(run, str) else None,
    )


def _check_parts(messages: bytes) -> None:
    """Raises a refusal if a part of a message has a name under which the engine keeps it."""
    if _MAY_NAME_MEDIA.search(messages) is None:
        return
    for message in msgspec.json.decode(messages):
        content = message.get("content") if isinstance(message, dict) else None
        for part in content if isinstance(content, list) else ():
            if isinstance(part, dict) and part.get("uuid") is not None:
                raise RefusalError(
                    Refusal.UNSUPPORTED,
                    "'uuid' of a content part is not supported, because the engine keeps files by it for all tenants: "
                    "send the file itself.",
                    param="messages",
                )


def _check(fields: _Common, max_tokens: Tokens | None) -> None:
    if bytes(fields.kv_transfer_params) not in (b"", b"null", b"{}"):
        raise RefusalError(
            Refusal.UNSUPPORTED, "'kv_transfer_params' is not supported: remove it.", param="kv_transfer_params"
        )
    if not fields.model:
        raise RefusalError(Refusal.INVALID_BODY, "The body names no model: set 'model'.", param="model")
    if max_tokens is not None and max_tokens < 0:
        raise RefusalError(Refusal.INVALID_BODY, "'max_tokens' must not be negative.", param="max_tokens")
    if fields.n is not None and fields.n < 1:
        raise RefusalError(Refusal.INVALID_BODY, "'n' must be at least 1.", param="n")


def _check_sequences(fields: _Common, prompts: int, choices: int, several: bool) -> None:
    if (fields.best_of or 1) != 1 or fields.use_beam_search:
        instead = "'n', or requests of the same run," if several else "requests of the same run"
        raise RefusalError(
            Refusal.UNSUPPORTED, f"'best_of' and beams are not supported here: send {instead} instead.", param="best_of"
        )
    if several:
        if prompts * choices > MOST_SEQUENCES:
            raise RefusalError(
                Refusal.UNSUPPORTED,
                f"{prompts} prompts with {choices} choices each are more than the {MOST_SEQUENCES} sequences that one "
                "request may have: send several requests of the same run.",
                param="prompt" if prompts > 1 else "n",
            )
    elif choices > 1:
        raise RefusalError(
            Refusal.UNSUPPORTED,
            "One request is one sequence here: send requests of the same run instead of 'n'.",
            param="n",
        )
    elif prompts > 1:
        raise RefusalError(
            Refusal.UNSUPPORTED,
            "One request is one prompt here: send several requests of the same run instead of several prompts.",
            param="prompt",
        )


def _is_batch(messages: bytes) -> bool:
    """Whether the JSON is a list of lists."""
    return messages[:1] == b"[" and messages[1:].lstrip()[:1] == b"["


def _measure(completion: _Completion) -> _Prompts:
    """Measure the prompts. Raises a refusal with 400 unless all are of one kind and none is empty."""
    prompt = completion.prompt
    if bytes(completion.prompt_embeds) not in (b"", b"null"):
        raise RefusalError(Refusal.UNSUPPORTED, "'prompt_embeds' is not supported: send text or token ids.")
    several: list[int | str | list[int]] = prompt if isinstance(prompt, list) else [prompt or ""]
    if {type(part) for part in several} == {int}:
        return _Prompts(1, [len(several)], 0)
    texts = [part for part in several if part and isinstance(part, str)]
    ids = [part for part in several if part and isinstance(part, list)]
    if not several or len(several) not in (len(texts), len(ids)):
        raise RefusalError(
            Refusal.INVALID_BODY,
            "'prompt' must be a text, an array of token ids, or an array of either, none of them empty.",
            param="prompt",
        )
    if ids:
        return _Prompts(len(ids), [len(each) for each in ids], 0)
    encoded = [text.encode(errors="replace") for text in texts]
    return _Prompts(len(texts), None, sum(map(len, encoded)), cut(b" ".join(encoded)))


class TokensPerByte:
    """Running averages by application. Old text counts half with each further megabyte. New ones have the pool's."""

    def __init__(self) -> None:
        self._tokens: defaultdict[ApplicationId | None, float] = defaultdict(float)
        self._bytes: defaultdict[ApplicationId | None, float] = defaultdict(float)

    def estimate(self, application: ApplicationId, size: int) -> Tokens:
        """Tokens of a text of `size` bytes, at least 1."""
        for key in (application, None):
            if self._bytes[key]:
                return max(1, round(size * self._tokens[key] / self._bytes[key]))
        return max(1, round(size * FIRST_TOKENS_PER_BYTE))

    def observe(self, application: ApplicationId, size: int, tokens: Tokens) -> None:
        keep = 0.5 ** (size / _HALF_LIFE_BYTES)
        for key in (application, None):
            self._tokens[key] = self._tokens[key] * keep + tokens
            self._bytes[key] = self._bytes[key] * keep + size
