"""The few fields of a request's body that decide anything; the bytes themselves are forwarded untouched.

Prompt tokens: an array of token ids is exact. Text is bytes x the application's running average of tokens per
byte, learnt from what the engine counts. One body is one sequence: several prompts, n > 1 and beams are refused
as unsupported, because their parts would have to be ordered and charged as requests of their own.

Fields that may not change order: the body's `priority` and `request_id` lose against the headers that the
sidecar sets; `session_id` and `vllm_xargs` have no effect on the engine's order and are passed on.
"""

from collections import defaultdict
from dataclasses import dataclass
from enum import Enum

import msgspec

from justitia_api.wire import Refusal
from justitia_scheduling.model import ApplicationId, Tokens
from justitia_sidecar.refusals import RefusalError

COMPLETION_DEFAULT_TOKENS = 16
"""OpenAI's and vLLM's `max_tokens` of a completion that gives none."""

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


class _Chat(_Common):
    max_completion_tokens: int | None = None
    messages: msgspec.Raw = msgspec.Raw()
    tools: msgspec.Raw = msgspec.Raw()


class _Completion(_Common):
    prompt: str | list[int | str | list[int]] | None = None
    prompt_embeds: msgspec.Raw = msgspec.Raw()


_chat = msgspec.json.Decoder(_Chat)
_completion = msgspec.json.Decoder(_Completion)


@dataclass(frozen=True, slots=True)
class ParsedBody:
    """`prompt_tokens` is None where only the engine can count; then `prompt_bytes` is the size of the text.

    `max_tokens` is None where the engine's own bound applies. `fixed_output` tells that nothing else ends the output.
    """

    model: str
    stream: bool
    wants_usage: bool
    wants_continuous_usage: bool
    prompt_tokens: Tokens | None
    prompt_bytes: int
    max_tokens: Tokens | None
    fixed_output: bool
    run: str | None


def parse_body(endpoint: Endpoint, body: bytes) -> ParsedBody:
    """Raises a refusal with 400 that names what is wrong."""
    prompt_tokens: Tokens | None = None
    try:
        fields: _Common
        match endpoint:
            case Endpoint.CHAT:
                fields = chat = _chat.decode(body)
                size = len(bytes(chat.messages)) + len(bytes(chat.tools))
                max_tokens = chat.max_tokens if chat.max_completion_tokens is None else chat.max_completion_tokens
            case Endpoint.COMPLETION:
                fields = completion = _completion.decode(body)
                prompt_tokens, size = _measure(completion)
                max_tokens = COMPLETION_DEFAULT_TOKENS if completion.max_tokens is None else completion.max_tokens
    except msgspec.DecodeError as error:
        raise RefusalError(
            Refusal.INVALID_BODY, f"The body is not a valid {endpoint.value[4:]} request: {error}."
        ) from None
    _check(fields, max_tokens)
    options = fields.stream_options or _StreamOptions()
    run = (fields.metadata or {}).get("run_id")
    return ParsedBody(
        model=fields.model or "",
        stream=bool(fields.stream),
        wants_usage=bool(options.include_usage),
        wants_continuous_usage=bool(options.include_usage and options.continuous_usage_stats),
        prompt_tokens=prompt_tokens,
        prompt_bytes=size,
        max_tokens=max_tokens,
        fixed_output=bool(fields.ignore_eos) and not fields.stop,
        run=run if isinstance(run, str) else None,
    )


def _check(fields: _Common, max_tokens: Tokens | None) -> None:
    if not fields.model:
        raise RefusalError(Refusal.INVALID_BODY, "The body names no model: set 'model'.", param="model")
    if max_tokens is not None and max_tokens < 0:
        raise RefusalError(Refusal.INVALID_BODY, "'max_tokens' must not be negative.", param="max_tokens")
    if (fields.n or 1) != 1 or (fields.best_of or 1) != 1 or fields.use_beam_search:
        raise RefusalError(
            Refusal.UNSUPPORTED,
            "One request is one sequence here: send requests of the same run instead of 'n', 'best_of' or beams.",
            param="n",
        )


def _measure(completion: _Completion) -> tuple[Tokens | None, int]:
    """Tokens where they are exact, and bytes of text."""
    prompt = completion.prompt
    if bytes(completion.prompt_embeds) not in (b"", b"null"):
        raise RefusalError(Refusal.UNSUPPORTED, "'prompt_embeds' is not supported: send text or token ids.")
    if isinstance(prompt, list):
        kinds = {type(part) for part in prompt}
        if kinds == {int}:
            return len(prompt), 0
        if len(prompt) > 1 and int not in kinds:
            raise RefusalError(
                Refusal.UNSUPPORTED,
                "One request is one prompt here: send several requests of the same run instead of several prompts.",
                param="prompt",
            )
        only = prompt[0] if len(prompt) == 1 else None
        if isinstance(only, list) and only:
            return len(only), 0
        prompt = only if isinstance(only, str) else None
    if not prompt:
        raise RefusalError(Refusal.INVALID_BODY, "'prompt' must be a text or an array of token ids.", param="prompt")
    return None, len(prompt.encode(errors="replace"))


class TokensPerByte:
    """Running average by application, forgetting by half each megabyte of text; one of the pool for new ones."""

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
