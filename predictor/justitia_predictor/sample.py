"""Samples: finished runs as predictors learn from them, and batches of samples for the store."""

import hashlib
import struct
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from justitia_predictor.features import FEATURES_VERSION, Features
from justitia_vocabulary.units import KVTokenTime, Seconds

MOST_SAMPLES = 2000
"""The most samples that are trained with. The newest count: with more, training takes longer and old runs mislead."""
MOST_BATCH_BYTES = 64 * 2**20
"""The most bytes of an unpacked batch that are read."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A finished run: what was known at its first request, and what it cost, as a whole and in each stage.

    `finished` is the time of day, in seconds since 1970. `text` is that of the first request where it is kept.
    """

    features: Features
    cost: KVTokenTime
    stages: tuple[KVTokenTime, ...] = ()
    finished: Seconds = 0.0
    text: bytes | None = None


class _Row(msgspec.Struct, frozen=True, array_like=True):
    features: bytes
    cost: KVTokenTime
    stages: tuple[KVTokenTime, ...]
    finished: Seconds
    text: bytes | None


class _Batch(msgspec.Struct, frozen=True):
    version: int
    rows: list[_Row]


_encoder, _decoder = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder(_Batch)


class BatchError(Exception):
    """A batch cannot be read, or is of another version."""


def to_batch(samples: Sequence[Sample]) -> bytes:
    rows = [_Row(s.features.packed, s.cost, s.stages, s.finished, s.text) for s in samples]
    return zlib.compress(_encoder.encode(_Batch(FEATURES_VERSION, rows)))


def from_batch(content: bytes) -> list[Sample]:
    """Read the samples of a batch. Raises BatchError."""
    try:
        unpacking = zlib.decompressobj()
        plain = unpacking.decompress(content, MOST_BATCH_BYTES)
        if unpacking.unconsumed_tail:
            raise BatchError(f"a batch has more than {MOST_BATCH_BYTES} bytes")
        if not unpacking.eof:
            raise BatchError("a batch is cut off")
        batch = _decoder.decode(plain)
        if batch.version != FEATURES_VERSION:
            raise BatchError(f"a batch has features of version {batch.version}")
        return [Sample(Features.checked(r.features), r.cost, r.stages, r.finished, r.text) for r in batch.rows]
    except (zlib.error, msgspec.DecodeError, ValueError) as error:
        raise BatchError(f"a batch is damaged: {error}") from error


def data_hash(samples: Iterable[Sample]) -> str:
    """The digest of what is learned from samples, whatever their order: hex SHA-256."""
    each = sorted(hashlib.sha256(struct.pack("<d", s.cost) + s.features.packed).digest() for s in samples)
    return hashlib.sha256(b"".join(each)).hexdigest()
