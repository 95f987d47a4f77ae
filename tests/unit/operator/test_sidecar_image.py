"""A new sidecar image restarts no engine: it comes with the next change of one, or at once where that is wished."""

from dataclasses import replace
from typing import Literal

from justitia_operator.world.objects import Json, Kind
from justitia_operator.world.snapshot import Snapshot
from support.resources import child, pool, put, settled, small_world

NEXT = "justitia:next"


def upgraded(before: Snapshot, rollout: Literal["WithEngines", "AtOnce"] = "WithEngines") -> Snapshot:
    installation = replace(before.installation, sidecar_image=NEXT, sidecar_rollout=rollout)
    return settled(replace(before, installation=installation))


def images(snapshot: Snapshot) -> set[str]:
    """Images of the containers that are ours."""
    return {container["image"] for container in pod(snapshot)["initContainers"]}


def pod(snapshot: Snapshot) -> Json:
    found: Json = child(snapshot, Kind.DEPLOYMENT)["spec"]["template"]["spec"]
    return found


def test_an_upgrade_leaves_the_deployment_as_it_is() -> None:
    before = settled(small_world())
    assert child(upgraded(before), Kind.DEPLOYMENT) == child(before, Kind.DEPLOYMENT)


def test_the_number_of_engines_is_no_change_of_an_engine() -> None:
    after = settled(put(upgraded(settled(small_world())), pool(replicas=3)))
    assert child(after, Kind.DEPLOYMENT)["spec"]["replicas"] == 3
    assert images(after) == {"justitia:test"}


def test_a_changed_engine_comes_with_the_new_image_and_stays_with_it() -> None:
    changed = {"scheduling": {"enforcement": "Sidecar"}}
    after = settled(put(upgraded(settled(small_world())), pool(**changed)))
    assert images(after) == {NEXT}
    assert images(settled(put(after, pool(**changed, replicas=2)))) == {NEXT}


def test_at_once_is_at_once() -> None:
    assert images(upgraded(settled(small_world()), "AtOnce")) == {NEXT}


def test_an_image_that_somebody_else_wrote_is_not_kept() -> None:
    before = settled(small_world())
    deployment = child(before, Kind.DEPLOYMENT)
    template = deployment["spec"]["template"]
    scheduler = pod(before)["initContainers"][-1] | {"image": "theirs:1"}
    theirs = template | {"spec": template["spec"] | {"initContainers": [scheduler]}}
    spoilt = put(before, deployment | {"spec": deployment["spec"] | {"template": theirs}})
    assert images(settled(spoilt)) == {"justitia:test"}


def test_an_image_that_somebody_else_wrote_into_another_container_brings_no_new_one() -> None:
    """It is put right, and the engines stay with the sidecar that they have."""
    before = upgraded(settled(small_world()))
    deployment = child(before, Kind.DEPLOYMENT)
    template = deployment["spec"]["template"]
    first, *others = pod(before)["initContainers"]
    assert first["name"] != "sidecar"
    theirs = template | {"spec": template["spec"] | {"initContainers": [first | {"image": "theirs:1"}, *others]}}
    spoilt = put(before, deployment | {"spec": deployment["spec"] | {"template": theirs}})
    assert images(settled(spoilt)) == {"justitia:test"}
