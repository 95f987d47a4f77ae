"""The benchmark of sessions serves each way as it says, and compares each with VTC on the same sessions."""

from itertools import product

from justitia_benchmarks.turns import SETTINGS, WAYS, Served, Setting, Way, document, serve

SMALL = Setting("h100-llama2-7b", 2.0, 0.05, 12, 30.0)


def test_a_way_without_a_cache_finds_less_and_one_that_keeps_finds_no_less() -> None:
    without, with_it, kept = (
        serve((SMALL, 1, way)).found for way in (Way("fcfs", cache=False), Way("fcfs"), Way("fcfs", keep=True))
    )
    assert without < with_it <= kept


def test_each_row_compares_with_vtc_on_the_same_sessions() -> None:
    served = {
        (setting, seed, way): Served(10.0 * seed if way.policy == "vtc" else 5.0 * seed, 20.0, 0.5, 100.0, None)
        for setting, seed, way in product(SETTINGS, (1, 2), WAYS)
    }
    text = document(served, (1, 2))
    row = next(line for line in text.splitlines() if line.startswith("| tiered-justitia, KV kept |"))
    assert row.split(" | ")[1:4] == ["7.50 s", "0.50 (0.50 to 0.50)", "1.00 (1.00 to 1.00)"]
    assert "never both waited" in row
