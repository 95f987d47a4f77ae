"""A request goes to the engine with the fewest tokens, as far as is known, and elsewhere only if that is sooner. One of
a run stays with the engine that has its prefix, unless that is behind by more than it would take to read it again.
"""

import math
from dataclasses import dataclass, field

import hypothesis.strategies as st
from hypothesis import given

from justitia_sidecar.pool.peers import FRESH, REREAD, Expected, Peer, Peers
from justitia_sidecar.pool.state import Prefix
from justitia_sidecar.pool.updates import Load, WriterId
from justitia_vocabulary.units import Seconds, Tokens

NAMES = ("a", "b", "c")
HERE, GONE = WriterId("here"), WriterId("gone")
LOADS = st.builds(Load, st.just(""), st.integers(0, 20), st.booleans())
PREFIXES = st.none() | st.builds(Prefix, st.sampled_from((*map(WriterId, NAMES), HERE, GONE)), st.integers(0, 6))
STEPS = st.one_of(
    st.tuples(st.just("hears"), st.sampled_from(NAMES), st.integers(0, 20), st.booleans()),
    st.tuples(st.just("waits"), st.sampled_from((0.3, 1.1))),
    st.tuples(st.just("asks"), st.integers(0, 4), st.integers(1, 4), PREFIXES),
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
        self.peers.own = HERE
        self.known: dict[str, Known] = {}
        self.here: Tokens = 0
        self.open: list[tuple[str | None, Tokens, object]] = []

    def hears(self, name: str, tokens: Tokens, takes: bool) -> None:
        self.peers.heard(WriterId(name), Load(name, tokens, takes))
        self.known[name] = Known(tokens, takes, self.now)

    def asks(self, prompt: Tokens, output: Tokens, prefix: Prefix | None) -> None:
        request = Expected(prompt, output, prefix)
        chosen = self.peers.better(request)
        able = {name: each.has() for name, each in self.known.items() if each.takes and self.now - each.at <= FRESH}
        took = None if chosen is None else chosen.load.address
        price = self.prices(able, request)
        at_home = prefix is not None and prefix.home == (took or HERE)
        tokens = prompt + output - (min(prompt, prefix.tokens) if prefix is not None and at_home else 0)
        assert tokens == request.left_to(WriterId(took or HERE))
        assert price[took] == min(price.values())
        assert took is None or price[took] < price[None]
        if chosen is None:
            self.here += tokens
            serving = self.peers.serving(tokens)
            serving.__enter__()
            self.open.append((None, tokens, serving))
        else:
            self.known[chosen.load.address].since.append(tokens)
            sending = self.peers.sending(chosen, tokens)
            sending.__enter__()
            self.open.append((chosen.load.address, tokens, sending))

    def prices(self, able: dict[str, Tokens], request: Expected) -> dict[str | None, float]:
        """What each engine, this one under None, has to have done when the request begins to be worth something."""
        has: dict[str | None, float] = {None: self.here if self.takes else math.inf, **able}
        prices = dict[str | None, float]()
        for name, outstanding in has.items():
            home = None if request.prefix is None else request.prefix.home
            at_home = home == (name or HERE)
            moves = 0 if name is None or at_home else request.prompt + request.output
            prices[name] = outstanding + moves + (0 if home is None or at_home else REREAD * request.prompt)
        return prices

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
    assert peers.better(Expected(0, 1)) is None
    peers.heard(WriterId("other"), Load("there", 0, takes=True))
    found = peers.better(Expected(0, 1))
    assert isinstance(found, Peer)
    found.does_not_take()
    assert peers.better(Expected(0, 1)) is None
    peers.heard(WriterId("other"), Load("there", 0, takes=True))
    assert peers.better(Expected(0, 1)) is found
    now[0] += FRESH + 0.1
    assert peers.better(Expected(0, 1)) is None
    assert not peers.known


def test_a_sidecar_without_a_port_for_others_passes_nothing_on() -> None:
    peers = Peers("", lambda: 0.0)
    assert peers.load is None
    peers.heard(WriterId("other"), Load("there", 0, takes=True))
    peers.outstanding = 100
    assert peers.better(Expected(0, 1)) is None


def test_a_run_stays_at_its_home_unless_that_is_behind_by_more_than_its_prompt_is_worth() -> None:
    peers = Peers("here", lambda: 0.0)
    peers.own = HERE
    at_home, elsewhere = Expected(100, 10, Prefix(WriterId("a"), 90)), Expected(100, 10)
    for outstanding, home, other in ((499, "a", "b"), (610, "a", "b"), (611, "b", "b")):
        peers.heard(WriterId("a"), Load("a", outstanding, takes=True))
        peers.heard(WriterId("b"), Load("b", 0, takes=True))
        peers.outstanding = 1000
        found = peers.better(at_home), peers.better(elsewhere)
        assert [peer and peer.writer for peer in found] == [home, other]
    assert [at_home.left_to(engine) for engine in (WriterId("a"), WriterId("b"), HERE)] == [20, 110, 110]
