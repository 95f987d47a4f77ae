"""What others added to our objects is told from what they may add, from defaults, and from what is ours."""

import pytest

from justitia_operator.decide.compare import needs_apply
from justitia_operator.decide.ownership import additions, disowned, is_guarded, removed_message
from justitia_operator.world.objects import Json, Kind, Ref
from support.owners import entry, fields_of, owned_by_us, set_by
from support.resources import application, child, settled, small_world

TEMPLATE = ("f:spec", "f:template", "f:spec")
ENGINE = (*TEMPLATE, "f:containers", 'k:{"name":"engine"}')
VARIABLE = (*ENGINE, "f:env", 'k:{"name":"X"}')


def made(kind: Kind) -> Json:
    """An object of the pool, as we want it."""
    found = child(settled(small_world()), kind)
    return found | {"metadata": {key: value for key, value in found["metadata"].items() if key != "managedFields"}}


ADDED: dict[str, tuple[Kind, tuple[str, ...], str]] = {
    "a variable": (Kind.DEPLOYMENT, VARIABLE, "spec.template.spec.containers[name=engine].env[name=X]"),
    "a container": (
        Kind.DEPLOYMENT,
        (*TEMPLATE, "f:containers", 'k:{"name":"miner"}'),
        "spec.template.spec.containers[name=miner]",
    ),
    "an init container": (
        Kind.DEPLOYMENT,
        (*TEMPLATE, "f:initContainers", 'k:{"name":"first"}'),
        "spec.template.spec.initContainers[name=first]",
    ),
    "a command": (Kind.DEPLOYMENT, (*ENGINE, "f:lifecycle", "f:postStart"), "lifecycle.postStart"),
    "variables of a ConfigMap": (Kind.DEPLOYMENT, (*ENGINE, "f:envFrom"), "containers[name=engine].envFrom"),
    "a volume": (
        Kind.DEPLOYMENT,
        (*TEMPLATE, "f:volumes", 'k:{"name":"host"}'),
        "spec.template.spec.volumes[name=host]",
    ),
    "the node's network": (Kind.DEPLOYMENT, (*TEMPLATE, "f:hostNetwork"), "spec.template.spec.hostNetwork"),
    "a privilege": (
        Kind.DEPLOYMENT,
        (*ENGINE, "f:securityContext", "f:privileged"),
        "containers[name=engine].securityContext.privileged",
    ),
    "a halt": (Kind.DEPLOYMENT, ("f:spec", "f:paused"), "spec.paused"),
    "a way out": (Kind.NETWORK_POLICY, ("f:spec", "f:egress"), "spec.egress"),
    "a port": (
        Kind.SERVICE,
        ("f:spec", "f:ports", 'k:{"port":81,"protocol":"TCP"}'),
        "spec.ports[port=81,protocol=TCP]",
    ),
    "an address outside": (Kind.SERVICE, ("f:spec", "f:externalIPs"), "spec.externalIPs"),
    "a file": (Kind.CONFIG_MAP, ("f:data", "f:more.json"), "data.more.json"),
    "a secret file": (Kind.SECRET, ("f:data", "f:token2"), "data.token2"),
    "a halt to changes": (Kind.SECRET, ("f:immutable",), "immutable"),
    "another owner": (
        Kind.DEPLOYMENT,
        ("f:metadata", "f:ownerReferences", 'k:{"uid":"theirs"}'),
        "metadata.ownerReferences[uid=theirs]",
    ),
}


@pytest.mark.parametrize(("kind", "path", "told"), ADDED.values(), ids=ADDED)
@pytest.mark.parametrize("manager", ["kubectl-set", "justitia-operator"])
def test_what_was_added_is_found_and_named(kind: Kind, path: tuple[str, ...], told: str, manager: str) -> None:
    desired = made(kind)
    observed = owned_by_us(desired, set_by(manager, *path))
    (found,) = additions(desired, observed)
    assert found.path.endswith(told)
    assert found.manager == manager
    assert needs_apply(desired, observed)
    assert f"{kind} apps/" in removed_message(desired, (found,))


@pytest.mark.parametrize(("kind", "field"), [(Kind.NETWORK_POLICY, "ingress"), (Kind.SERVICE, "selector")])
def test_what_is_taken_as_a_whole_is_theirs_once_they_changed_a_part_of_it(kind: Kind, field: str) -> None:
    desired = made(kind)
    observed = owned_by_us(desired, set_by("kubectl-edit", "f:spec", f"f:{field}"))
    del observed["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"][f"f:{field}"]
    (found,) = additions(desired, observed)
    assert found.path == f"spec.{field}"


