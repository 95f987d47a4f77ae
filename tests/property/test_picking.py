"""A request that comes through a gateway goes to the engine that has least, as far as is known, and counts there."""

from contextlib import AbstractContextManager

import hypothesis.strategies as st
import pytest
from hypothesis import given

from justitia_sidecar.pool.peers import FRESH, REREAD, Expected, Peers
from justitia_sidecar.pool.picking import Picking
from justitia_sidecar.pool.state import Prefix
from justitia_sidecar.pool.updates import Load, WriterId
from justitia_vocabulary.units import Seconds, Tokens

HERE = "10.0.0.1:8000"
OTHERS = {"a": "10.0.0.2:8000", "b": "10.0.0.3:8000", "c": "[fd00::4]:8000"}
HOMES = (WriterId("own"), *map(WriterId, OTHERS), WriterId("gone"))
STEPS = st.one_of(
    st.tuples(st.just("hears"), st.sampled_from(sorted(OTHERS)), st.integers(0, 20), st.booleans()),
    st.tuples(st.just("serves"), st.integers(0, 20)),
    st.tuples(st.just("waits"), st.sampled_from((0.3, 1.1))),
    st.tuples(
        st.just("asks"),
        st.integers(0, 3),
        st.integers(0, 8),
        st.none() | st.builds(Prefix, st.sampled_from(HOMES), st.integers(0, 4)),
        st.none() | st.sets(st.sampled_from((HERE, *OTHERS.values()))),
    ),
    st.tuples(st.just("ends"), st.integers(0, 10)),
    st.tuples(st.just("closes"), st.booleans()),
)


class World:
    """What an observer writes down: what each said last and when, and what was picked for it since or is open."""

    def __init__(self) -> None:
        self.now: Seconds = 0.0
        self.peers = Peers("here", lambda: self.now, HERE)
        self.peers.own = WriterId("own")
        self.picking = Picking(self.peers)
        self.takes = True
        self.peers.takes = lambda: self.takes
        self.said: dict[str, tuple[Tokens, bool, Seconds]] = {}
        self.since: dict[str, list[Tokens]] = {HERE: []}
        self.open: list[tuple[str, Tokens, AbstractContextManager[None]]] = []

    def hears(self, name: str, tokens: Tokens, takes: bool) -> None:
        endpoint = OTHERS[name]
        self.peers.heard(WriterId(name), Load(name, tokens, takes, endpoint))
        self.said[endpoint] = (tokens, takes, self.now)
        self.since[endpoint] = []

    def serves(self, tokens: Tokens) -> None:
        self.peers.outstanding = tokens

    def waits(self, seconds: Seconds) -> None:
        self.now += seconds

    def closes(self, takes: bool) -> None:
        self.takes = takes

    def has(self) -> dict[str, Tokens]:
        """Tokens of the engines that take requests."""
        found = {HERE: self.peers.outstanding + sum(self.since[HERE])} if self.takes else {}
        for endpoint, (tokens, takes, at) in self.said.items():
            if takes and self.now - at <= FRESH:
                found[endpoint] = max(0, tokens + sum(self.since[endpoint]))
        return found

    def asks(self, prompt: Tokens, tokens: Tokens, prefix: Prefix | None, allowed: set[str] | None) -> None:
        home = None if prefix is None else {"own": HERE, **OTHERS}.get(prefix.home, "gone")
        able = {
            each: has + (REREAD * prompt if home not in {None, each} else 0)
            for each, has in self.has().items()
            if allowed is None or each in allowed
        }
        asked = Expected(prompt, tokens, prefix)
        picked = self.picking.pick(asked, allowed)
        if picked is None:
            assert not able
            return
        assert able[picked.endpoint] == min(able.values())
        if HERE in able and able[HERE] == min(able.values()):
            assert picked.endpoint == HERE
        counted = self.picking.counted(picked, asked)
        counted.__enter__()
        found = min(prompt, prefix.tokens) if prefix is not None and picked.endpoint == home else 0
        self.open.append((picked.endpoint, prompt - found + tokens, counted))
        self.since[picked.endpoint].append(prompt - found + tokens)

    def ends(self, which: int) -> None:
        if which < len(self.open):
            endpoint, tokens, counted = self.open.pop(which)
            counted.__exit__(None, None, None)
            self.since[endpoint].append(-tokens)


@given(st.lists(STEPS, max_size=60))
def test_the_one_that_has_least_gets_it_and_the_one_here_of_equals(steps: list[tuple[object, ...]]) -> None:
    world = World()
    for name, *arguments in steps:
        getattr(world, str(name))(*arguments)


@pytest.mark.parametrize("counted", [pytest.param(True, id="counted"), pytest.param(False, id="control: not counted")])
def test_requests_between_two_updates_spread_because_they_count(counted: bool) -> None:
    world = World()
    for name in OTHERS:
        world.hears(name, 0, True)
    gets: dict[str, int] = {}
    for _ in range(40):
        asked = Expected(0, 10)
        picked = world.picking.pick(asked)
        assert picked is not None
        gets[picked.endpoint] = gets.get(picked.endpoint, 0) + 1
        if counted:
            world.open.append((picked.endpoint, 10, world.picking.counted(picked, asked)))
            world.open[-1][2].__enter__()
    assert gets == (dict.fromkeys((HERE, *OTHERS.values()), 10) if counted else {HERE: 40})


def test_a_host_without_a_port_allows_all_of_its_ports() -> None:
    world = World()
    world.hears("c", 5, True)
    picked = world.picking.pick(Expected(0, 1), {"fd00::4"})
    assert picked is not None
    assert picked.endpoint == OTHERS["c"]
    assert world.picking.pick(Expected(0, 1), {"10.0.0.9", "10.0.0.1:9000"}) is None
    assert world.picking.pick(Expected(0, 1), set()) is None


def test_a_sidecar_that_gateways_do_not_know_is_not_picked() -> None:
    """Its release is an earlier one, or it has no picker."""
    world = World()
    world.closes(False)
    world.peers.heard(WriterId("a"), Load("a", 0, takes=True))
    assert world.picking.pick(Expected(0, 1)) is None
    assert Picking(Peers("here", lambda: 0.0)).pick(Expected(0, 1)) is None
