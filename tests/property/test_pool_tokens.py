"""A tenant's tokens per minute over a pool: what was counted and reserved elsewhere counts here once it is heard of."""

from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from justitia_api.config import ApplicationConfig, TenantLimits
from justitia_sidecar.admission.metering import Metering
from justitia_sidecar.admission.request import TrackedRequest
from justitia_sidecar.admission.runs import RunTable
from justitia_sidecar.metrics import SidecarMetrics
from justitia_sidecar.pool.state import LEASE
from justitia_sidecar.refusals import RefusalError
from justitia_vocabulary.units import Seconds, Tokens
from support.examples import examples
from support.limited_pool import GOLD, LimitedPool, LimitedSidecar, config_with
from support.tracked import tracked_request

PER_MINUTE = 600
CONFIG = config_with(TenantLimits(tokens_per_minute=PER_MINUTE))
APPLICATION = ApplicationConfig(namespace="ns", name="a", tenant=GOLD)


@dataclass
class Meter:
    """A sidecar that meters. Its requests need as many tokens as are reserved for them."""

    sidecar: LimitedSidecar
    unheard: Tokens = 0
    """What others have accepted since this one heard of them last: an oracle's sum."""
    open: list[tuple[TrackedRequest, AbstractContextManager[None]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.runs = RunTable(lambda run, now: None, lambda run, now: None)
        self.configure(shares=True)

    def configure(self, *, shares: bool) -> None:
        pool, limits = self.sidecar.pool, self.sidecar.limits
        self.metering = Metering(SidecarMetrics(), lambda: pool.now, limits)
        limits.configure(CONFIG, shares=shares)
        self.metering.configure(CONFIG)

    def accepts(self, tokens: Tokens) -> bool:
        try:
            self.metering.check(GOLD)
        except RefusalError:
            return False
        run = self.runs.enter(GOLD, APPLICATION, None, self.sidecar.pool.now)
        reserving = self.metering.reserving(GOLD, tokens)
        reserving.__enter__()
        self.open.append((tracked_request("r", run, prompt=tokens), reserving))
        return True

    def finishes(self) -> None:
        request, reserving = self.open.pop(0)
        request.account.counted = True
        self.metering.count(request)
        reserving.__exit__(None, None, None)


class Metered:
    def __init__(self, sidecars: int) -> None:
        self.pool = LimitedPool(sidecars, 1)
        self.meters = [Meter(each) for each in self.pool.sidecars]
        for meter in self.meters:
            meter.sidecar.exchange()
        self.accepted: Tokens = 0

    def accepts(self, at: Meter, tokens: Tokens) -> bool:
        if not at.accepts(tokens):
            return False
        self.accepted += tokens
        for each in self.meters:
            if each is not at:
                each.unheard += tokens
        return True

    def exchange(self) -> None:
        """All hear of all."""
        for _ in range(2):
            for meter in self.meters:
                meter.sidecar.exchange()
        for meter in self.meters:
            meter.unheard = 0

    def allowed(self, at: Meter) -> Tokens:
        """What may have been accepted in all before the last request, by what this one can know."""
        return PER_MINUTE + round(self.pool.now * PER_MINUTE / 60) + at.unheard


ACTS = st.lists(
    st.one_of(
        st.tuples(st.just("accepts"), st.integers(0, 2), st.integers(1, 200)),
        st.tuples(st.just("finishes"), st.integers(0, 2), st.none()),
        st.tuples(st.just("exchange"), st.none(), st.none()),
        st.tuples(st.just("time passes"), st.none(), st.floats(0.01, 2.0)),
    ),
    max_size=80,
)


@given(acts=ACTS)
@examples(150, deadline=None)
def test_only_what_was_not_heard_of_exceeds_the_limit(acts: list[tuple[str, int | None, float | None]]) -> None:
    """And the last request, whose tokens are known afterwards."""
    found, since = Metered(3), 0.0
    for what, where, how in acts:
        match what, where, how:
            case "accepts", int(), int():
                at = found.meters[where]
                if found.accepts(at, how):
                    assert found.accepted - how <= found.allowed(at) + 1
            case "finishes", int(), _:
                if found.meters[where].open:
                    found.meters[where].finishes()
            case "time passes", _, float():
                found.pool.now += how
                since += how
        if what == "exchange" or since > LEASE / 2:
            found.exchange()
            since = 0.0


def flood(found: Metered, seconds: Seconds, tokens: Tokens = 20) -> None:
    """All accept what they can, and exchange twice a second. Requests end at once."""
    for _ in range(int(2 * seconds)):
        found.pool.now += 0.5
        for meter in found.meters:
            while found.accepts(meter, tokens):
                meter.finishes()
        found.exchange()


def test_in_the_long_run_all_together_have_one_limit_and_what_they_accept_before_they_hear() -> None:
    found = Metered(3)
    flood(found, 300.0)
    assert 5 * PER_MINUTE <= found.accepted <= 5 * PER_MINUTE + 3 * (PER_MINUTE + 20)


def test_control_each_by_itself_has_the_limit() -> None:
    found = Metered(3)
    for meter in found.meters:
        meter.configure(shares=False)
    flood(found, 300.0)
    assert found.accepted >= 3 * 5 * PER_MINUTE


def test_what_is_reserved_elsewhere_counts_until_it_is_over() -> None:
    found = Metered(2)
    one, another = found.meters
    assert one.accepts(PER_MINUTE)
    assert another.accepts(1)
    another.finishes()
    found.exchange()
    assert not another.accepts(1)
    one.open.pop()[1].__exit__(None, None, None)
    found.exchange()
    assert another.accepts(1)


def test_an_estimate_that_was_too_high_is_given_back_here_and_counted_once_elsewhere() -> None:
    found = Metered(2)
    one, another = found.meters
    assert one.accepts(400)
    request = one.open[0][0]
    one.finishes()
    found.exchange()
    request.account.prompt = 100
    one.metering.count(request)
    found.exchange()
    request.account.prompt = 400
    one.metering.count(request)
    found.exchange()
    assert another.accepts(199)
    another.finishes()
    assert another.accepts(10)
    another.finishes()
    assert not another.accepts(1)


def test_who_joins_finds_the_bucket_as_it_is() -> None:
    found = Metered(2)
    flood(found, 1.0)
    fresh = Meter(found.pool.joins(1))
    found.meters.append(fresh)
    assert fresh.accepts(1)
    fresh.finishes()
    found.exchange()
    assert not fresh.accepts(1)


def test_who_is_cut_off_has_a_part_and_is_not_charged_for_the_others_parts_afterwards() -> None:
    found = Metered(2)
    flood(found, 150.0)
    before = found.accepted
    for _ in range(600):
        found.pool.now += 0.5
        for meter in found.meters:
            meter.sidecar.sharing.update(found.pool.now)
            meter.sidecar.fails()
            while found.accepts(meter, 20):
                meter.finishes()
    assert found.accepted - before <= 5 * PER_MINUTE * 1.05 + 40
    assert found.accepted - before >= 5 * PER_MINUTE * 0.9
    before = found.accepted
    flood(found, 60.0)
    assert 0.8 * PER_MINUTE <= found.accepted - before <= 1.2 * PER_MINUTE
