"""Every request is timed, with a real scheduler's learning, and the table tells median, P99 and who goes without."""

from justitia_benchmarks.prediction_speed import KIBIBYTES, Waits, document, measure
from justitia_predictor.models import Linear


async def test_requests_get_the_predictions_of_both_models() -> None:
    waits = await measure(Linear.kind, requests=10, seed=1)
    assert [w.kibibytes for w in waits] == list(KIBIBYTES)
    assert all(len(w.times) == 10 and min(w.times) > 0 for w in waits)
    assert waits[0].without < 10


def test_the_table_tells_median_and_p99_and_who_goes_without() -> None:
    text = document([Waits("linear", 16, [float(n) for n in range(101)], 5)])
    assert "| kind | 16 KiB of text |" in text
    assert "| linear | 50.00 (99.00), 5 % |" in text
