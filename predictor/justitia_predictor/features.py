"""Makes the features of a run from its first request: hashed terms of its text, and a few numbers.

Texts are tenants' data. The features only say how often each of `BUCKETS` hash values occurs among the words, from
which the text cannot be restored: the order of words is lost, and two words may share a bucket.

Only the first and the last bytes of a text count (`cut`), so that the time does not grow with it. A text may be as it
stands in a JSON document: escapes separate words.
"""

import math
import re
from dataclasses import dataclass
from struct import Struct
from typing import Self
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

FEATURES_VERSION = 1
"""The version of all that features mean. Models know the version that they were trained with."""

BUCKETS = 2**14
MOST_HEAD, MOST_TAIL = 12 * 2**10, 4 * 2**10
"""The bytes of text that count, at its start and its end."""

NUMBERS = ("log text bytes", "log prompt tokens", "log most output tokens", "log messages", "log sequences")

_BETWEEN_WORDS = re.sub(rb"\W", b" ", bytes(range(256)))
"""Translates bytes that are in no word to spaces."""
_ESCAPED = re.compile(rb'\\[nrtbf"/\\]')
_numbers = Struct(f"{len(NUMBERS)}d")
_MOST_COUNT = 2**16 - 1
_PAIR_BYTES = 4


def cut(text: bytes) -> bytes:
    """The part of a text that counts."""
    if len(text) <= MOST_HEAD + MOST_TAIL:
        return text
    return text[:MOST_HEAD] + b" " + text[-MOST_TAIL:]


@dataclass(frozen=True, slots=True)
class FirstRequest:
    """The first request of a run. `text` is `cut` from one of `text_bytes`. Prompt tokens may be an estimate.
    `most_output` is None if the request has no bound of its own.
    """

    text: bytes
    text_bytes: int
    prompt_tokens: int
    most_output: int | None
    messages: int
    sequences: int


@dataclass(frozen=True, slots=True)
class Features:
    """Packed features: the numbers in the order of `NUMBERS`, then pairs of a bucket and the count of its words, by
    ascending bucket.
    """

    packed: bytes

    @classmethod
    def of(cls, request: FirstRequest) -> Self:
        words = _ESCAPED.sub(b" ", request.text.lower()).translate(_BETWEEN_WORDS).split()
        hashes = np.fromiter(map(crc32, words), np.uint32, len(words))
        buckets, counts = np.unique((hashes % BUCKETS).astype(np.uint16), return_counts=True)
        numbers = _numbers.pack(
            math.log1p(request.text_bytes),
            math.log1p(request.prompt_tokens),
            0.0 if request.most_output is None else math.log1p(request.most_output),
            math.log1p(request.messages),
            math.log1p(request.sequences),
        )
        pairs = np.column_stack((buckets, counts.clip(max=_MOST_COUNT).astype(np.uint16)))
        return cls(numbers + pairs.tobytes())

    @classmethod
    def checked(cls, packed: bytes) -> Self:
        """Check packed features. Raises ValueError if these are none."""
        features = cls(packed)
        rest = len(packed) - _numbers.size
        if rest < 0 or rest % _PAIR_BYTES or not all(map(math.isfinite, features.numbers)) or not features._sound():
            raise ValueError(f"{len(packed)} bytes are not packed features of version {FEATURES_VERSION}")
        return features

    def _sound(self) -> bool:
        buckets, counts = self.pairs.T
        return bool(np.all(buckets[:-1] < buckets[1:]) and np.all(buckets < BUCKETS) and np.all(counts))

    @property
    def numbers(self) -> tuple[float, ...]:
        return _numbers.unpack_from(self.packed)

    @property
    def pairs(self) -> NDArray[np.uint16]:
        """Bucket and count of each term: (terms, 2)."""
        return np.frombuffer(self.packed, np.uint16, offset=_numbers.size).reshape(-1, 2)

    @property
    def terms(self) -> dict[int, int]:
        """Counts by bucket."""
        return dict(self.pairs.tolist())
