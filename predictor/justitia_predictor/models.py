"""Models of the logarithm of a run's cost, as plain arrays: the results of training, without the library that trains.

Each predicts ln C of a run from its `Features`, with numpy alone. `check` decides whether arrays from elsewhere can be
computed with; nothing else about them is trusted.
"""

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from justitia_predictor.encoding import Encoding, Floats, Indices
from justitia_predictor.features import BUCKETS, NUMBERS, Features

MOST_DEPTH = 16
PROMPT = NUMBERS.index("log prompt tokens")

Array = NDArray[np.float32] | NDArray[np.int32]


class Model(Protocol):
    """A model. `kind` names it in files and in the status of resources."""

    kind: ClassVar[str]

    def log_cost(self, features: Features) -> float: ...

    def check(self) -> None:
        """Raises ValueError if the arrays do not fit together."""


@dataclass(frozen=True)
class RunningMean:
    """Predicts the same for each run. `value` has one part."""

    kind: ClassVar[str] = "running-mean"
    value: Floats

    def log_cost(self, features: Features) -> float:
        return float(self.value[0])

    def check(self) -> None:
        _need(self.value.shape == (1,), "value")


@dataclass(frozen=True)
class PromptLength:
    """Predicts by the first prompt's length: `values` (k) of classes between ascending `edges` (k - 1) in ln tokens."""

    kind: ClassVar[str] = "prompt-length"
    edges: Floats
    values: Floats

    def log_cost(self, features: Features) -> float:
        return float(self.values[np.searchsorted(self.edges, features.numbers[PROMPT])])

    def check(self) -> None:
        _need(self.edges.ndim == 1 and self.values.shape == (len(self.edges) + 1,), "values")
        _need(bool(np.all(np.diff(self.edges) >= 0)), "edges")


@dataclass(frozen=True)
class Linear:
    """A linear model: `weights` (v) of a vector's parts, and an `intercept` (1)."""

    kind: ClassVar[str] = "linear"
    encoding: Encoding
    weights: Floats
    intercept: Floats

    def log_cost(self, features: Features) -> float:
        return float(self.encoding.vector(features) @ self.weights + self.intercept[0])

    def check(self) -> None:
        check_encoding(self.encoding)
        _need(self.weights.shape == (self.encoding.size,) and self.intercept.shape == (1,), "weights")


@dataclass(frozen=True)
class Network:
    """A multi-layer perceptron (Justitia, section 4.2): `weights` (in, out) and `biases` (out) of each layer, rectified
    linear in between; `target` is mean and standard deviation of ln C, which its output is in units of.
    """

    kind: ClassVar[str] = "mlp"
    encoding: Encoding
    weights: tuple[Floats, ...]
    biases: tuple[Floats, ...]
    target: Floats

    def log_cost(self, features: Features) -> float:
        values = self.encoding.vector(features)
        for weights, biases in zip(self.weights[:-1], self.biases[:-1], strict=True):
            values = np.maximum(values @ weights + biases, 0)
        (output,) = values @ self.weights[-1] + self.biases[-1]
        return float(output * self.target[1] + self.target[0])

    def check(self) -> None:
        check_encoding(self.encoding)
        _need(len(self.weights) == len(self.biases) > 0 and self.target.shape == (2,), "weights")
        size = self.encoding.size
        for weights, biases in zip(self.weights, self.biases, strict=True):
            _need(weights.shape == (size, len(biases)) and biases.ndim == 1, "weights")
            size = len(biases)
        _need(size == 1, "weights")


@dataclass(frozen=True)
class Trees:
    """Gradient boosted regression trees, whose leaves' values add up to ln C. The nodes of all trees are in one list. A
    node leads `left` if the vector's part `part` is at most `threshold`, else `right`; a leaf leads to itself.
    """

    kind: ClassVar[str] = "boosting"
    encoding: Encoding
    roots: Indices
    part: Indices
    threshold: Floats
    left: Indices
    right: Indices
    value: Floats
    depth: Indices
    start: Floats

    def log_cost(self, features: Features) -> float:
        vector = self.encoding.vector(features)
        at = self.roots
        for _ in range(int(self.depth[0])):
            at = np.where(vector[self.part[at]] <= self.threshold[at], self.left[at], self.right[at])
        return float(self.start[0] + self.value[at].sum())

    def check(self) -> None:
        check_encoding(self.encoding)
        nodes = len(self.part)
        for array in (self.part, self.threshold, self.left, self.right, self.value):
            _need(array.shape == (nodes,), "nodes")
        for places in (self.roots, self.left, self.right):
            _need(bool(np.all((places >= 0) & (places < nodes))), "nodes")
        _need(bool(np.all((self.part >= 0) & (self.part < self.encoding.size))), "part")
        _need(self.start.shape == (1,) and self.depth.shape == (1,) and 0 <= self.depth[0] <= MOST_DEPTH, "depth")


MODELS: dict[str, type[Model]] = {m.kind: m for m in (RunningMean, PromptLength, Linear, Network, Trees)}


def check_encoding(encoding: Encoding) -> None:
    """Raises ValueError if an encoding cannot be computed with."""
    buckets = encoding.buckets
    _need(buckets.ndim == 1 and encoding.idf.shape == buckets.shape, "idf")
    _need(bool(np.all((buckets >= 0) & (buckets < BUCKETS)) and np.all(np.diff(buckets) > 0)), "buckets")
    _need(encoding.mean.shape == encoding.scale.shape == (len(NUMBERS),) and bool(np.all(encoding.scale > 0)), "scale")


def _need(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(f"{what} does not fit")
