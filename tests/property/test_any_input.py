"""Whatever somebody writes into a place that the operator reads, it decides about every resource, and what it wants to
write is what the resources' own definitions take.

The places are those where the API server lets anything pass (what a pod reports, a termination message, values of
ConfigMaps, Secrets, annotations and labels), and spec and status of our own kinds, which may have been stored under
another definition.
"""

import json
from collections.abc import Iterable
from copy import deepcopy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from justitia_api.application import LLMApplicationStatus
from justitia_api.pool import ServingPoolStatus
from justitia_api.tenant import TenantStatus
from justitia_operator.decide.affected import affected
from justitia_operator.decide.programming import pods_behind
from justitia_operator.decide.reconcile import reconcile
from justitia_operator.runtime.intake import readable
from justitia_operator.world.objects import OWN_KINDS, Kind, Plan
from justitia_operator.world.snapshot import Snapshot
from support.resources import NOW, put
from support.served_world import VERSION, heard, report, served, trained

STATUSES = {Kind.TENANT: TenantStatus, Kind.SERVING_POOL: ServingPoolStatus, Kind.LLM_APPLICATION: LLMApplicationStatus}

numbers = st.sampled_from([0, -1, 1, 10**6, 2**31, 2**63, 10**30, 0.5, -0.5, 1e6, 1e15, 1e308, -1e308, 1e-300])
extremes = ["", "a" * 64, "a" * 5000, "\x00", "1e999", "NaN", "[" * 4000]
texts = st.one_of(st.text(max_size=20), st.sampled_from(extremes))
leaves = st.one_of(st.none(), st.booleans(), numbers, texts)
anything = st.recursive(
    leaves, lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3))
)


def places(found: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every path inside some JSON."""
    inside: Iterable[tuple[Any, Any]] = ()
    if isinstance(found, dict):
        inside = found.items()
    elif isinstance(found, list):
        inside = enumerate(found)
    return [path, *(each for name, part in inside for each in places(part, (*path, name)))]


def spoilt(found: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    changed = deepcopy(found)
    inside = changed
    for part in path[:-1]:
        inside = inside[part]
    inside[path[-1]] = value
    return changed


def check(snapshot: Snapshot) -> None:
    """Decides about everything, and holds what is to be written against the definitions."""
    pods_behind(snapshot)
    for ref in list(snapshot.objects):
        affected(snapshot, ref)
    for ref in [ref for ref in snapshot.objects if ref.kind in OWN_KINDS]:
        plan = reconcile(snapshot, ref, NOW)
        assert isinstance(plan, Plan)
        for patch in plan.statuses:
            STATUSES[patch.ref.kind].model_validate_json(json.dumps(patch.status))


@given(st.data())
def test_a_report_of_a_pod(data: st.DataObject) -> None:
    found = report()
    path = data.draw(st.sampled_from(places(found)))
    check(heard(served(), json.dumps(spoilt(found, path, data.draw(anything))).encode()))


@given(st.binary(max_size=200))
def test_bytes_of_a_pod(told_by_pod: bytes) -> None:
    check(heard(served(), told_by_pod))


@given(st.data())
def test_a_termination_message(data: st.DataObject) -> None:
    found = {"version": VERSION, "kind": "linear", "samples": 140, "error": "none"}
    whole = spoilt(found, data.draw(st.sampled_from(places(found))), data.draw(anything))
    check(trained(served(), data.draw(st.one_of(texts, st.just(json.dumps(whole))))))


@given(st.data())
def test_what_is_kept_in_config_maps_and_secrets(data: st.DataObject) -> None:
    kept = [ref for ref in served().objects if ref.kind in {Kind.CONFIG_MAP, Kind.SECRET}]
    obj = served().objects[data.draw(st.sampled_from(kept))]
    name = data.draw(st.sampled_from(sorted(obj["data"])))
    text = data.draw(texts)
    if name == "pool.json" and data.draw(st.booleans()):
        found = json.loads(obj["data"][name])
        text = json.dumps(spoilt(found, data.draw(st.sampled_from(places(found))), data.draw(anything)))
    check(put(served(), obj | {"data": obj["data"] | {name: text}}))


@given(st.data())
def test_annotations_and_labels(data: st.DataObject) -> None:
    obj = served().objects[data.draw(st.sampled_from(sorted(served().objects)))]
    part = data.draw(st.sampled_from(["annotations", "labels"]))
    before = obj["metadata"].get(part) or {}
    name = data.draw(st.sampled_from([*before, "justitia.dev/pool", "justitia.dev/application"]))
    check(put(served(), obj | {"metadata": obj["metadata"] | {part: before | {name: data.draw(texts)}}}))


@given(st.data())
def test_spec_and_status_of_our_kinds(data: st.DataObject) -> None:
    obj = served().objects[data.draw(st.sampled_from([ref for ref in served().objects if ref.kind in OWN_KINDS]))]
    part = data.draw(st.sampled_from(["spec", "status"]))
    found = obj.get(part) or {}
    path = data.draw(st.sampled_from(places(found)))
    check(put(served(), readable(obj | {part: spoilt(found, path, data.draw(anything))})))
