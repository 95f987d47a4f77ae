"""The Lease of one candidate: how it comes by it, for how long it may write, and when it has to end. Two candidates
beside each other are in `tests/property/test_one_writer.py`.
"""

from datetime import timedelta
from itertools import pairwise
from typing import NoReturn, cast

import pytest

from justitia_operator.runtime.kube import Kube, Rejected, Unavailable
from justitia_operator.runtime.lease import DURATION_SECONDS, HOLD_SECONDS, RETRY_SECONDS, Lease, LeaseLost
from support.clocks import BEGIN, ManualClock
from support.scripted_lease_api import ScriptedLeaseApi

ME, OTHER = "me", "other"
AWAY = Unavailable("no answer")


class StandsStill(ManualClock):
    """Wrong on purpose, as a clock that rests while its machine sleeps: the Lease never seems to run out."""

    def seconds(self) -> float:
        return 0.0


class Over(Exception):
    """A test has seen enough."""


def over() -> NoReturn:
    raise Over


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def api(clock: ManualClock) -> ScriptedLeaseApi:
    return ScriptedLeaseApi(clock)


@pytest.fixture
def lease(api: ScriptedLeaseApi, clock: ManualClock) -> Lease:
    return candidate(api, clock)


def candidate(api: ScriptedLeaseApi, clock: ManualClock) -> Lease:
    return Lease(cast("Kube", api), "system", "operator", ME, clock)


def holder(api: ScriptedLeaseApi) -> str | None:
    assert api.lease is not None
    found: str | None = api.lease["spec"].get("holderIdentity")
    return found


async def test_one_that_nobody_has_made_is_made_at_once(lease: Lease, api: ScriptedLeaseApi) -> None:
    await lease.acquire()
    assert api.lease is not None
    assert api.lease["metadata"]["name"] == "operator"
    begun = BEGIN.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    assert api.lease["spec"] == {
        "holderIdentity": ME,
        "leaseDurationSeconds": DURATION_SECONDS,
        "acquireTime": begun,
        "renewTime": begun,
        "leaseTransitions": 1,
    }


async def test_one_that_was_released_is_taken_at_once(lease: Lease, api: ScriptedLeaseApi, clock: ManualClock) -> None:
    api.hold(None)
    await lease.acquire()
    assert (holder(api), clock.seconds()) == (ME, 0)


async def test_nothing_is_sure_before_it_is_acquired(lease: Lease) -> None:
    assert lease.seconds_left() <= 0


async def test_it_holds_from_the_sending_of_a_renewal_and_not_from_its_answer(
    lease: Lease, api: ScriptedLeaseApi
) -> None:
    api.hold(None)
    api.takes = 2
    await lease.acquire()
    assert lease.seconds_left() == HOLD_SECONDS - 2


async def test_a_holder_renews_every_two_seconds_without_a_look_before_and_is_the_same_holder(
    lease: Lease, api: ScriptedLeaseApi
) -> None:
    await lease.acquire()
    looks = api.looks
    api.at(600, over)
    with pytest.raises(Over):
        await lease.keep()
    assert api.looks == looks
    assert len(api.writes) == 600 / RETRY_SECONDS - 1
    assert all(after - before == RETRY_SECONDS for before, after in pairwise(api.writes))
    assert api.lease is not None
    assert api.lease["spec"]["leaseTransitions"] == 1
    assert api.lease["spec"]["acquireTime"] < api.lease["spec"]["renewTime"]


async def test_another_holder_is_waited_for_as_long_as_it_renews_and_then_taken_over_from(
    lease: Lease, api: ScriptedLeaseApi, clock: ManualClock
) -> None:
    api.hold(OTHER)
    for seconds in range(0, 101, 5):
        api.at(seconds, lambda: api.hold(OTHER))
    await lease.acquire()
    assert 100 + DURATION_SECONDS <= clock.seconds() <= 100 + DURATION_SECONDS + 2 * RETRY_SECONDS
    assert holder(api) == ME
    assert api.lease is not None
    assert api.lease["spec"]["leaseTransitions"] == 5


@pytest.mark.parametrize(
    "ahead",
    [
        pytest.param(timedelta(), id="clocks that agree"),
        pytest.param(timedelta(hours=-1), id="ours an hour behind"),
        pytest.param(timedelta(hours=1), id="ours an hour ahead"),
    ],
)
async def test_a_holder_that_ended_is_found_by_its_silence_whatever_the_clocks_say(ahead: timedelta) -> None:
    clock = ManualClock(ahead)
    api = ScriptedLeaseApi(clock)
    api.hold(OTHER, renew_time=BEGIN.isoformat())
    await candidate(api, clock).acquire()
    assert DURATION_SECONDS <= clock.seconds() <= DURATION_SECONDS + RETRY_SECONDS


async def test_one_that_is_deleted_under_our_eyes_may_still_be_held(
    lease: Lease, api: ScriptedLeaseApi, clock: ManualClock
) -> None:
    api.hold(OTHER)
    api.at(4, api.drop)
    await lease.acquire()
    assert 4 + DURATION_SECONDS <= clock.seconds() <= 4 + DURATION_SECONDS + 2 * RETRY_SECONDS


