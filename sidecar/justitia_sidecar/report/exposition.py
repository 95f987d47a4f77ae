"""Writes what Prometheus scrapes, in pieces that delay the loop of requests by a millisecond or two each.

1,000 tenants make 100,000 lines. The text of a series is made again only if its values have changed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.utils import floatToGoString

SERIES_OF_A_PIECE = 40
"""Series in a piece. A new series of 17 lines takes 20 to 40 us, a known one about 2."""

_TYPES: dict[type, str] = {Counter: "counter", Gauge: "gauge", Histogram: "histogram"}
_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


@dataclass(slots=True)
class _Series:
    """All lines of one set of labels. `child` is the client library's. Its private fields are read, because its locks
    would take half of the time.
    """

    child: Any
    template: str
    values: list[float]
    text: bytes = b""


class Exposition:
    """A registry in Prometheus' text format, without the creation times of counters and histograms."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._known: dict[str, dict[Sequence[str], _Series]] = {}

    def pieces(self) -> Iterator[bytes]:
        """The text in pieces. Others may work between two of them. The lines of a series belong to one moment."""
        for metric in list(self._registry._collector_to_names):
            if type(metric) in _TYPES:
                yield from self._pieces(metric)
            else:  # a collector makes its series for each scrape
                yield generate_latest(metric)

    def _pieces(self, metric: Any) -> Iterator[bytes]:
        kind = _TYPES[type(metric)]
        name = metric._name + ("_total" if kind == "counter" else "")
        help_text = metric._documentation.replace("\\", r"\\").replace("\n", r"\n")
        piece = [f"# HELP {name} {help_text}\n# TYPE {name} {kind}\n".encode()]
        known = self._known.get(name, {})
        children = metric._metrics.copy() if metric._labelnames else {(): metric}
        current: dict[Sequence[str], _Series] = {}
        for labels, child in children.items():
            series = known.get(labels)
            if series is None or series.child is not child:
                series = _Series(child, _template(name, child, dict(zip(metric._labelnames, labels, strict=True))), [])
            current[labels] = series
            piece.append(_text(series))
            if len(piece) == SERIES_OF_A_PIECE:
                yield b"".join(piece)
                piece.clear()
        self._known[name] = current
        yield b"".join(piece)


def _text(series: _Series) -> bytes:
    child = series.child
    if type(child) is Histogram:
        values = [bucket._value for bucket in child._buckets]
        values.append(child._sum._value)
    else:
        values = [child._value._value]
    if values != series.values:
        series.values = values
        numbers = _cumulated(values) if type(child) is Histogram else [_number(values[0])]
        series.text = (series.template % tuple(numbers)).encode()
    return series.text


def _cumulated(values: list[float]) -> list[str]:
    """The numbers of a histogram as text: its cumulated buckets, the count, the sum."""
    total, text = 0.0, "0.0"
    numbers = []
    for value in values[:-1]:
        if value:
            total += value
            text = _number(total)
        numbers.append(text)
    return [*numbers, text, _number(values[-1])]


def _number(value: float) -> str:
    return str(floatToGoString(value))  # type: ignore[no-untyped-call]


def _template(name: str, child: Any, labels: dict[str, str]) -> str:
    if type(child) is not Histogram:
        return _line(name, labels)
    bounds = map(_number, child._upper_bounds)
    lines = [_line(f"{name}_bucket", labels | {"le": bound}) for bound in bounds]
    return "".join([*lines, _line(f"{name}_count", labels), _line(f"{name}_sum", labels)])


def _line(name: str, labels: dict[str, str]) -> str:
    """A line with `%s` for its value."""
    pairs = ",".join(f'{label}="{value.translate(_ESCAPES)}"' for label, value in sorted(labels.items()))
    return (f"{name}{{{pairs}}}" if pairs else name).replace("%", "%%") + " %s\n"
