"""Whose an object is that exists under the name of one of ours."""

from dataclasses import replace

import pytest

from justitia_api.conditions import Reason
from justitia_operator.decide.adoption import Adoption, adoption_of, foreign_message
from justitia_operator.decide.reconcile import reconcile
from justitia_operator.world.objects import APPLIED_HASH_ANNOTATION, Json, Kind, Ref, ref_of
from justitia_operator.world.snapshot import Rejection
from support.resources import NOW, applied, child, condition, settled, small_world, without

WANTED = child(settled(small_world()), Kind.SECRET)
LABELS = WANTED["metadata"]["labels"]


def owner(kind: str = "ServingPool", name: str = "shared", uid: str = "uid-ServingPool-shared") -> list[Json]:
    return [{"kind": kind, "name": name, "uid": uid, "controller": True}]


@pytest.mark.parametrize(
    ("metadata", "adoption"),
    [
        ({"ownerReferences": owner()}, Adoption.OURS),
        ({"ownerReferences": owner(), "deletionTimestamp": "2026-01-01T00:00:00Z"}, Adoption.OURS),
        ({"labels": LABELS}, Adoption.OURS),
        ({}, Adoption.FOREIGN),
        ({"labels": {"app.kubernetes.io/managed-by": "justitia-operator"}}, Adoption.FOREIGN),
        ({"labels": LABELS, "ownerReferences": owner(name="other", uid="other")}, Adoption.FOREIGN),
        ({"labels": LABELS, "ownerReferences": owner(kind="Deployment", uid="other")}, Adoption.FOREIGN),
        ({"ownerReferences": owner(uid="earlier")}, Adoption.GOING),
        ({"deletionTimestamp": "2026-01-01T00:00:00Z"}, Adoption.GOING),
    ],
    ids=[
        "its pool's",
        "its pool's, and going",
        "nobody's, with all our labels",
        "nobody's",
        "the installation's own, as the pepper is",
        "another pool's",
        "somebody else's",
        "an earlier pool's of the same name",
        "somebody's that is going",
    ],
)
def test_an_object_under_the_name_of_ours(metadata: Json, adoption: Adoption) -> None:
    found = {"kind": "Secret", "metadata": {"name": "justitia-shared", "namespace": "apps", **metadata}}
    assert adoption_of(found, WANTED) is adoption


def test_the_message_names_the_object_and_what_to_do() -> None:
    message = foreign_message(WANTED)
    assert "Secret apps/justitia-shared exists and does not belong to ServingPool shared" in message
    assert "rename ServingPool shared, or delete that object" in message


def test_a_configuration_that_cannot_be_written_is_asked_for_a_few_times_and_then_left() -> None:
    world, config_map = settled(small_world()), Ref(Kind.CONFIG_MAP, "apps", "justitia-shared")
    world = without(world, config_map)
    for _ in range(4):
        plan = reconcile(world, Ref(Kind.SERVING_POOL, "apps", "shared"), NOW)
        for wanted in [obj for obj in plan.applies if ref_of(obj) == config_map]:
            hash_ = wanted["metadata"]["annotations"][APPLIED_HASH_ANNOTATION]
            refused = Rejection(hash_, "it is not ours", reason=Reason.OBJECT_NOT_OURS)
            world = replace(world, rejections={config_map: refused})
        world = without(applied(world, plan), config_map)
    assert not plan
    assert condition(world, Kind.SERVING_POOL, "shared", "Accepted")[:2] == ("False", "ObjectNotOurs")
