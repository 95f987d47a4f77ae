"""Admissions of two engines that share the limits of a tenant, over a log in memory."""

import pytest

from justitia_api.config import ApplicationConfig, TenantLimits
from justitia_api.status import LimitScope
from justitia_api.wire import Refusal
from justitia_channel import messages as channel
from justitia_channel.messages import PlugInSnapshot
from justitia_sidecar.admission.inside import Inside
from justitia_sidecar.admission.order import Order
from justitia_sidecar.admission.request import TrackedRequest
from justitia_sidecar.engine.view import EngineView
from justitia_sidecar.pool.limits import MOST_WEIGHED, PoolLimits
from justitia_sidecar.pool.sharing import Sharing
from justitia_sidecar.pool.slots import Demand
from justitia_sidecar.pool.updates import LimitUse, Update, WriterId, decode, encode
from justitia_sidecar.refusals import RefusalError
from justitia_vocabulary.units import Seconds, TenantId
from support.limited_pool import GOLD, LimitedPool, config_with
from support.listening_channel import Listening
from support.tracked import tracked_request

APPLICATION = ApplicationConfig(namespace="ns", name="a", tenant=GOLD)


class Engines:
    """Two engines, whose sidecars exchange when a test says so."""

    def __init__(self, limits: TenantLimits) -> None:
        self.now: Seconds = 0.0
        self.log: list[bytes] = []
        self.config = config_with(limits)
        self.channels = [Listening(), Listening()]
        self.sharing: list[Sharing] = []
        self.admissions: list[Inside] = []
        self.read = [0, 0]
        for listening in self.channels:
            listening.state = PlugInSnapshot(unit="s")
            shared = PoolLimits(lambda: self.now)
            shared.configure(self.config, shares=True)
            self.sharing.append(Sharing(listening, limits=shared))
            self.admissions.append(Inside(self.config, listening, self.sharing[-1], lambda: self.now))
            self.admissions[-1].engine_told(EngineView(ready=True, kv_tokens=1000, block_size=10), 0.0)

    def asks(self, at: int, name: str) -> TrackedRequest:
        admission = self.admissions[at]
        admission.books.check_room(GOLD, APPLICATION.id, 1)
        request = tracked_request(name, admission.books.runs.enter(GOLD, APPLICATION, None, self.now))
        admission.enter(request, self.now)
        admission.pump(self.now)
        return request

    def ends(self, at: int, request: TrackedRequest) -> None:
        self.admissions[at].leave(request, self.now, completed=True)

    def exchange(self, times: int = 4) -> None:
        for _ in range(times):
            self.now += 0.5
            for at, sharing in enumerate(self.sharing):
                self.log.append(sharing.update(self.now))
                for each in self.log[self.read[at] :]:
                    sharing.heard(each, self.now)
                self.read[at] = len(self.log)
                sharing.exchanged(self.now)

    def sent(self) -> list[list[str]]:
        return [[ticket.key for ticket in listening.tickets()] for listening in self.channels]


def test_a_request_that_waits_for_a_slot_is_sent_once_an_exchange_brings_one() -> None:
    engines = Engines(TenantLimits(running_requests=1))
    engines.exchange()
    first = engines.asks(0, "first")
    engines.exchange()
    engines.asks(1, "second")
    engines.exchange()
    assert engines.sent() == [["first"], []]
    engines.ends(0, first)
    engines.exchange()
    assert engines.sent() == [["first"], ["second"]]


def test_before_the_others_were_heard_of_no_slot_is_used() -> None:
    engines = Engines(TenantLimits(running_requests=4))
    engines.asks(0, "early")
    assert engines.sent() == [[], []]
    engines.exchange()
    assert engines.sent() == [["early"], []]


def test_what_waits_at_one_engine_counts_at_the_other_once_it_is_heard_of() -> None:
    engines = Engines(TenantLimits(running_requests=1, queued_requests=2))
    engines.exchange()
    engines.asks(0, "runs")
    engines.exchange()
    engines.channels[0].hear(channel.Admitted(engines.sent()[0][0], 0))
    waits = engines.asks(0, "waits")
    engines.exchange()
    engines.asks(0, "waits, too")
    engines.asks(1, "not heard yet")
    engines.exchange()
    for at in (0, 1):
        with pytest.raises(RefusalError) as refused:
            engines.asks(at, "too many")
        assert refused.value.refusal is Refusal.TENANT_QUEUE_FULL
        assert "2 requests waiting" in refused.value.message
    engines.ends(0, waits)
    engines.exchange()
    with pytest.raises(RefusalError):
        engines.asks(1, "as many as allowed")


def test_a_log_that_is_away_leaves_a_part_and_a_tick_lets_requests_begin_by_it() -> None:
    engines = Engines(TenantLimits(running_requests=4))
    engines.exchange(8)
    for number in range(6):
        engines.asks(0, f"a{number}")
    engines.exchange()
    assert len(engines.sent()[0]) == 4
    engines.asks(1, "b")
    engines.now += 5.0
    assert engines.sent()[1] == []
    engines.admissions[1].tick(engines.now)
    assert engines.sent()[1] == ["b"]
    assert engines.sharing[1].limits.scope(engines.now) is LimitScope.PART


