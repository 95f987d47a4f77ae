"""Which namespaces are served as rights come and go."""

from collections.abc import Iterable
from typing import cast

import pytest

from justitia_operator.runtime.kube import Kube, Rejected, Unavailable
from justitia_operator.runtime.scope import LOOK_SECONDS, find_namespaces, until_changed
from justitia_operator.world.objects import Kind
from support.clocks import ManualClock

WANTED = ("a", "b")


class FickleRights:
    """Stands in for the API server: each look at a namespace finds the next of these rights, and the last from then on;
    None is no answer.
    """

    def __init__(self, *rights: Iterable[str] | None) -> None:
        self._rights = [None if each is None else set(each) for each in rights]

    async def may_list(self, kind: Kind, namespace: str) -> bool:
        now = self._rights[0]
        if (namespace == WANTED[-1] or now is None) and len(self._rights) > 1:
            self._rights.pop(0)
        if now is None:
            raise Unavailable("no answer")
        return namespace in now


def kube(*rights: Iterable[str] | None) -> Kube:
    return cast("Kube", FickleRights(*rights))


async def test_without_a_list_the_whole_cluster_is_served() -> None:
    assert await find_namespaces(kube(()), ()) is None


async def test_those_are_served_that_may_be_read() -> None:
    assert await find_namespaces(kube("ab"), WANTED) == ("a", "b")
    assert await find_namespaces(kube("b"), WANTED) == ("b",)


async def test_no_right_at_all_is_a_mistake() -> None:
    with pytest.raises(Rejected, match="namespaces a, b: check that the chart's Role is in them"):
        await find_namespaces(kube(()), WANTED)


@pytest.mark.parametrize(
    ("served", "looks", "seconds"),
    [
        pytest.param("a", ("a", "a", "ab"), 3 * LOOK_SECONDS, id="one comes"),
        pytest.param("ab", ("ab", "b"), 2 * LOOK_SECONDS, id="one goes"),
        pytest.param("ab", (None, None, "ab", "b"), 4 * LOOK_SECONDS, id="the API server is away meanwhile"),
    ],
)
async def test_a_change_is_seen_at_the_next_look(served: str, looks: tuple[str | None, ...], seconds: float) -> None:
    clock = ManualClock()
    await until_changed(kube(*looks), WANTED, tuple(served), clock)
    assert clock.seconds() == seconds
