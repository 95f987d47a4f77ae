"""The sketch against the quantiles of the values themselves."""

import json
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from justitia_scheduling.objectives.sketch import ACCURACY, LEAST, MOST, Sketch

VALUES = st.lists(st.floats(LEAST, MOST), min_size=1, max_size=300)
SHARES = st.floats(0.001, 0.999)


def sketch(values: list[float]) -> Sketch:
    made = Sketch()
    for value in values:
        made.add(value)
    return made


def exact(values: list[float], p: float) -> float:
    """The smallest value with a share of at least p at or below it, by its definition."""
    return next(x for x in sorted(values) if sum(v <= x for v in values) >= p * len(values) - 1e-9)


@given(VALUES, SHARES)
def test_a_quantile_is_within_one_per_cent_of_the_exact_one(values: list[float], p: float) -> None:
    assert sketch(values).quantile(p) == pytest.approx(exact(values, p), rel=ACCURACY * (1 + 1e-6))


@given(VALUES, VALUES, SHARES)
def test_merging_is_the_sketch_of_the_union(ours: list[float], theirs: list[float], p: float) -> None:
    merged = sketch(ours)
    merged.merge(sketch(theirs))
    assert merged.state() == sketch(ours + theirs).state()
    assert merged.count == len(ours) + len(theirs)
    assert merged.quantile(p) == sketch(ours + theirs).quantile(p)


@given(VALUES, SHARES)
def test_its_state_survives_json(values: list[float], p: float) -> None:
    before = sketch(values)
    after = Sketch(json.loads(json.dumps(before.state())))
    assert (after.count, after.quantile(p)) == (before.count, before.quantile(p))


def test_buckets_are_bounded_whatever_comes() -> None:
    source = random.Random(1)
    made = Sketch()
    for _ in range(50_000):
        made.add(math.exp(source.uniform(-40, 40)))
    for extreme in (0.0, -1.0, math.inf):
        made.add(extreme)
    assert len(made.state()) <= 1497
    assert made.quantile(1e-9) == pytest.approx(LEAST, rel=ACCURACY)
    assert made.quantile(1.0) == pytest.approx(MOST, rel=ACCURACY)


def test_the_check_sees_a_coarser_sketch() -> None:
    """Negative control: buckets of twice the width are not within one per cent."""
    values = [1.0 + i / 1000 for i in range(1000)]
    ratio = math.log((1 + 2 * ACCURACY) / (1 - 2 * ACCURACY))
    worst = max(abs(math.exp((math.ceil(math.log(v) / ratio) - 0.5) * ratio) / v - 1) for v in values)
    assert worst > 1.5 * ACCURACY


def test_what_is_no_number_is_refused_and_nothing_has_no_quantile() -> None:
    with pytest.raises(ValueError, match="not a number"):
        Sketch().add(math.nan)
    with pytest.raises(ValueError, match="nothing"):
        Sketch().quantile(0.5)
