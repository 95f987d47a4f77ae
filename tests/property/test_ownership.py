"""Whatever others own: what we ask for is never taken for an addition, nothing owned is lost, and taking out ends."""

from copy import deepcopy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from justitia_operator.decide.ownership import additions, disowned
from justitia_operator.world.objects import Json
from support.owners import entry, fields_of, owned_by_us

NAMES = st.sampled_from(["alpha", "beta", "gamma", "delta"])
Path = tuple[str, ...]

values: st.SearchStrategy[Any] = st.recursive(
    st.integers(0, 3),
    lambda inside: (
        st.dictionaries(NAMES, inside, min_size=1, max_size=3)
        | st.dictionaries(
            st.just("containers"),
            st.lists(st.fixed_dictionaries({"name": NAMES, "beta": inside}), max_size=3, unique_by=lambda i: i["name"]),
            min_size=1,
        )
    ),
    max_leaves=8,
)
specs = st.dictionaries(NAMES, values, min_size=1, max_size=3)


def deployment(spec: Json) -> Json:
    metadata = {"name": "justitia-shared", "namespace": "apps", "annotations": {"ours": "1"}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


def nodes(fields: Json, above: Path = ()) -> set[Path]:
    """All fields and items of a tree, with those that hold others."""
    found: set[Path] = set()
    for name, inside in fields.items():
        found |= {(*above, name)} | nodes(inside, (*above, name))
    return found


def owned(managed: list[Json]) -> set[Path]:
    return set().union(*(nodes(each["fieldsV1"]) for each in managed))


def applied(obj: Json, managed: list[Json]) -> Json:
    """After our apply, as the API server does it: ours is what is asked for."""
    rest = [each for each in managed if each["operation"] != "Apply"]
    return owned_by_us(obj, *rest)


@given(ours=specs, theirs=st.lists(specs, max_size=3))
def test_what_is_taken_out_is_owned_and_not_asked_for_and_it_ends(ours: Json, theirs: list[Json]) -> None:
    desired = deployment(ours)
    wanted = nodes(fields_of({"spec": ours}))
    others = [entry(f"editor-{number}", fields_of({"spec": spec})) for number, spec in enumerate(theirs)]
    observed = owned_by_us(desired, *others)
    before = deepcopy(observed)
    found = additions(desired, observed)
    managed = disowned(desired, observed)
    assert observed == before, "what was observed is never changed"
    assert (managed is None) == (not found)
    if managed is None:
        return
    assert owned(managed) == owned(observed["metadata"]["managedFields"]), "nothing that anybody owns is forgotten"
    (mine,) = [each for each in managed if each["operation"] == "Apply"]
    assert wanted <= nodes(mine["fieldsV1"]), "what is ours stays ours"
    after = applied(desired, managed)
    assert additions(desired, after) == ()
    assert disowned(desired, after) is None


@given(ours=specs)
def test_who_owns_what_we_ask_for_added_nothing(ours: Json) -> None:
    desired = deployment(ours)
    assert additions(desired, owned_by_us(desired, entry("argocd", fields_of({"spec": ours}), "Apply"))) == ()


@given(ours=specs, theirs=specs)
def test_what_others_may_add_is_never_an_addition(ours: Json, theirs: Json) -> None:
    metadata = {"annotations": theirs, "labels": theirs, "finalizers": theirs}
    fields = fields_of({"metadata": metadata, "status": theirs})
    assert additions(deployment(ours), owned_by_us(deployment(ours), entry("anybody", fields))) == ()
