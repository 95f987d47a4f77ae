import pytest

from justitia_sidecar.admission.metering import TokenBucket
from justitia_sidecar.admission.observation import RecentValues, ShareWindow
from justitia_vocabulary.units import TenantId

A, B = TenantId("a"), TenantId("b")


def test_shares_are_of_what_was_served_in_the_window() -> None:
    window = ShareWindow(window=10)
    window.sample({A: 1000.0}, {A: 1}, 0)
    window.sample({A: 1010.0, B: 30.0}, {A: 1, B: 3}, 10)
    assert window.shares() == {A: 0.25, B: 0.75}


def test_entitled_shares_count_only_while_active() -> None:
    window = ShareWindow(window=10)
    window.sample({}, {A: 1}, 1)
    window.sample({}, {A: 1, B: 3}, 2)
    window.sample({}, {}, 3)
    assert window.entitled() == {A: pytest.approx(0.625), B: pytest.approx(0.375)}


def test_nothing_served_has_no_shares() -> None:
    window = ShareWindow()
    window.sample({A: 0.0}, {}, 0)
    assert window.shares() == {}
    assert window.entitled() == {}


def test_an_engine_that_counts_from_0_again_gives_no_negative_and_no_huge_shares() -> None:
    window = ShareWindow(window=100)
    window.sample({A: 10.0, B: 30.0}, {A: 1, B: 1}, 1)
    window.sample({}, {A: 1, B: 1}, 2)
    window.sample({A: 4.0}, {A: 1, B: 1}, 3)
    window.sample({A: 5.0, B: 5.0}, {A: 1, B: 1}, 4)
    window.sample({A: 1.0, B: 0.0}, {A: 1, B: 1}, 5)
    assert window.shares() == {A: pytest.approx(16 / 51), B: pytest.approx(35 / 51)}


def test_what_was_served_before_the_window_began_again_is_not_in_it() -> None:
    window = ShareWindow(window=100)
    window.sample({A: 10.0}, {A: 1}, 1)
    window.restart({A: 1000.0, B: 5000.0})
    window.sample({A: 1003.0, B: 5001.0}, {A: 1, B: 1}, 2)
    assert window.shares() == {A: 0.75, B: 0.25}


def test_quantiles_of_recent_values() -> None:
    recent = RecentValues()
    assert recent.quantiles().p50 is None
    for value in range(101):
        recent.observe(float(value))
    assert recent.quantiles().p50 == 50
    assert recent.quantiles().p99 == 99


def test_a_bucket_tells_when_to_come_back() -> None:
    bucket = TokenBucket(60, 60, 0)
    assert bucket.wait(0) == 0
    bucket.take(70, 0)
    wait = bucket.wait(0)
    assert wait == pytest.approx(11)
    assert bucket.wait(wait) == 0


def test_a_bucket_sees_what_is_expected_of_requests_under_way() -> None:
    bucket = TokenBucket(60, 60, 0)
    with bucket.reserving(50):
        assert bucket.wait(0) == 0
        with bucket.reserving(1_000):
            assert bucket.wait(0) == 60
        assert bucket.wait(0) == 0
        bucket.take(20, 0)
        assert bucket.wait(0) == pytest.approx(11)
    assert bucket.wait(0) == 0
