"""Gamma in a pool's status: of all pods, with one digit, and steady."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from justitia_operator.decide.reconcile import reconcile
from justitia_operator.slo.gamma import gamma_range
from justitia_operator.world.objects import Json, Kind, Ref
from justitia_operator.world.reports import Report
from justitia_operator.world.sidecars import Reporting, SidecarPod
from support.objectives import boosted
from support.resources import NOW, pod, put, settled, small_world

POOL = Ref(Kind.SERVING_POOL, "apps", "shared")


def telling(*gammas: float | None) -> list[Reporting]:
    reports: list[Reporting] = []
    for number, gamma in enumerate(gammas):
        each = SidecarPod(Ref(Kind.POD, "apps", f"{number}"), "one", "10.0.0.7")
        boost = None if gamma is None else boosted(gamma)
        reports.append((each, Report("one", 1, 1, boost=boost)))
    return reports


def after(gamma: float, lowest: object = None) -> str:
    obj: Json = {} if lowest is None else {"status": {"gamma": {"lowest": lowest, "highest": "1"}}}
    found = gamma_range(telling(gamma), obj)
    assert found is not None
    return str(found["lowest"])


def test_it_is_the_lowest_and_the_highest_of_those_that_tell() -> None:
    assert gamma_range(telling(0.031, None, 0.0024, 0.5), {}) == {"lowest": "0.002", "highest": "0.5"}
    assert gamma_range(telling(None), {}) is None
    assert gamma_range([], {"status": {"gamma": {"lowest": "1", "highest": "2"}}}) is None


@pytest.mark.parametrize(
    ("gamma", "text"), [(0.000012, "0.00001"), (0.0234, "0.02"), (0.96, "1"), (1.4, "1"), (9.7, "10"), (123.0, "100")]
)
def test_it_is_a_plain_decimal_number_of_one_digit(gamma: float, text: str) -> None:
    assert after(gamma) == text


@given(st.lists(st.floats(0.0233, 0.0267), min_size=2))
def test_what_moves_about_an_edge_is_written_once(gammas: list[float]) -> None:
    texts = [after(gammas[0])]
    for gamma in gammas[1:]:
        texts.append(after(gamma, texts[-1]))
    assert len(set(texts)) == 1


def test_without_slack_it_would_be_written_at_each_move() -> None:
    """The negative control of the one above."""
    assert [after(gamma) for gamma in (0.024, 0.026)] == ["0.02", "0.03"]


def test_what_moves_on_is_written() -> None:
    assert [after(gamma, "0.02") for gamma in (0.0287, 0.03, 0.0165, 0.012)] == ["0.02", "0.03", "0.02", "0.01"]


@pytest.mark.parametrize("spoilt", [3, "much", "", "nan"])
def test_what_somebody_spoilt_is_written_anew(spoilt: object) -> None:
    assert after(0.02, spoilt) == "0.02"


def test_it_is_in_the_pools_status_as_long_as_a_pod_tells() -> None:
    snapshot = put(settled(small_world()), pod())
    report = Report("containerd://one", 1, 1, boost=boosted(0.02))
    reports = {Ref(Kind.POD, "apps", "justitia-shared-1"): report}
    (patch,) = reconcile(replace(snapshot, reports=reports), POOL, NOW).statuses
    assert patch.status["gamma"] == {"lowest": "0.02", "highest": "0.02"}
    assert "gamma" not in snapshot.objects[POOL]["status"]
