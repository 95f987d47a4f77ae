"""What sidecars tell each other is counted once, whatever is lost, repeated or late."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from justitia_channel.messages import RunOfPool
from justitia_sidecar.pool.state import LEASE, PoolState, Prefix
from justitia_sidecar.pool.updates import RunGrowth, RunNumber, Update, WriterId
from justitia_vocabulary.units import ApplicationId, RunId, TenantId
from support.examples import examples

READER, A, B = WriterId("reader"), WriterId("a"), WriterId("b")
TENANTS = (TenantId("t"), TenantId("u"))
RUNS = tuple(RunId(f"r{n}") for n in range(4))
UNIT = "s"


def number_of(run: RunId) -> RunNumber:
    return RunNumber(RUNS.index(run))


def of_pool(run: RunId) -> RunOfPool:
    return RunOfPool(run, TENANTS[0], ApplicationId("app"))


@dataclass
class Writing:
    """A sidecar that writes updates: an oracle of what it has done."""

    name: WriterId
    served: defaultdict[TenantId, float] = field(default_factory=lambda: defaultdict(float))
    open: set[RunId] = field(default_factory=set)
    updates: list[Update] = field(default_factory=list)

    def does(self, tenant: TenantId, more: float, run: RunId, *, whole: bool) -> None:
        """Serve the tenant, and open the run, or close it if it is open."""
        self.served[tenant] += more
        closes = run in self.open
        self.open ^= {run}
        self.updates.append(
            Update(
                self.name,
                len(self.updates),
                UNIT,
                whole,
                served=dict(self.served) if whole else {tenant: self.served[tenant]},
                opened={number_of(each): of_pool(each) for each in (self.open if whole else {run} & self.open)},
                closed=[number_of(run)] if closes else [],
            )
        )


ACT = st.tuples(st.sampled_from(TENANTS), st.floats(0.0, 5.0), st.sampled_from(RUNS), st.booleans())
WRITERS = st.fixed_dictionaries({A: st.lists(ACT, min_size=1, max_size=8), B: st.lists(ACT, min_size=1, max_size=8)})


def told(state: PoolState, totals: dict[TenantId, float], open_runs: set[RunId]) -> None:
    """Take what there is to tell, as the plug-in would: ends first."""
    open_runs.difference_update(state.over())
    news = state.news(UNIT)
    if news is not None:
        totals.update(news.service)
        open_runs.update(each.run for each in news.opened)


@given(acts=WRITERS, data=st.data())
@examples(150)
def test_totals_and_open_runs_are_those_of_all_writers(
    acts: dict[WriterId, list[tuple[TenantId, float, RunId, bool]]], data: st.DataObject
) -> None:
    writers = {name: Writing(name) for name in acts}
    for name, done in acts.items():
        for tenant, more, run, whole in done:
            writers[name].does(tenant, more, run, whole=whole)
    state, totals = PoolState(READER), dict.fromkeys(TENANTS, 0.0)
    open_runs: set[RunId] = set()
    for writer in writers.values():
        state.heard(writer.updates[0], 0.0)
    sent = [update for writer in writers.values() for update in writer.updates[1:]]
    heard: Sequence[Update] = data.draw(st.lists(st.sampled_from(sent), max_size=24)) if sent else []
    for update in heard:
        state.heard(update, 0.0)
        told(state, totals, open_runs)
    for writer in writers.values():
        writer.does(TENANTS[0], 0.0, RUNS[0], whole=True)
        state.heard(writer.updates[-1], 0.0)
    told(state, totals, open_runs)
    for tenant in TENANTS:
        assert abs(totals[tenant] - sum(writer.served[tenant] for writer in writers.values())) < 1e-9
    assert open_runs == set().union(*(writer.open for writer in writers.values()))


def test_a_writer_that_began_before_the_reader_is_counted_from_then_on() -> None:
    state, writer = PoolState(READER), Writing(A)
    for _ in range(3):
        writer.does(TENANTS[0], 10.0, RUNS[0], whole=True)
    state.heard(writer.updates[1], 0.0)
    state.heard(writer.updates[2], 0.0)
    news = state.news(UNIT)
    assert news is not None
    assert news.service == {TENANTS[0]: 10.0}


def test_a_writer_that_began_before_the_reader_counts_from_its_first_whole_update_on() -> None:
    """An update that is not whole has the totals of some tenants only."""
    state, writer = PoolState(READER), Writing(A)
    for whole in (False, False, True, False):
        writer.does(TENANTS[0], 10.0, RUNS[0], whole=whole)
    assert [state.heard(update, 0.0) for update in writer.updates[1:]] == [True, False, False]
    news = state.news(UNIT)
    assert news is not None
    assert news.service == {TENANTS[0]: 10.0}


def test_another_plug_in_is_told_all_that_is_open_and_all_totals() -> None:
    state, writer = PoolState(READER), Writing(A)
    writer.does(TENANTS[0], 10.0, RUNS[0], whole=False)
    writer.does(TENANTS[0], 1.0, RUNS[1], whole=False)
    writer.does(TENANTS[0], 1.0, RUNS[1], whole=False)
    for update in writer.updates:
        state.heard(update, 0.0)
    first = state.news(UNIT)
    assert state.news(UNIT) is None
    state.tell_all()
    again = state.news(UNIT)
    assert first is not None
    assert again is not None
    assert again.service == first.service == {TENANTS[0]: 12.0}
    assert [each.run for each in again.opened] == [RUNS[0]]


def test_a_run_is_over_when_it_is_open_nowhere() -> None:
    state, writer = PoolState(READER), Writing(A)
    state.opened_here(RUNS[0])
    writer.does(TENANTS[0], 0.0, RUNS[0], whole=False)
    state.heard(writer.updates[0], 0.0)
    state.closed_here(RUNS[0])
    assert not state.over()
    writer.does(TENANTS[0], 0.0, RUNS[0], whole=False)
    state.heard(writer.updates[1], 0.0)
    assert list(state.over()) == [RUNS[0]]
    assert not state.over()


def test_runs_of_a_sidecar_that_is_not_heard_of_are_over() -> None:
    state, writer = PoolState(READER), Writing(A)
    writer.does(TENANTS[0], 0.0, RUNS[0], whole=False)
    state.heard(writer.updates[0], 0.0)
    state.expire(LEASE)
    assert state.others == 1
    state.expire(LEASE + 0.1)
    assert state.others == 0
    assert list(state.over()) == [RUNS[0]]


def test_its_own_updates_say_nothing_new() -> None:
    state, own = PoolState(READER), Writing(READER)
    own.does(TENANTS[0], 5.0, RUNS[0], whole=True)
    state.heard(own.updates[0], 0.0)
    assert state.news(UNIT) is None


def test_another_unit_is_counted_apart() -> None:
    state, writer = PoolState(READER), Writing(A)
    writer.does(TENANTS[0], 5.0, RUNS[0], whole=False)
    state.heard(writer.updates[0], 0.0)
    in_tokens = state.news("tokens")
    assert in_tokens is not None
    assert not in_tokens.service
    news = state.news(UNIT)
    assert news is not None
    assert news.service == {TENANTS[0]: 5.0}


def test_a_runs_prefix_is_where_a_context_of_it_was_last() -> None:
    state, (run, unknown) = PoolState(READER), RUNS[:2]
    state.opened_here(run)
    assert state.prefix(run) is None
    growth = {run: RunGrowth(context=70), unknown: RunGrowth(context=5)}
    state.heard(Update(A, 0, UNIT, opened={number_of(run): of_pool(run)}, runs=growth), 0.0)
    state.heard(Update(A, 1, UNIT, runs={run: RunGrowth(cost=1.0)}), 0.0)
    assert state.prefix(run) == Prefix(A, 70)
    state.context_here(run, 60)
    assert state.prefix(run) == Prefix(READER, 60)
    state.heard(Update(A, 2, UNIT, closed=[number_of(run)]), 0.0)
    state.closed_here(run)
    assert [state.prefix(each) for each in (run, unknown)] == [None] * 2


def test_a_number_means_what_it_was_said_to_be_last() -> None:
    """A run that comes again has another number, and who gives a number twice has ended what it was before."""
    state, (run, other) = PoolState(READER), RUNS[:2]
    first, second = RunNumber(5), RunNumber(7)
    state.heard(Update(A, 0, UNIT, opened={first: of_pool(run)}), 0.0)
    state.heard(
        Update(A, 1, UNIT, opened={second: of_pool(run)}, closed=[first], delivered={first: 1.0, second: 2.0}), 0.0
    )
    news = state.news(UNIT)
    assert news is not None
    assert news.delivered == {run: 2.0}
    assert state.open_elsewhere(run)
    state.heard(Update(A, 2, UNIT, opened={second: of_pool(other)}), 0.0)
    assert list(state.over()) == [run]
    state.heard(Update(A, 3, UNIT, closed=[first, second]), 0.0)
    assert list(state.over()) == [other]
