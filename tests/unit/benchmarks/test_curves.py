"""Pictures give a policy one colour, and no two labels the same."""

from justitia_benchmarks.reports.curves import COLOURS, OF_POLICY, colours_of


def test_a_policy_has_its_colour_whatever_stands_beside_it() -> None:
    assert colours_of(["vtc", "x"])["vtc"] == colours_of(["a", "b", "vtc"])["vtc"] == OF_POLICY["vtc"]


def test_labels_have_different_colours_while_there_are_enough() -> None:
    labels = ["vtc", "drr", "lcf", "justitia", "parrot", "a", "b", "c"]
    assert sorted(colours_of(labels).values()) == sorted(COLOURS)
    assert list(colours_of([*labels, "d", "vtc"])) == [*labels, "d"]
