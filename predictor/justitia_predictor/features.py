"""What is known of a run when its first request comes: hashed terms of its text, and a few numbers.

Texts are tenants' data. What is kept of one is how often each of `BUCKETS` hash values came up among its words, which
does not give the text back. The order of words is lost, and two words may share a bucket.

A text counts with its first and its last bytes (`cut`), so that the time does not grow with it. It may be as it stands
in a JSON document: what JSON escapes parts words.
"""

import math
import re
from array import array
from collections import Counter
from dataclasses import dataclass
from itertools import chain
from typing import Self
from zlib import crc32

import numpy as np

FEATURES_VERSION = 1
"""Of the meaning of everything in this module. Models know the version that they were trained with."""

BUCKETS = 2**14
MOST_HEAD, MOST_TAIL = 12 * 2**10, 4 * 2**10
"""Bytes of text that count."""

NUMBERS = ("log text bytes", "log prompt tokens", "log most output tokens", "log messages", "log sequences")

_BETWEEN_WORDS = re.sub(rb"\W", b" ", bytes(range(256)))
"""Translates what is in no word to spaces."""
_ESCAPED = re.compile(rb'\\[nrtbf"/\\]')
_MOST_COUNT = 2**16 - 1


def cut(text: bytes) -> bytes:
    """What counts of a text."""
    if len(text) <= MOST_HEAD + MOST_TAIL:
        return text
    return text[:MOST_HEAD] + b" " + text[-MOST_TAIL:]


@dataclass(frozen=True, slots=True)
class FirstRequest:
    """Of a run, as its client sent it. `text` is what is `cut` from one of `text_bytes`. Prompt tokens may be an
    estimate; `most_output` is None without a bound of its own.
    """

    text: bytes
    text_bytes: int
    prompt_tokens: int
    most_output: int | None
    messages: int
    sequences: int


@dataclass(frozen=True, slots=True)
class Features:
    """`terms` maps buckets to the times that words of theirs came up; `numbers` are as in `NUMBERS`."""

    terms: dict[int, int]
    numbers: tuple[float, ...]

    @classmethod
    def of(cls, request: FirstRequest) -> Self:
        words = _ESCAPED.sub(b" ", request.text.lower()).translate(_BETWEEN_WORDS).split()
        counts = Counter(crc32(word) % BUCKETS for word in words)
        numbers = (
            math.log1p(request.text_bytes),
            math.log1p(request.prompt_tokens),
            0.0 if request.most_output is None else math.log1p(request.most_output),
            math.log1p(request.messages),
            math.log1p(request.sequences),
        )
        return cls(dict(counts), numbers)

    def packed(self) -> bytes:
        """The numbers, then pairs of bucket and count, in the order of buckets."""
        pairs = np.fromiter(chain.from_iterable(self.terms.items()), np.int64, 2 * len(self.terms)).reshape(-1, 2)
        in_order = pairs[pairs[:, 0].argsort()].clip(max=_MOST_COUNT)
        return array("d", self.numbers).tobytes() + in_order.astype(np.uint16).tobytes()

    @classmethod
    def unpacked(cls, packed: bytes) -> Self:
        """Raises ValueError where this is not something packed."""
        numbers, pairs = array("d"), array("H")
        size = numbers.itemsize * len(NUMBERS)
        numbers.frombytes(packed[:size])
        pairs.frombytes(packed[size:])
        buckets, counts = pairs[::2], pairs[1::2]
        fits = len(numbers) == len(NUMBERS) and len(buckets) == len(counts) and all(map(math.isfinite, numbers))
        if not fits or max(buckets, default=0) >= BUCKETS or min(counts, default=1) == 0:
            raise ValueError(f"{len(packed)} bytes are not packed features of version {FEATURES_VERSION}")
        return cls(dict(zip(buckets, counts, strict=True)), tuple(numbers))
