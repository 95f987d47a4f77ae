"""How long an engine's steps take. Seconds and tokens.

A step processes `prefilled` prompt tokens and one token for each of `decoding` requests, and reads the KV of the tokens
that these had before it. All forms are linear in the KV tokens read, so the duration of many equal steps is exact:

- :class:`LinearTiming`: per_step + per_prefill_token * prefilled + per_decode * decoding + per_kv_token * read;
- :class:`SeparateTiming`: prefill and decode are steps of their own, each with coefficients of its own;
- :class:`LayerTiming`: overhead + layers(prefilled + decoding) + per_kv_token * read, where `layers` is the measured
  time of the model's linear layers, piecewise linear in the tokens of the step. The KV of a prompt's earlier chunks is
  read like a decoding request's; attention among the tokens of a chunk is taken to be part of the layers.
"""

from bisect import bisect_left
from typing import Annotated

import msgspec

from justitia_scheduling.core.cost import StepTime
from justitia_vocabulary.units import Seconds

Time = Annotated[float, msgspec.Meta(ge=0)]


class Coefficients(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Seconds per step, per token processed, per KV token read."""

    per_step: Time
    per_token: Time
    per_kv_token: Time = 0.0

    def steps(self, tokens: float, kv_read: float, steps: int) -> Seconds:
        return (self.per_step + self.per_token * tokens) * steps + self.per_kv_token * kv_read


class LinearTiming(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="linear"):
    """What `justitia calibrate` fits to an engine."""

    per_step: Time
    per_prefill_token: Time
    per_decode: Time
    per_kv_token: Time

    def step(self, prefilled: float, decoding: float, kv_read: float, steps: int = 1) -> Seconds:
        """Duration of `steps` steps alike that read `kv_read` KV tokens altogether."""
        each = self.per_step + self.per_prefill_token * prefilled + self.per_decode * decoding
        return each * steps + self.per_kv_token * kv_read

    @property
    def charge(self) -> StepTime:
        """Coefficients for splitting a step's duration over its requests: a prompt's tokens cost what prefill costs."""
        return StepTime(self.per_step, self.per_prefill_token, self.per_kv_token)


class SeparateTiming(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="separate"):
    """Prefill and decode apart, both `overhead` more. A step with both takes as long as one after the other."""

    decode: Coefficients
    prefill: Coefficients
    overhead: Time = 0.0

    def step(self, prefilled: float, decoding: float, kv_read: float, steps: int = 1) -> Seconds:
        """Duration of `steps` steps alike that read `kv_read` KV tokens altogether."""
        duration = self.overhead * steps
        if prefilled:
            duration += self.prefill.steps(prefilled, 0 if decoding else kv_read, steps)
        if decoding:
            duration += self.decode.steps(decoding, kv_read, steps)
        return duration

    @property
    def charge(self) -> StepTime:
        """Coefficients for splitting a step's duration over its requests: a prompt's tokens cost what prefill costs."""
        return StepTime(self.decode.per_step + self.overhead, self.prefill.per_token, self.decode.per_kv_token)


class LayerTiming(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="layers"):
    """`layers` are (tokens, seconds) in order of tokens: constant before the first, the last slope goes on."""

    layers: tuple[tuple[int, float], ...]
    per_kv_token: Time
    overhead: Time = 0.0

    def __post_init__(self) -> None:
        tokens = [n for n, _ in self.layers]
        if len(tokens) < 2 or tokens != sorted(set(tokens)) or tokens[0] < 1:
            raise ValueError("layers need two or more (tokens, seconds) with growing tokens")
        seconds = [s for _, s in self.layers]
        if seconds != sorted(seconds) or seconds[0] <= 0:
            raise ValueError("seconds of layers must be positive and must not fall with more tokens")

    def step(self, prefilled: float, decoding: float, kv_read: float, steps: int = 1) -> Seconds:
        """Duration of `steps` steps alike that read `kv_read` KV tokens altogether."""
        return (self.overhead + self._layers(prefilled + decoding)) * steps + self.per_kv_token * kv_read

    @property
    def charge(self) -> StepTime:
        """Coefficients for splitting a step's duration over its requests: the chord of the layers' time."""
        (first, low), (last, high) = self.layers[0], self.layers[-1]
        return StepTime(self.overhead + low, (high - low) / (last - first), self.per_kv_token)

    def _layers(self, tokens: float) -> Seconds:
        first, least = self.layers[0]
        if tokens <= first:
            return least
        right = min(bisect_left(self.layers, (tokens,)), len(self.layers) - 1)
        (n0, s0), (n1, s1) = self.layers[right - 1], self.layers[right]
        return s0 + (s1 - s0) * (tokens - n0) / (n1 - n0)


Timing = LinearTiming | SeparateTiming | LayerTiming
