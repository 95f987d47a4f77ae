"""The VTC paper's service difference, by hand."""

import pytest

from justitia_simulator.fairness import Served, service_difference

T = 600.0


def steady(client: str, cost_per_second: float, delay: float = 0.0, served: float = 1.0) -> list[Served]:
    """A request each second for the whole window, `served` of which comes within its own second."""
    output = round(cost_per_second / 2)
    return [
        Served(client, float(i), i + delay, i + delay + 1.0, 0, output) for i in range(int(T)) if (i % 10) < served * 10
    ]


def test_clients_that_get_all_they_ask_differ_by_nothing() -> None:
    figures = service_difference(steady("a", 100) + steady("b", 20), T)
    # Demand and service of b agree to the request at the window's edge (half-second offset of a tick).
    assert figures.maximum <= 2 * 120 / 60
    assert figures.average < 1.0


def test_a_client_that_waits_beyond_the_window_differs_by_what_it_lacks() -> None:
    # b asks 20 a second and gets nothing until long after: min(100 - 0, |20 - 0|) = 20 at every tick.
    figures = service_difference(steady("a", 100) + steady("b", 20, delay=10_000.0), T)
    assert figures.average == pytest.approx(20.0, abs=1.0)
    assert figures.variance == pytest.approx(0.0, abs=1.0)


def test_the_difference_is_no_more_than_to_the_best_served_client() -> None:
    # b asks 200 and gets nothing; a gets 100: 100 a tick.
    figures = service_difference(steady("a", 100) + steady("b", 200, delay=10_000.0), T)
    assert figures.average == pytest.approx(100.0, abs=2.0)


def test_weights_divide_service_and_demand() -> None:
    requests = steady("a", 100) + steady("b", 20, delay=10_000.0)
    assert service_difference(requests, T, {"b": 2.0}).average == pytest.approx(10.0, abs=1.0)


def test_cost_is_spread_evenly_from_first_to_last_token() -> None:
    request = Served("a", 0.0, 10.0, 20.0, 100, 50)
    assert request.cost_within(0.0, 15.0) == pytest.approx(100.0)
    assert request.cost_within(15.0, 30.0) == pytest.approx(100.0)
    assert request.cost_within(20.0, 30.0) == 0.0


def test_a_request_of_one_token_counts_where_it_ended() -> None:
    request = Served("a", 0.0, 10.0, 10.0, 100, 1)
    assert [request.cost_within(0.0, 10.0), request.cost_within(10.0, 20.0)] == [0.0, 102.0]
