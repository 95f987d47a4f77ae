"""A request goes to the engine with the fewest tokens, as far as is known, and elsewhere only if that is sooner."""

from dataclasses import dataclass, field

import hypothesis.strategies as st
from hypothesis import given

from justitia_sidecar.pool.peers import FRESH, Peer, Peers
from justitia_sidecar.pool.updates import Load, WriterId
from justitia_vocabulary.units import Seconds, Tokens

NAMES = ("a", "b", "c")
LOADS = st.builds(Load, st.just(""), st.integers(0, 20), st.booleans())
STEPS = st.one_of(
    st.tuples(st.just("hears"), st.sampled_from(NAMES), st.integers(0, 20), st.booleans()),
    st.tuples(st.just("waits"), st.sampled_from((0.3, 1.1))),
    st.tuples(st.just("asks"), st.integers(1, 8)),
    st.tuples(st.just("ends"), st.integers(0, 10)),
    st.tuples(st.just("closes"), st.booleans()),
)


@dataclass
class Known:
    """What an observer writes down of another engine: what it said and when, and what went there since."""

    said: Tokens
    takes: bool
    at: Seconds
    since: list[Tokens] = field(default_factory=list)

    def has(self) -> Tokens:
        return max(0, self.said + sum(self.since))


class World:
    def __init__(self) -> None:
        self.now: Seconds = 0.0
        self.peers = Peers("here", lambda: self.now)
        self.takes = True
        self.peers.takes = lambda: self.takes
        self.known: dict[str, Known] = {}
        self.here: Tokens = 0
        self.open: list[tuple[str | None, Tokens, object]] = []

    def hears(self, name: str, tokens: Tokens, takes: bool) -> None:
        self.peers.heard(WriterId(name), Load(name, tokens, takes))
        self.known[name] = Known(tokens, takes, self.now)

    def asks(self, tokens: Tokens) -> None:
        chosen = self.peers.sooner(tokens)
        able = {name: each for name, each in self.known.items() if each.takes and self.now - each.at <= FRESH}
        least = min((each.has() for each in able.values()), default=None)
        if chosen is None:
            assert least is None or (self.takes and least + tokens >= self.here)
            self.here += tokens
            serving = self.peers.serving(tokens)
            serving.__enter__()
            self.open.append((None, tokens, serving))
        else:
            assert chosen.load.address in able
            assert able[chosen.load.address].has() == least
            assert not self.takes or least + tokens < self.here
            self.known[chosen.load.address].since.append(tokens)
            sending = self.peers.sending(chosen, tokens)
            sending.__enter__()
            self.open.append((chosen.load.address, tokens, sending))

    def ends(self, number: int) -> None:
        if not self.open:
            return
        name, tokens, context = self.open.pop(number % len(self.open))
        context.__exit__(None, None, None)  # type: ignore[attr-defined]
        if name is None:
            self.here -= tokens
        elif name in self.known:
            self.known[name].since.append(-tokens)


@given(st.lists(STEPS, max_size=60))
def test_it_goes_where_least_is_and_stays_where_that_is_no_sooner(steps: list[tuple[object, ...]]) -> None:
    world = World()
    for what, *how in steps:
        if what == "waits":
            world.now += float(str(how[0]))
        elif what == "closes":
            world.takes = bool(how[0])
        else:
            getattr(world, str(what))(*how)
    assert world.peers.outstanding == world.here


def test_two_sidecars_of_one_address_are_one_engine_and_none_is_this_one() -> None:
    now = [0.0]
    peers = Peers("here", lambda: now[0])
    peers.heard(WriterId("before"), Load("here", 0, takes=True))
    assert not peers.known
    peers.outstanding = 100
    assert peers.sooner(1) is None
    peers.heard(WriterId("other"), Load("there", 0, takes=True))
    found = peers.sooner(1)
    assert isinstance(found, Peer)
    found.does_not_take()
    assert peers.sooner(1) is None
    peers.heard(WriterId("other"), Load("there", 0, takes=True))
    assert peers.sooner(1) is found
    now[0] += FRESH + 0.1
    assert peers.sooner(1) is None
    assert not peers.known


def test_a_sidecar_without_a_port_for_others_passes_nothing_on() -> None:
    peers = Peers("", lambda: 0.0)
    assert peers.load is None
    peers.heard(WriterId("other"), Load("there", 0, takes=True))
    peers.outstanding = 100
    assert peers.sooner(1) is None
