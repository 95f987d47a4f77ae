"""Which applications are learned from, whose turn it is, and which data is orphaned."""

import pytest

from justitia_sidecar.learning.application_table import RECOUNT_SECONDS, ApplicationTable, LearnedApplication
from support.learning_room import learning_pool_of
from support.sidecar_client import pool


def table(*names: str) -> ApplicationTable:
    found = ApplicationTable()
    found.configure(learning_pool_of(*names))
    return found


def turns(found: ApplicationTable) -> list[str]:
    return [name for name, _ in found.in_turn()]


def test_an_application_is_kept_with_its_evidence_while_it_is_learned_from() -> None:
    found = table("a", "b")
    kept = found.learned("a")
    assert kept is not None
    found.configure(learning_pool_of("a", "c"))
    assert found.learned("a") is kept
    assert found.learned("b") is None
    found.configure(pool())
    found.configure(learning_pool_of("a"))
    assert found.learned("a") is not kept


def test_its_evidence_is_configured() -> None:
    found = ApplicationTable()
    found.configure(learning_pool_of("a", version="a" * 64))
    learned = found.learned("a")
    assert learned is not None
    assert learned.evidence.begin().version == "a" * 64


def test_one_that_the_store_did_not_answer_for_comes_last() -> None:
    found = table("a", "b", "c")
    assert turns(found) == ["a", "b", "c"]
    found.put_last("a")
    assert turns(found) == ["b", "c", "a"]
    found.put_last("gone")
    assert turns(found) == ["b", "c", "a"]


def test_turns_may_change_while_they_are_taken() -> None:
    found = table("a", "b")
    for name, _ in found.in_turn():
        found.put_last(name)
        found.configure(learning_pool_of("b", "c"))
    assert turns(found) == ["b", "c"]


def test_samples_are_counted_at_first_after_some_were_brought_and_each_hour() -> None:
    learned = LearnedApplication()
    assert learned.stored is None
    assert learned.is_due(0.0)
    learned.counted(7, 100.0)
    assert learned.stored == 7
    assert not learned.is_due(100.0 + RECOUNT_SECONDS - 1)
    assert learned.is_due(100.0 + RECOUNT_SECONDS)
    learned.brought()
    assert learned.is_due(100.0)
    assert learned.stored == 7, "the last count, until there is another"


def test_data_is_erased_when_it_is_orphaned_at_two_looks_in_succession() -> None:
    found = table("a")
    stored = frozenset({"a", "gone", "gone too"})
    assert found.orphaned_twice(stored) == []
    assert found.orphaned_twice(stored | {"new"}) == ["gone", "gone too"]
    assert found.orphaned_twice(frozenset({"a"})) == []
    assert found.orphaned_twice(stored) == []


def test_data_that_was_orphaned_only_to_an_older_configuration_stays() -> None:
    found = table("a")
    stored = frozenset({"a", "new"})
    found.orphaned_twice(stored)
    found.configure(learning_pool_of("a", "new"))
    assert found.orphaned_twice(stored) == []
    found.configure(learning_pool_of("a"))
    assert found.orphaned_twice(stored) == [], "it was not orphaned at the last look"


@pytest.mark.parametrize("learned_from", [("a", "refused"), ("refused",)])
def test_data_of_an_application_that_is_refused_at_the_moment_stays(learned_from: tuple[str, ...]) -> None:
    found = ApplicationTable()
    found.configure(learning_pool_of("a").model_copy(update={"learned_from": learned_from}))
    assert found.known == {"a", "refused"}
    for _ in range(2):
        assert found.orphaned_twice(frozenset({"a", "refused"})) == []


def test_before_the_first_configuration_nothing_is_orphaned() -> None:
    found = ApplicationTable()
    assert found.known is None
    for _ in range(2):
        assert found.orphaned_twice(frozenset({"a"})) == []
