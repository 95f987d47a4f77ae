"""The VTC paper's service difference, by hand."""

import pytest

from justitia_simulator.fairness import (
    Served,
    profiled_cost,
    response_times,
    service_difference,
    weighted_tokens,
    widest_gap,
)

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


def test_service_is_spread_evenly_from_first_to_last_token() -> None:
    request = Served("a", 0.0, 10.0, 20.0, 100, 50)
    assert request.part_within(0.0, 15.0) == pytest.approx(0.5)
    assert request.part_within(15.0, 30.0) == pytest.approx(0.5)
    assert request.part_within(20.0, 30.0) == 0.0


def test_a_request_of_one_token_counts_where_it_ended() -> None:
    request = Served("a", 0.0, 10.0, 10.0, 100, 1)
    assert [request.part_within(0.0, 10.0), request.part_within(10.0, 20.0)] == [0.0, 1.0]


def test_the_profiled_cost_is_a_tenth_of_the_papers_polynomial() -> None:
    for p, d in [(1, 1), (256, 256), (1000, 10), (10, 1000)]:
        printed = 2.1 * p + d + 0.04 * p * d + 0.032 * d**2 + 11.46
        assert profiled_cost(p, d) == pytest.approx(printed / 10, rel=0.02)


def test_demand_can_be_measured_by_another_cost_than_service() -> None:
    # b gets nothing. Service of a: 100 tokens a second; demand of b: 20 tokens a second, or 3 in the other unit.
    requests = steady("a", 100) + steady("b", 20, delay=10_000.0)
    other = service_difference(requests, T, demand_cost=lambda prompt, output: 0.15 * weighted_tokens(prompt, output))
    # a is the best served, so its own demand does not count.
    assert other.average == pytest.approx(3.0, abs=0.2)


def test_the_gap_is_between_the_best_and_the_worst_served_client_by_weight() -> None:
    requests = [
        Served("a", 0.0, 0.0, 10.0, 0, 50),
        Served("b", 0.0, 5.0, 15.0, 0, 50),
        Served("c", 0.0, 0.0, 10.0, 0, 150),
    ]
    assert widest_gap(requests, [0.0, 5.0, 10.0, 20.0], {"c": 3.0}) == pytest.approx([0.0, 50.0, 50.0, 0.0])
    assert widest_gap(requests, [20.0]) == pytest.approx([200.0])


def test_a_response_time_is_the_mean_wait_of_those_whose_first_token_came_near_the_moment() -> None:
    requests = [
        Served("a", 0.0, 10.0, 20.0, 1, 1),
        Served("a", 9.0, 11.0, 20.0, 1, 1),
        Served("a", 0.0, 100.0, 200.0, 1, 1),
        Served("b", 0.0, 10.0, 20.0, 1, 1),
    ]
    assert response_times(requests, "a", [10.0, 50.0, 100.0], window=4.0) == [6.0, None, 100.0]