@pytest.mark.parametrize("log_is_away", [False, True])
def test_a_pool_of_one_engine_has_its_limit_as_without_a_log(log_is_away: bool) -> None:
    pool = LimitedPool(1, 3)
    (alone,) = pool.sidecars
    if log_is_away:
        alone.sharing.update(0.0)
        alone.fails()
    else:
        pool.passes(1.0)
    alone.asks(*[1] * 5)
    assert alone.used == 3


@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("valkey", [True, False])
def test_limits_count_over_the_pool_where_the_order_is_inside_and_there_is_a_valkey(inside: bool, valkey: bool) -> None:
    limits = PoolLimits(lambda: 0.0)
    order = Order(Listening() if inside else None, lambda: 0.0, limits=limits)
    config = config_with(TenantLimits(running_requests=1))
    order.configure(config if valkey else config.model_copy(update={"valkey": None}))
    assert (limits.scope(0.0) is LimitScope.POOL) is (inside and valkey)
    order.configure(config.model_copy(update={"valkey": None}))
    assert limits.scope(0.0) is LimitScope.ENGINE


# What is said.


def told(limits: PoolLimits, number: int = 0, *, whole: bool = False) -> dict[TenantId, LimitUse]:
    limits.attempt(0.0)
    return limits.tell(number, whole, 0.0)


def test_what_has_not_changed_is_not_said_again_but_in_a_whole_update() -> None:
    limits = PoolLimits(lambda: 0.0)
    limits.waiting = lambda tenant: 3
    limits.configure(config_with(TenantLimits(queued_requests=5)), shares=True)
    assert told(limits) == {GOLD: LimitUse(waiting=3)}
    limits.touch(GOLD)
    assert told(limits, 1) == {}
    assert told(limits, 2, whole=True) == {GOLD: LimitUse(waiting=3)}
    limits.waiting = lambda tenant: 0
    limits.touch(GOLD)
    assert told(limits, 3) == {GOLD: LimitUse()}
    assert told(limits, 4, whole=True) == {}


def test_tenants_without_limits_are_not_said() -> None:
    limits = PoolLimits(lambda: 0.0)
    limits.configure(config_with(TenantLimits()), shares=True)
    limits.touch(GOLD)
    assert told(limits, whole=True) == {}


def test_many_tenants_are_looked_at_in_parts_and_none_is_left_out() -> None:
    """The work for an update is bounded, whatever tenants do."""
    config = config_with(TenantLimits(queued_requests=5))
    (gold,) = config.tenants
    names = [TenantId(f"t{number}") for number in range(1000)]
    tenants = tuple(gold.model_copy(update={"name": name}) for name in names)
    limits = PoolLimits(lambda: 0.0)
    limits.waiting = lambda tenant: 1
    limits.configure(config.model_copy(update={"tenants": tenants}), shares=True)
    said: set[TenantId] = set()
    for number in range(6):
        part = told(limits, number)
        assert len(part) <= MOST_WEIGHED
        assert not said & part.keys()
        said |= part.keys()
        for name in names[:100]:
            limits.touch(name)
    assert said == set(names)


def test_an_update_of_a_release_that_knows_no_limits_uses_nothing() -> None:
    update = Update(WriterId("older"), 0, whole=True)
    assert decode(encode(update)) == update
    assert b"limits" not in encode(update)
    limits = PoolLimits(lambda: 0.0)
    limits.configure(config_with(TenantLimits(queued_requests=5)), shares=True)
    limits.heard(update, 0.0)
    assert limits.room_to_wait(GOLD, 5) == 5


def test_a_writer_of_absurd_numbers_does_not_keep_this_one_from_being_understood() -> None:
    limits = PoolLimits(lambda: 0.0)
    limits.demand = lambda tenant: Demand(0, 5, 3)
    limits.configure(config_with(TenantLimits(running_requests=5)), shares=True)
    absurd = LimitUse(slots=1, wants=2**62, at_once=2**62, ticket=2**62)
    limits.heard(Update(WriterId("absurd"), 0, whole=True, limits={GOLD: absurd}), 0.0)
    update = Update(WriterId("own"), 0, limits=told(limits))
    assert update.limits[GOLD].wants == 5
    assert decode(encode(update)) == update


def test_what_a_sidecar_used_is_forgotten_with_it() -> None:
    limits = PoolLimits(lambda: 0.0)
    limits.configure(config_with(TenantLimits(queued_requests=5, tokens_per_minute=100)), shares=True)
    limits.heard(Update(WriterId("a"), 0, whole=True, limits={GOLD: LimitUse(waiting=2, reserved=30)}), 0.0)
    assert (limits.room_to_wait(GOLD, 5), limits.reserved_elsewhere(GOLD)) == (3, 30)
    limits.attempt(0.0)
    limits.exchanged(0.0)
    limits.attempt(3.0)
    limits.exchanged(3.0)
    assert limits.room_to_wait(GOLD, 5) == 3
    limits.attempt(6.0)
    limits.exchanged(6.0)
    assert (limits.room_to_wait(GOLD, 5), limits.reserved_elsewhere(GOLD)) == (5, 0)
