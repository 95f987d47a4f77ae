"""The pace is that of the whole workload, and the table tells each policy's middle turn."""

from justitia_benchmarks.experiments.tiered.serving import agents
from justitia_benchmarks.simulation_speed import TENANTS, SimulationPace, document, measure


def test_every_request_of_the_workload_counts() -> None:
    runs = agents(10, 1, 2.5, TENANTS)
    pace = measure("agent runs", runs, "tiered-justitia")
    assert pace.requests == sum(len(run.requests) for run in runs)
    assert pace.per_minute > 0


def test_the_table_tells_the_middle_turn_and_the_range() -> None:
    text = document([SimulationPace("w", "p", 1500, 1000.0 * pace) for pace in (90, 120, 100)])
    assert "| policy | w, 1,500 requests |" in text
    assert "| p | 100 (90-120) |" in text
