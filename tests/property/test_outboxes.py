"""What clients do not read is bounded in all, and a tenant that holds no more than an equal part loses nothing.

The oracle adds up what each tenant was given to hold and has not lost; it knows nothing of outboxes.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from hypothesis import find, given
from hypothesis import strategies as st

from justitia_scheduling.model import TenantId
from justitia_sidecar.outbox import Outbox, Outboxes

MOST = 24
TENANTS = 4

Step = tuple[int, int, int]
"""A tenant, one of its answers, and so many bytes more of it."""

steps = st.lists(st.tuples(st.integers(0, TENANTS - 1), st.integers(0, 2), st.integers(1, 9)), max_size=40)


@dataclass
class Client:
    """The connection of one, as an outbox sees it. It reads nothing."""

    congested: bool = True
    given_up: bool = False

    def abort(self) -> None:
        self.given_up = True


@dataclass
class Lost:
    """Tenants that lost an answer while they held no more than an equal part."""

    wronged: set[int] = field(default_factory=set)
    most_held: int = 0


async def send(message: Any) -> None:
    raise AssertionError


def play(history: list[Step], outboxes: Outboxes) -> Lost:
    lost = Lost()
    answers: dict[tuple[int, int], tuple[Outbox, Client]] = {}
    held: defaultdict[tuple[int, int], int] = defaultdict(int)
    for tenant, answer, size in history:
        key = (tenant, answer)
        if key not in answers or answers[key][1].given_up:
            client = Client()
            answers[key] = Outbox(outboxes, TenantId(str(tenant)), send, client), client
        held[key] += size
        before = {t: sum(n for (owner, _), n in held.items() if owner == t) for t in range(TENANTS)}
        answers[key][0].hold(b"x" * size)
        for other, (_, client) in answers.items():
            if client.given_up and held.pop(other, 0) and before[other[0]] <= MOST / TENANTS:
                lost.wronged.add(other[0])
        lost.most_held = max(lost.most_held, sum(held.values()))
        assert outboxes.held == sum(held.values())
    return lost


@given(steps)
def test_what_is_held_is_bounded_and_who_holds_little_loses_nothing(history: list[Step]) -> None:
    lost = play(history, Outboxes(MOST))
    assert lost.most_held <= MOST
    assert not lost.wronged


def test_the_oracle_finds_who_is_wronged_where_the_last_one_gives_way() -> None:
    class LastGivesWay(Outboxes):
        def changed(self, outbox: Outbox, size: int) -> None:
            super().changed(outbox, size)
            if size > 0 and self.held > MOST:
                outbox.give_up()

    assert find(steps, lambda history: bool(play(history, LastGivesWay(10**9)).wronged))
