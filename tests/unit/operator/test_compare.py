"""What counts as a difference between an object and what is wanted of it, and what may differ."""

from typing import Any

import pytest

from justitia_operator.decide.compare import covers, differs

ENGINE, SIDECAR = {"name": "engine", "image": "vllm:1"}, {"name": "sidecar", "image": "justitia:1"}


@pytest.mark.parametrize(
    ("observed", "desired"),
    [
        ({"replicas": 1, "paused": False}, {"replicas": 1}),
        ({"spec": {"a": 1, "b": 2}}, {"spec": {"a": 1}}),
        ([ENGINE | {"imagePullPolicy": "Always"}], [ENGINE]),
        ([SIDECAR, {"name": "more"}, ENGINE], [ENGINE, SIDECAR]),
        ([{"port": 80, "protocol": "TCP"}], [{"port": 80}]),
        (["a", "b"], ["a", "b"]),
        ([], []),
    ],
    ids=[
        "a default",
        "a default further inside",
        "a default of an item with a name",
        "items with names in another order, and one more",
        "a default of an item without a name",
        "the same values",
        "nothing",
    ],
)
def test_what_the_cluster_adds_is_no_difference(observed: Any, desired: Any) -> None:
    assert covers(observed, desired)


@pytest.mark.parametrize(
    ("observed", "desired"),
    [
        ({"replicas": 2}, {"replicas": 1}),
        ({}, {"replicas": 1}),
        (None, {}),
        ([ENGINE], [ENGINE, SIDECAR]),
        ([ENGINE | {"image": "theirs"}, SIDECAR], [ENGINE, SIDECAR]),
        ({"engine": ENGINE}, [ENGINE]),
        (None, []),
        (["b", "a"], ["a", "b"]),
        (["a"], ["a", "b"]),
        (["a", "b"], ["a"]),
        ([{"port": 80}, {"port": 81}], [{"port": 80}]),
        ([{"name": "x", "port": 1}, {"name": "x", "port": 2}], [{"name": "x", "port": 1}, {"name": "x", "port": 3}]),
    ],
    ids=[
        "another value",
        "a value that is gone",
        "an object that is gone",
        "an item that is gone",
        "a value of an item",
        "no list",
        "an empty list that is gone",
        "another order of values",
        "a value too few",
        "a value too many",
        "an item too many, which has no name",
        "items of one name",
    ],
)
def test_what_is_wanted_and_not_there_is_a_difference(observed: Any, desired: Any) -> None:
    assert not covers(observed, desired)


def test_an_object_that_does_not_exist_differs() -> None:
    assert differs({"spec": {}}, None)
    assert not differs({"spec": {}}, {"spec": {"a": 1}})
