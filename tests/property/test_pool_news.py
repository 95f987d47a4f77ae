"""What a sidecar tells arrives once, whatever becomes of the writing: by an oracle that only adds up."""

from collections import defaultdict
from dataclasses import dataclass, field
from enum import Enum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from justitia_channel.messages import RunOfPool
from justitia_sidecar.pool import own
from justitia_sidecar.pool.own import WHOLE_EVERY, OwnNews
from justitia_sidecar.pool.state import PoolState
from justitia_sidecar.pool.updates import RunGrowth, Update, WriterId, decode, encode
from justitia_vocabulary.units import ApplicationId, RunId, Seconds, TenantId
from support.examples import examples

WRITER, READER = WriterId("writer"), WriterId("reader")
TENANTS = (TenantId("t"), TenantId("u"))
RUNS = tuple(RunId(f"r{n}") for n in range(4))
UNIT = "s"


class Written(Enum):
    """What became of an attempt to write."""

    AND_SAID_SO = "written"
    BUT_NOT_SAID = "written, and the answer was lost"
    NOT = "not written"


@dataclass
class Told:
    """All that happened at the writer, added up."""

    served: defaultdict[TenantId, float] = field(default_factory=lambda: defaultdict(float))
    delivered: defaultdict[RunId, float] = field(default_factory=lambda: defaultdict(float))
    cost: defaultdict[RunId, float] = field(default_factory=lambda: defaultdict(float))
    open: set[RunId] = field(default_factory=set)

    def delivers(self, run: RunId, amount: float) -> None:
        """What is delivered to a run that is over, or was never said, is nobody's news."""
        self.delivered[run] += amount
        if not self.delivered[run]:
            del self.delivered[run]


class Heard:
    """What the reader makes of it."""

    def __init__(self) -> None:
        self.state = PoolState(READER)
        self.told = Told()

    def hears(self, written: bytes) -> None:
        self.state.heard(decode(written), 0.0)
        for run, growth in self.state.growth():
            self.told.cost[run] += growth.cost
        self.told.open.difference_update(self.state.over())
        if (news := self.state.news(UNIT)) is not None:
            self.told.served.update(news.service)
            self.told.open.update(each.run for each in news.opened)
            for run, more in news.delivered.items():
                self.told.delivered[run] += more


AMOUNT = st.integers(1, 100).map(float)
HAPPENS = st.one_of(
    st.tuples(st.just("serves"), st.sampled_from(TENANTS), AMOUNT),
    st.tuples(st.just("delivers"), st.sampled_from(RUNS), AMOUNT),
    st.tuples(st.just("opens or closes"), st.sampled_from(RUNS), AMOUNT),
    st.tuples(st.just("starts again"), st.none(), AMOUNT),
    st.tuples(st.just("writes"), st.sampled_from(list(Written)), st.sampled_from([0.5, WHOLE_EVERY])),
)


def tell(happens: list[tuple[str, object, float]], news: OwnNews, heard: Heard) -> Told:
    """Let it happen, and tell. At the end all is written."""
    told, now, source, pending = Told(), 0.0, 0, False
    unsaid: dict[RunId, float] = {}
    """What was delivered to runs that no update has said."""
    engine: defaultdict[TenantId, float] = defaultdict(float)
    news.served(UNIT, source, engine)
    written = [encode(news.next(now))]
    news.written()
    for what, which, amount in [*happens, *[("writes", Written.AND_SAID_SO, WHOLE_EVERY)] * 4]:
        match what, which:
            case "serves", str():
                engine[TenantId(which)] += amount
                told.served[TenantId(which)] += amount
            case "delivers", str():
                news.delivered({RunId(which): amount})
                news.grew(RunId(which), RunGrowth(cost=2 * amount))
                if which in told.open:
                    told.delivers(RunId(which), amount)
                    if which in unsaid:
                        unsaid[RunId(which)] += amount
                told.cost[RunId(which)] += 2 * amount
            case "opens or closes", str():
                _toggle(news, told, unsaid, RunId(which))
            case "starts again", _:
                news.served(UNIT, source, engine)
                source += 1
                engine.clear()
            case "writes", Written():
                now += amount
                if not pending:
                    unsaid.clear()
                pending = which is not Written.AND_SAID_SO
                news.served(UNIT, source, engine)
                update = encode(news.next(now))
                if which is not Written.NOT:
                    written.append(update)
                if which is Written.AND_SAID_SO:
                    news.written()
    for each in written:
        heard.hears(each)
    return told


def _toggle(news: OwnNews, told: Told, unsaid: dict[RunId, float], run: RunId) -> None:
    if run in told.open:
        news.closed(run)
        if never_said := unsaid.pop(run, 0.0):
            told.delivers(run, -never_said)
    else:
        unsaid[run] = 0.0
        news.opened(RunOfPool(run, TENANTS[0], ApplicationId("app")))
    told.open ^= {run}


@given(happens=st.lists(HAPPENS, max_size=40))
@examples(200)
def test_all_that_happened_arrives_once(happens: list[tuple[str, object, float]]) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(own, "MOST_SAID", 2)
        heard = Heard()
        told = tell(happens, OwnNews(WRITER), heard)
    assert heard.told == told


class Repeated(PoolState):
    """A control: each update that is read counts."""

    def heard(self, update: Update, now: Seconds) -> bool:
        if (writer := self._writers.get(update.writer)) is not None:
            writer.number = -1
        return super().heard(update, now)


def test_control_who_counts_what_was_written_twice_counts_too_much() -> None:
    happens: list[tuple[str, object, float]] = [
        ("opens or closes", RUNS[0], 0.0),
        ("delivers", RUNS[0], 5.0),
        ("writes", Written.BUT_NOT_SAID, 0.5),
    ]
    heard = Heard()
    heard.state = Repeated(READER)
    told = tell(happens, OwnNews(WRITER), heard)
    assert heard.told.delivered[RUNS[0]] == 2 * told.delivered[RUNS[0]]


def test_what_is_told_to_nobody_is_not_kept() -> None:
    """A pool of one engine has no log."""
    news = OwnNews(WRITER)
    for number in range(3):
        run = RunId(str(number))
        news.opened(RunOfPool(run, TENANTS[0], ApplicationId("app")))
        news.delivered({run: 1.0})
        news.grew(run, RunGrowth(cost=1.0))
        news.closed(run)
    update = news.next(0.0)
    assert (update.delivered, update.runs, update.opened, update.closed) == ({}, {}, {}, [])


def test_beyond_a_bound_growth_is_dropped_and_ends_are_told_by_what_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the log cannot be reached."""
    monkeypatch.setattr(own, "MOST_UNTOLD", 3)
    news, heard = OwnNews(WRITER), Heard()
    names = [RunId(f"n{number}") for number in range(5)]
    for run in (*names, RUNS[0]):
        news.opened(RunOfPool(run, TENANTS[0], ApplicationId("app")))
    heard.hears(encode(news.next(0.0)))
    news.written()
    for run in names:
        news.delivered({run: 1.0})
        news.closed(run)
    heard.hears(encode(news.next(0.5)))
    assert heard.told.open == {RUNS[0]}
    assert sum(heard.told.delivered.values()) <= 3
