"""Whoever's plan a change alters is named by `affected`, before the change or after it; and found without a look at
everybody else.
"""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from justitia_operator.decide.affected import affected
from justitia_operator.decide.reconcile import reconcile
from justitia_operator.world.catalog import Catalog
from justitia_operator.world.objects import OWN_KINDS, Json, Kind, Plan, Ref, ref_of
from justitia_operator.world.snapshot import Snapshot
from support.examples import examples
from support.resources import (
    INSTALLATION,
    NOW,
    application,
    key,
    namespace,
    pool,
    put,
    settled,
    small_world,
    tenant,
    with_ready_engines,
    without,
    world,
)

TENANTS, POOLS, NAMES, SPACES = ("alice", "bob"), ("shared", "other"), ("chat", "shared", "agent"), ("apps", "more")


def pod(of: str, reason: str) -> Json:
    labels = {"justitia.dev/pool": of}
    status = {"containerStatuses": [{"name": "engine", "state": {"waiting": {"reason": reason}}}]}
    metadata = {"name": f"pod-{of}", "namespace": "apps", "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": status}


OBJECTS: st.SearchStrategy[Json] = st.one_of(
    st.builds(
        lambda name, weight, spaces: tenant(name, weight=weight, namespaces=spaces),
        st.sampled_from(TENANTS),
        st.sampled_from(["1", "2"]),
        st.sampled_from([{"names": ["apps"]}, {"names": ["more"]}, {"selector": {"matchLabels": {"team": "a"}}}]),
    ),
    st.builds(
        lambda name, token: key(name, token=token),
        st.sampled_from(TENANTS),
        st.sampled_from([None, "short", "one-key-for-both-of-them"]),
    ),
    st.builds(
        lambda name, replicas, opened: pool(name, replicas=replicas, **opened),
        st.sampled_from(POOLS),
        st.integers(1, 2),
        st.sampled_from(
            [{}]
            + [
                {"allowedNamespaces": each}
                for each in ({"names": ["more"]}, {"selector": {"matchLabels": {"team": "a"}}})
            ]
        ),
    ),
    st.builds(
        lambda name, whose, where, space: application(name, whose, space, **where),
        st.sampled_from(NAMES),
        st.sampled_from(TENANTS),
        st.sampled_from(
            [{"poolRef": {"name": name} | where} for name in POOLS for where in ({}, {"namespace": "apps"})]
            + [{"pool": {"model": {"uri": "hf://a/b"}}}]
        ),
        st.sampled_from(SPACES),
    ),
    st.builds(lambda name, team: namespace(name, team=team), st.sampled_from(SPACES), st.sampled_from("ab")),
    st.builds(pod, st.sampled_from(POOLS), st.sampled_from(["ImagePullBackOff", "ContainerCreating"])),
)


def plans(snapshot: Snapshot) -> dict[Ref, Plan]:
    return {ref: reconcile(snapshot, ref, NOW) for ref in snapshot.objects if ref.kind in OWN_KINDS}


def missed(
    before: Snapshot, after: Snapshot, changed: Ref, named: Callable[[Snapshot, Ref], frozenset[Ref]] = affected
) -> set[Ref]:
    """Whose plan is another one after the change, and who was not named."""
    old, new = plans(before), plans(after)
    return {ref for ref in old.keys() | new.keys() if old.get(ref) != new.get(ref)} - (
        named(before, changed) | named(after, changed)
    )


@given(objects=st.lists(OBJECTS, max_size=12), change=OBJECTS)
@examples(300)
def test_a_change_names_all_whose_plan_it_alters(objects: list[Json], change: Json) -> None:
    before = settled(Snapshot(Catalog(objects), INSTALLATION))
    if before.get(ref_of(change)) is not None and ref_of(change).kind in OWN_KINDS:
        change = before.objects[ref_of(change)] | {"spec": change["spec"]}
    after = put(before, change)
    assert not missed(before, after, ref_of(change))
    assert not missed(after, without(after, ref_of(change)), ref_of(change))


def test_a_change_that_is_not_named_is_seen() -> None:
    """Negative control."""
    before = settled(small_world())
    after = put(before, tenant(weight="7"))
    assert missed(before, after, Ref(Kind.TENANT, "", "alice"), lambda *_: frozenset())


class CountingCatalog(Catalog):
    looks = 0

    def __getitem__(self, ref: Ref) -> Json:
        self.looks += 1
        return super().__getitem__(ref)

    def read(self, ref: Ref, reader: Callable[[Json], Any]) -> Any:
        self.looks += 1
        return super().read(ref, reader)


def looks(others: int, ref: Ref) -> int:
    """At how many objects reconciling looks, and telling who is affected, beside so many pools with their users."""
    more = [
        obj
        for i in range(others)
        for obj in (
            pool(f"pool{i}"),
            tenant(f"tenant{i}"),
            key(f"tenant{i}"),
            application(f"app{i}", f"tenant{i}", poolRef={"name": f"pool{i}"}),
        )
    ]
    running = with_ready_engines(settled(world(tenant(), key(), pool(), application(), *more)))
    counting = CountingCatalog(running.objects.values())
    snapshot = Snapshot(counting, INSTALLATION)
    reconcile(snapshot, Ref(Kind.SERVING_POOL, "apps", "shared"), NOW)  # the table of keys is made once
    counting.looks = 0
    reconcile(snapshot, ref, NOW)
    affected(snapshot, ref)
    return counting.looks


@pytest.mark.parametrize(
    "ref",
    [
        Ref(Kind.SERVING_POOL, "apps", "shared"),
        Ref(Kind.LLM_APPLICATION, "apps", "chat"),
        Ref(Kind.TENANT, "", "alice"),
    ],
)
def test_what_is_looked_at_does_not_grow_with_what_does_not_concern_it(ref: Ref) -> None:
    assert 0 < looks(2, ref) == looks(30, ref)
