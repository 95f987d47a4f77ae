"""Models are kept as long as they are wanted, asked for in a fair order, and reported with what is wrong with them."""

from collections.abc import Sequence

import pytest

from justitia_api.status import ErrorSums, ModelStatus
from justitia_sidecar.learning.evidence import PairedErrors
from justitia_sidecar.learning.model_table import LONGEST_PROBLEM, ModelTable, Named
from support.learning_room import trained

A, B, C = ("one", "a" * 64), ("one", "b" * 64), ("other", "a" * 64)
MODEL = trained()


def table(*wanted: Named, loaded: Sequence[Named] = ()) -> ModelTable:
    found = ModelTable()
    found.want(wanted)
    for each in loaded:
        found.loaded(each, MODEL)
    return found


def status(found: ModelTable, named: Named) -> ModelStatus:
    reported = found.status(*named, PairedErrors())
    assert reported is not None
    return reported


def test_models_are_asked_for_in_the_order_of_the_configuration_until_they_are_loaded() -> None:
    found = table(A, B, C)
    assert found.missing() == [A, B, C]
    found.loaded(B, MODEL)
    assert found.missing() == [A, C]


def test_one_that_failed_is_asked_for_after_all_others_also_those_that_come_later() -> None:
    found = table(A, B)
    found.failed(A, "away")
    found.want([A, B, C])
    assert found.missing() == [B, A, C]
    found.failed(B, "away")
    assert found.missing() == [A, C, B]


def test_one_that_was_not_asked_for_keeps_its_place() -> None:
    found = table(A, B)
    found.not_asked_for(A, "the store is away")
    assert found.missing() == [A, B]
    assert status(found, A).problem == "the store is away"


def test_an_applications_models_are_its_own_and_come_in_the_order_that_is_asked_for() -> None:
    found = table(A, B, C, loaded=[A, B])
    assert list(found.loaded_of("one", [B[1], None, A[1]])) == [B[1], A[1]]
    assert found.loaded_of("other", [A[1]]) == {}


def test_a_model_that_nobody_wants_any_more_is_dropped() -> None:
    found = table(A, loaded=[A])
    found.want([B])
    found.want([A])
    assert found.loaded_of("one", [A[1]]) == {}


@pytest.mark.parametrize("late", ["loaded", "failed", "not asked for"])
def test_what_becomes_of_a_model_that_nobody_wants_any_more_changes_nothing(late: str) -> None:
    found = table(A)
    match late:
        case "loaded":
            found.loaded(B, MODEL)
        case "failed":
            found.failed(B, "damaged", unusable=True)
        case _:
            found.not_asked_for(B, "away")
    assert found.missing() == [A]
    found.want([A, B])
    assert status(found, B) == ModelStatus(version=B[1], loaded=False)


def test_a_model_is_reported_with_its_problem_until_it_is_loaded() -> None:
    found = table(A)
    assert status(found, A) == ModelStatus(version=A[1], loaded=False)
    found.failed(A, "damaged", unusable=True)
    assert status(found, A) == ModelStatus(version=A[1], loaded=False, problem="damaged", unusable=True)
    found.loaded(A, MODEL)
    assert status(found, A) == ModelStatus(version=A[1], loaded=True)


def test_a_problem_is_cut() -> None:
    found = table(A, B)
    found.failed(A, "!" * 1000)
    found.not_asked_for(B, "!" * 1000)
    assert {len(status(found, each).problem or "") for each in (A, B)} == {LONGEST_PROBLEM}


def test_a_model_is_reported_with_the_errors_of_its_role() -> None:
    errors = PairedErrors()
    errors.add(1.0, 2.0)
    reported = table(A).status(*A, errors)
    assert reported is not None
    assert reported.since_start == reported.recent == ErrorSums(runs=1, error=1.0, baseline=2.0, squared_difference=1.0)


def test_a_role_without_a_version_is_not_reported() -> None:
    assert table().status("one", None, PairedErrors()) is None