async def test_one_that_another_has_taken_is_lost(lease: Lease, api: ScriptedLeaseApi, clock: ManualClock) -> None:
    await lease.acquire()
    api.at(30, lambda: api.hold(OTHER))
    with pytest.raises(LeaseLost, match="has another holder"):
        await lease.keep()
    assert (holder(api), clock.seconds()) == (OTHER, 30)


async def test_one_that_is_deleted_is_lost(lease: Lease, api: ScriptedLeaseApi) -> None:
    await lease.acquire()
    api.at(30, api.drop)
    with pytest.raises(LeaseLost):
        await lease.keep()
    assert api.lease is None


async def end_of_a_holder_that_cannot_renew(clock: ManualClock) -> float:
    """Seconds between the last renewal and the loss. Raises Over where it leads on for a minute."""
    api = ScriptedLeaseApi(clock)
    held = candidate(api, clock)
    await held.acquire()
    api.at(0, lambda: api.fail(AWAY))
    try:
        while True:
            await held.keep()
    except LeaseLost:
        assert held.seconds_left() <= 0
        return ManualClock.seconds(clock)


async def test_a_holder_that_cannot_renew_ends_before_another_may_lead(clock: ManualClock) -> None:
    assert HOLD_SECONDS <= await end_of_a_holder_that_cannot_renew(clock) < DURATION_SECONDS


async def test_a_holder_that_goes_on_too_long_is_found() -> None:
    """The negative control of the test above."""

    class Watched(StandsStill):
        async def sleep(self, seconds: float) -> None:
            await super().sleep(seconds)
            if ManualClock.seconds(self) > DURATION_SECONDS:
                raise Over

    with pytest.raises(Over):
        await end_of_a_holder_that_cannot_renew(Watched())


async def test_a_holder_whose_renewals_hang_ends_before_another_may_lead(
    lease: Lease, api: ScriptedLeaseApi, clock: ManualClock
) -> None:
    await lease.acquire()
    api.takes = 3600
    with pytest.raises(LeaseLost, match="was not renewed"):
        await lease.keep()
    assert HOLD_SECONDS <= clock.seconds() < DURATION_SECONDS
    assert lease.seconds_left() <= 0


async def test_a_short_outage_is_survived(lease: Lease, api: ScriptedLeaseApi) -> None:
    await lease.acquire()
    api.at(20, lambda: api.fail(AWAY))
    api.at(20 + HOLD_SECONDS - 2 * RETRY_SECONDS, lambda: api.fail(None))
    api.at(60, over)
    with pytest.raises(Over):
        await lease.keep()
    gaps = [after - before for before, after in pairwise(api.writes)]
    assert RETRY_SECONDS < max(gaps) < HOLD_SECONDS


async def test_a_renewal_that_was_stored_and_not_confirmed_is_not_taken_for_anothers(
    lease: Lease, api: ScriptedLeaseApi
) -> None:
    await lease.acquire()
    api.at(10, lambda: setattr(api, "lose_answers", AWAY))
    api.at(60, over)
    with pytest.raises(Over):
        await lease.keep()
    assert holder(api) == ME
    assert lease.seconds_left() > 0


async def test_who_waits_tries_again_while_the_api_server_is_away(
    lease: Lease, api: ScriptedLeaseApi, clock: ManualClock
) -> None:
    api.fail(AWAY)
    api.at(300, lambda: api.fail(None))
    await lease.acquire()
    assert (holder(api), clock.seconds()) == (ME, 300)


async def test_who_waits_gives_up_a_request_without_an_answer(
    lease: Lease, api: ScriptedLeaseApi, clock: ManualClock
) -> None:
    api.hold(None)
    api.takes = 3600
    api.at(1, lambda: setattr(api, "takes", 0))
    await lease.acquire()
    assert (holder(api), clock.seconds()) == (ME, HOLD_SECONDS / 2 + RETRY_SECONDS)


async def test_a_right_that_is_missing_ends_it(lease: Lease, api: ScriptedLeaseApi) -> None:
    api.fail(Rejected("403: no right"))
    with pytest.raises(Rejected, match="no right"):
        await lease.acquire()


async def test_a_release_lets_the_next_one_in_and_nothing_may_be_written_any_more(
    lease: Lease, api: ScriptedLeaseApi
) -> None:
    await lease.acquire()
    await lease.release()
    assert holder(api) is None
    assert lease.seconds_left() <= 0


async def test_a_release_leaves_anothers_alone(lease: Lease, api: ScriptedLeaseApi) -> None:
    await lease.acquire()
    api.hold(OTHER)
    await lease.release()
    assert holder(api) == OTHER


async def test_a_release_that_cannot_be_told_is_no_error(lease: Lease, api: ScriptedLeaseApi) -> None:
    await lease.acquire()
    api.fail(AWAY)
    await lease.release()
    assert holder(api) == ME
    assert lease.seconds_left() <= 0
