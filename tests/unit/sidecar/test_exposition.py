from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from justitia_sidecar.metrics import SidecarMetrics
from justitia_sidecar.report.exposition import SERIES_OF_A_PIECE, Exposition


def _theirs(registry: CollectorRegistry) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return _parsed(generate_latest(registry))


def _parsed(text: bytes) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Without times of creation."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
        if not sample.name.endswith("_created")
    }


def _ours(exposition: Exposition) -> bytes:
    return b"".join(exposition.pieces())


def test_the_text_is_that_of_the_client_library() -> None:
    metrics = SidecarMetrics()
    exposition = Exposition(metrics.registry)
    for round_ in range(1, 4):
        for tenant in ("gold", 'q"uote', "back\\slash", "new\nline", "50%s", "grün"):
            metrics.requests.labels(tenant, "a", "served").inc(1e6 * round_)
            metrics.service.labels(tenant).set(1 / 3)
            metrics.queue_delay.labels(tenant, "a").observe(0.0)
            metrics.queue_delay.labels(tenant, "b").observe(round_ * 7.5)
        metrics.decision.observe(1e9)
        text = _ours(exposition)
        assert _parsed(text) == _theirs(metrics.registry)
        theirs = generate_latest(metrics.registry).decode().splitlines()
        assert text.decode().splitlines() == [line for line in theirs if "_created" not in line]


def test_series_that_went_are_told_no_more() -> None:
    registry = CollectorRegistry()
    gauge, counter = Gauge("g", "help", ("a",), registry=registry), Counter("c", "help", ("a",), registry=registry)
    exposition = Exposition(registry)
    gauge.labels("x").set(5)
    counter.labels("x").inc(5)
    _ours(exposition)
    gauge.clear()
    counter.remove("x")
    counter.labels("x").inc(0)
    assert _parsed(_ours(exposition)) == {("c_total", (("a", "x"),)): 0.0}


class Collecting(Collector):
    """Makes its metrics for each scrape, like the plug-in's."""

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily("told", "help", 7)


def test_what_collects_anew_is_told() -> None:
    registry = CollectorRegistry()
    registry.register(Collecting())
    assert _parsed(_ours(Exposition(registry))) == _theirs(registry) == {("told", ()): 7.0}


def test_a_scrape_is_many_pieces() -> None:
    registry = CollectorRegistry()
    histogram = Histogram("h", "help", ("a",), registry=registry)
    for number in range(10 * SERIES_OF_A_PIECE):
        histogram.labels(str(number)).observe(1)
    assert len(list(Exposition(registry).pieces())) > 10