ALLOWED: dict[str, tuple[Kind, Json]] = {
    "an annotation": (Kind.SERVICE, set_by("kubectl-annotate", "f:metadata", "f:annotations", "f:lb")),
    "a label": (Kind.CONFIG_MAP, set_by("kubectl-label", "f:metadata", "f:labels", "f:cost-center")),
    "a finalizer": (Kind.SERVICE, set_by("cloud", "f:metadata", "f:finalizers", 'v:"lb"')),
    "a restart": (
        Kind.DEPLOYMENT,
        set_by("kubectl-rollout", "f:spec", "f:template", "f:metadata", "f:annotations", "f:restartedAt"),
    ),
    "a status": (
        Kind.DEPLOYMENT,
        entry("kube-controller-manager", {"f:status": {"f:replicas": {}}}, subresource="status"),
    ),
    "a scale that was put right": (Kind.DEPLOYMENT, set_by("kubectl", "f:spec", "f:replicas")),
    "a registry's Secret": (Kind.SERVICE_ACCOUNT, set_by("openshift-controller-manager", "f:imagePullSecrets")),
    "what is ours as well": (Kind.DEPLOYMENT, set_by("argocd", "f:spec", "f:strategy", "f:type")),
}


@pytest.mark.parametrize(("kind", "theirs"), ALLOWED.values(), ids=ALLOWED)
def test_what_others_may_add_stays(kind: Kind, theirs: Json) -> None:
    desired = made(kind)
    observed = owned_by_us(desired, theirs)
    assert additions(desired, observed) == ()
    assert disowned(desired, observed) is None
    assert not needs_apply(desired, observed)


def test_defaults_belong_to_nobody_and_are_no_additions() -> None:
    desired = made(Kind.DEPLOYMENT)
    observed = owned_by_us(desired)
    observed["spec"] = observed["spec"] | {"revisionHistoryLimit": 10}
    assert not needs_apply(desired, observed)


def test_what_the_api_server_was_made_to_forget_is_applied_anew() -> None:
    desired = made(Kind.DEPLOYMENT)
    assert needs_apply(desired, desired)
    assert disowned(desired, desired) is None


def test_kinds_that_no_pool_consists_of_may_have_what_others_add() -> None:
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train", "namespace": "apps"}, "spec": {}}
    assert not needs_apply(job, owned_by_us(job, set_by("kueue", "f:spec", "f:suspend")))


def test_what_was_added_becomes_ours_and_the_rest_stays_its_owners() -> None:
    desired = made(Kind.DEPLOYMENT)
    note = ("f:metadata", "f:annotations", "f:note")
    theirs = set_by("kubectl-edit", *VARIABLE)
    theirs["fieldsV1"] |= fields_of({"metadata": {"annotations": {"note": "kept"}}})
    observed = owned_by_us(desired, theirs, set_by("kubectl-set", *ENGINE, "f:envFrom"))
    changed = disowned(desired, observed)
    assert changed is not None
    ours, other = changed
    assert ours["fieldsV1"]["f:spec"]["f:template"]["f:spec"]["f:containers"][ENGINE[-1]]["f:env"][VARIABLE[-1]]
    assert other == set_by("kubectl-edit", *note)
    after = observed | {"metadata": observed["metadata"] | {"managedFields": changed}}
    assert {each.manager for each in additions(desired, after)} == {"justitia-operator"}, "an apply takes it away"
    assert disowned(desired, after) is None


def test_messages_name_three_fields_and_count_the_rest() -> None:
    desired = made(Kind.CONFIG_MAP)
    theirs = entry("kubectl", {"f:data": {f"f:{name}": {} for name in "abcde"}})
    message = removed_message(desired, additions(desired, owned_by_us(desired, theirs)))
    assert "data.c (by kubectl), and 2 more" in message


def test_a_settled_pool_has_nothing_added() -> None:
    snapshot = settled(small_world())
    objects = [obj for ref, obj in snapshot.objects.items() if isinstance(ref, Ref) and ref.name == "justitia-shared"]
    assert [additions(made(Kind(obj["kind"])), obj) for obj in objects] == [()] * len(objects)


