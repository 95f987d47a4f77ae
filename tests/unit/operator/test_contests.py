"""The operator does not quarrel with others for ever: a few removals from one object in an hour."""

from datetime import timedelta

from justitia_operator.decide.contests import MOST_REMOVALS, WINDOW, Contests
from justitia_operator.decide.ownership import Addition
from justitia_operator.world.objects import MANAGER, Kind, Ref
from support.resources import NOW

ONE, OTHER = Ref(Kind.DEPLOYMENT, "apps", "one"), Ref(Kind.DEPLOYMENT, "apps", "other")
MINUTE = timedelta(minutes=1)


def test_so_many_removals_are_allowed_and_no_more() -> None:
    contests = Contests()
    for _ in range(MOST_REMOVALS):
        assert contests.may_remove(ONE, NOW)
        contests.removed(ONE, NOW)
    assert not contests.may_remove(ONE, NOW)
    assert contests.may_remove(OTHER, NOW)


def test_a_removal_counts_for_an_hour() -> None:
    contests = Contests()
    for number in range(MOST_REMOVALS):
        contests.removed(ONE, NOW + number * MINUTE)
    assert not contests.may_remove(ONE, NOW + WINDOW - MINUTE)
    assert contests.may_remove(ONE, NOW + WINDOW)
    contests.removed(ONE, NOW + WINDOW)
    assert not contests.may_remove(ONE, NOW + WINDOW)
    assert contests.may_remove(ONE, NOW + WINDOW + MINUTE)


def test_a_removal_from_one_object_leaves_the_others_counts_as_they_are() -> None:
    contests = Contests()
    for _ in range(MOST_REMOVALS):
        contests.removed(ONE, NOW)
    contests.removed(OTHER, NOW + MINUTE)
    assert not contests.may_remove(ONE, NOW + MINUTE)
    contests.removed(OTHER, NOW + WINDOW)
    assert contests.may_remove(ONE, NOW + WINDOW)


def test_who_added_a_field_is_known_until_it_is_removed_and_for_an_hour_at_most() -> None:
    """An object may go away in between."""
    theirs, ours = Addition("spec.replicas", "kubectl"), Addition("spec.replicas", MANAGER)
    contests = Contests()
    assert contests.removing(ONE, (theirs,), NOW) == (theirs,)
    assert contests.removing(ONE, (ours,), NOW + MINUTE) == (theirs,)
    contests.removing(OTHER, (ours,), NOW + MINUTE + WINDOW)
    assert contests.removing(ONE, (ours,), NOW + MINUTE + WINDOW) == (ours,)
