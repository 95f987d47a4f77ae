"""Which text a prompt is made of, so that two requests know the tokens they have in common.

A text is a row of tokens with a name. A request's prompt begins with the first `prefix_tokens` tokens of the text
`prefix`; what follows, its output included, is its own. A prefix that no request of its run writes is a text that is
there from the beginning, shared by all who name it, such as a system prompt. A `context` belongs to its run: the
request that names it first begins it with its prompt and output, and a later stage goes on with it by naming all of it
as its prefix and it as its context. So a context only grows, and texts are a forest: each one goes on from some token
of another (:class:`Origin`). What a context contains is settled when a stage is over; requests of one stage do not
see each other's output.

Invariant: the ancestors of an origin have growing `tokens`, all below the request's prompt: its last token is its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from justitia_vocabulary.units import RunId, Tokens

TextName = tuple[str, str | int]
"""A run and its context, or the number of its request; a text that all share has no run."""


class Prompted(Protocol):
    """What a request says of its text."""

    @property
    def prompt_tokens(self) -> Tokens: ...

    @property
    def output_tokens(self) -> Tokens: ...

    @property
    def prefix(self) -> str | None: ...

    @property
    def prefix_tokens(self) -> Tokens: ...

    @property
    def context(self) -> str | None: ...


class ContextError(ValueError):
    """A request's prefix or context is impossible. `request` is its place in the stage."""

    def __init__(self, request: int, text: str) -> None:
        super().__init__(text)
        self.request = request


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a request's tokens come from: `ancestors` are texts, root first, each up to so many tokens; then `own`."""

    ancestors: tuple[tuple[TextName, Tokens], ...]
    own: TextName


@dataclass(frozen=True, slots=True)
class _Context:
    ancestors: tuple[tuple[TextName, Tokens], ...]
    tokens: Tokens


@dataclass(slots=True)
class Contexts:
    """The texts of one run, told its stages one after the other."""

    run: RunId
    _written: dict[str, _Context] = field(default_factory=dict)
    _shared: set[str] = field(default_factory=set)
    _requests: int = 0

    def follow(self, stage: Sequence[Prompted]) -> list[Origin]:
        """The origins of the requests of the next stage. Raises ContextError, after which this is of no use."""
        origins: list[Origin] = []
        grown: dict[str, _Context] = {}
        for place, request in enumerate(stage):
            if fault := self._fault(request) or _written_twice(request, grown):
                raise ContextError(place, fault)
            origin = self._origin(request)
            origins.append(origin)
            self._requests += 1
            if request.context is not None:
                grown[request.context] = _Context(origin.ancestors, request.prompt_tokens + request.output_tokens)
        self._written |= grown
        return origins

    def _fault(self, request: Prompted) -> str | None:
        prefix, context = request.prefix, request.context
        known = self._written.get(prefix) if prefix is not None else None
        if known is not None and request.prefix_tokens > known.tokens:
            return f"prefix_tokens is {request.prefix_tokens}, but context {prefix!r} has {known.tokens} tokens by then"
        if context is None:
            return None
        if known is None and prefix == context:
            return f"context {context!r} is its own prefix, but no earlier stage of the run has begun it"
        if context in self._shared:
            return f"context {context!r} has the name of a text that the run uses as a shared prefix: name it otherwise"
        before = self._written.get(context)
        if before is not None and (prefix != context or request.prefix_tokens != before.tokens):
            return (
                f"context {context!r} has {before.tokens} tokens by then and only grows: to go on with it, give "
                f"prefix {context!r} and prefix_tokens {before.tokens}; else give another context"
            )
        return None

    def _origin(self, request: Prompted) -> Origin:
        prefix = request.prefix
        own = (self.run, self._requests if request.context is None else request.context)
        if prefix is None:
            return Origin((), own)
        known = self._written.get(prefix)
        if known is None:
            self._shared.add(prefix)
        elif prefix == request.context:
            return Origin(known.ancestors, own)
        name = ("", prefix) if known is None else (self.run, prefix)
        tokens = min(request.prefix_tokens, request.prompt_tokens - 1)
        return Origin(_cut((*(known.ancestors if known else ()), (name, tokens)), tokens), own)


def _written_twice(request: Prompted, grown: dict[str, _Context]) -> str | None:
    if request.context in grown:
        return f"context {request.context!r} is that of another request of this stage: only one can write it"
    return None


def _cut(ancestors: tuple[tuple[TextName, Tokens], ...], tokens: Tokens) -> tuple[tuple[TextName, Tokens], ...]:
    """The ancestors of the first so many tokens."""
    kept: list[tuple[TextName, Tokens]] = []
    for name, until in ancestors:
        begins = kept[-1][1] if kept else 0
        if min(until, tokens) > begins:
            kept.append((name, min(until, tokens)))
    return tuple(kept)