def test_a_message_that_names_all_counts_no_more() -> None:
    desired = made(Kind.CONFIG_MAP)
    for names in ("a", "abc"):
        theirs = entry("kubectl", {"f:data": {f"f:{name}": {} for name in names}})
        message = removed_message(desired, additions(desired, owned_by_us(desired, theirs)))
        assert f"data.{names[-1]} (by kubectl) was added" in message


def test_who_gave_no_name_has_none() -> None:
    desired = made(Kind.CONFIG_MAP)
    theirs = set_by("kubectl", "f:data", "f:more")
    del theirs["manager"]
    assert [each.manager for each in additions(desired, owned_by_us(desired, theirs))] == [""]


@pytest.mark.parametrize("kind", [Kind.DEPLOYMENT, Kind.SECRET, Kind.HORIZONTAL_POD_AUTOSCALER])
def test_the_owners_of_what_pools_consist_of_are_kept(kind: Kind) -> None:
    ours = made(Kind.DEPLOYMENT) | {"kind": kind, "apiVersion": kind.api_version}
    assert is_guarded(ours)
    assert not is_guarded(ours | {"metadata": {"name": "theirs", "namespace": "apps"}})
    other = {"labels": {"app.kubernetes.io/managed-by": "helm"}, "name": "theirs", "namespace": "apps"}
    assert not is_guarded(ours | {"metadata": other})


def test_the_owners_of_what_users_write_are_not_kept() -> None:
    written = application()
    assert not is_guarded(
        written | {"metadata": written["metadata"] | {"labels": made(Kind.SERVICE)["metadata"]["labels"]}}
    )


def test_a_status_that_was_applied_under_our_name_is_not_our_apply() -> None:
    desired = made(Kind.DEPLOYMENT)
    status = entry("justitia-operator", {"f:status": {"f:replicas": {}}}, "Apply", subresource="status")
    observed = desired | {"metadata": desired["metadata"] | {"managedFields": [status]}}
    assert needs_apply(desired, observed)
    assert disowned(desired, observed) is None


def listed(*values: object) -> Json:
    metadata = {"name": "justitia-shared", "namespace": "apps"}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": {"list": list(values)}}


@pytest.mark.parametrize(
    ("wanted", "owned", "added"),
    [
        (("a", "b"), ('v:"a"', 'v:"b"'), []),
        (("a", "b"), ('v:"b"', 'v:"c"'), ['spec.list["c"]']),
        ((1, 2), ("v:2", "v:3"), ["spec.list[3]"]),
        (("a", "b"), ("i:0", "i:1"), []),
        (("a", "b"), ("i:1", "i:2"), ["spec.list[2]"]),
        (({"port": 80},), ('k:{"port":80,"protocol":"TCP"}',), []),
        (({"port": 80},), ('k:{"port":80,"protocol":"UDP"}',), ["spec.list[port=80,protocol=UDP]"]),
        (({"port": 80, "protocol": "UDP"},), ('k:{"port":80,"protocol":"TCP"}',), ["spec.list[port=80,protocol=TCP]"]),
        (("a",), ("k:not json",), ["spec.list[not json]"]),
        (("a",), ("v:not json",), ["spec.list[not json]"]),
        (("a",), ("i:no number",), ["spec.list[no number]"]),
    ],
)
def test_items_of_lists_are_told_by_value_by_place_and_by_keys(
    wanted: tuple[object, ...], owned: tuple[str, ...], added: list[str]
) -> None:
    desired = listed(*wanted)
    theirs = entry("kubectl", {"f:spec": {"f:list": {name: {".": {}} if name[0] == "k" else {} for name in owned}}})
    assert [each.path for each in additions(desired, owned_by_us(desired, theirs))] == added


def test_what_is_taken_as_a_whole_becomes_ours_as_a_whole() -> None:
    desired = made(Kind.SERVICE)
    observed = owned_by_us(desired, set_by("kubectl-edit", "f:spec", "f:selector"))
    del observed["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]["f:selector"]
    changed = disowned(desired, observed)
    assert changed is not None
    (ours,) = changed
    assert ours["manager"] == "justitia-operator"
    assert ours["fieldsV1"]["f:spec"]["f:selector"] == {}


def test_who_added_a_field_keeps_the_others_beside_it() -> None:
    desired = made(Kind.DEPLOYMENT)
    theirs = entry("kubectl", {"f:spec": {"f:replicas": {}, "f:paused": {}}})
    changed = disowned(desired, owned_by_us(desired, theirs))
    assert changed is not None
    _, left = changed
    assert left == set_by("kubectl", "f:spec", "f:replicas")
