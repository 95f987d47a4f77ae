"""All that tenants make us hold is bounded, and a tenant within its due loses nothing and is refused nothing.

The oracle adds up what each tenant was given to hold and has not lost; it knows nothing of how who gives way is found.
"""

from collections import defaultdict
from dataclasses import dataclass, field

from hypothesis import find, given
from hypothesis import strategies as st

from justitia_sidecar.limits.held import HeldBytes, HeldKind, Holding
from justitia_vocabulary.units import TenantId

CAPACITY = 24
WEIGHTS = {TenantId("a"): 4.0, TenantId("b"): 1.0, TenantId("c"): 0.5, TenantId("d"): 1.0}

Step = tuple[TenantId, HeldKind, int, int]
"""A tenant, what it holds, which of these, and its size from now on."""

steps = st.lists(
    st.tuples(st.sampled_from(list(WEIGHTS)), st.sampled_from(HeldKind), st.integers(0, 1), st.integers(0, 12)),
    max_size=40,
)


@dataclass
class Seen:
    """Tenants that lost something, or were refused, within their due; the most that was held at a time."""

    wronged: set[TenantId] = field(default_factory=set)
    most_held: int = 0


def play(history: list[Step], account: HeldBytes) -> Seen:
    seen = Seen()
    account.reweight(WEIGHTS)
    holdings: dict[tuple[TenantId, HeldKind, int], Holding] = {}
    sizes: defaultdict[Holding, int] = defaultdict(int)
    lost: list[Holding] = []
    for tenant, kind, number, size in history:
        key = tenant, kind, number
        if key not in holdings:
            holding = Holding(tenant, kind, lambda key=key: lost.append(holdings[key]))  # type: ignore[misc]
            holdings[key] = holding
        holding = holdings[key]
        wanted = {**sizes, holding: size}
        holds = {t: sum(n for each, n in wanted.items() if each.tenant == t) for t in WEIGHTS}
        total_weight = sum(WEIGHTS[t] for t in WEIGHTS if holds[t] or t == tenant)
        within = {t for t in WEIGHTS if holds[t] <= CAPACITY * WEIGHTS[t] / total_weight}
        if account.put(holding, size):
            sizes[holding] = size
        elif tenant in within:
            seen.wronged.add(tenant)
        for each in lost:
            assert each is not holding
            sizes[each] = 0
            seen.wronged |= {each.tenant} & within
        lost.clear()
        assert account.total == sum(sizes.values())
        assert {t: account.held(t) for t in WEIGHTS} == {
            t: sum(n for each, n in sizes.items() if each.tenant == t) for t in WEIGHTS
        }
        seen.most_held = max(seen.most_held, account.total)
    return seen


@given(steps)
def test_what_is_held_is_bounded_and_nobody_within_its_due_pays(history: list[Step]) -> None:
    seen = play(history, HeldBytes(CAPACITY))
    assert seen.most_held <= CAPACITY
    assert not seen.wronged


def test_the_oracle_finds_who_is_wronged_where_the_first_to_come_keep_all() -> None:
    class FirstComeFirstServed(HeldBytes):
        def put(self, holding: Holding, size: int) -> bool:
            full = self.total + size - holding.size > CAPACITY
            return not full and super().put(holding, size)

    assert find(steps, lambda history: bool(play(history, FirstComeFirstServed(CAPACITY)).wronged))


def gone(account: HeldBytes, *entries: tuple[str, HeldKind, int]) -> list[tuple[str, HeldKind, int]]:
    """Those that gave way when the last one came; the last one too if it was refused."""
    left: list[tuple[str, HeldKind, int]] = []
    for entry in entries:
        holding = Holding(TenantId(entry[0]), entry[1], lambda entry=entry: left.append(entry))  # type: ignore[misc]
        if not account.put(holding, entry[2]):
            left.append(entry)
    return left


def test_lessons_go_before_bodies_and_bodies_before_answers() -> None:
    lesson, body, answer = ("a", HeldKind.LESSON, 8), ("a", HeldKind.BODY, 8), ("a", HeldKind.ANSWER, 8)
    light = [("b", HeldKind.BODY, 8)] * 3
    assert gone(HeldBytes(24), answer, body, lesson, light[0]) == [lesson]
    assert gone(HeldBytes(16), answer, body, light[0]) == [body]
    assert gone(HeldBytes(12), answer, light[0]) == [light[0]]  # it would hold as much as the other one
    assert gone(HeldBytes(12), answer, ("b", HeldKind.BODY, 6)) == [answer]


def test_for_its_own_body_a_tenant_loses_lessons_and_nothing_else() -> None:
    lesson, body, answer = ("a", HeldKind.LESSON, 8), ("a", HeldKind.BODY, 8), ("a", HeldKind.ANSWER, 8)
    assert gone(HeldBytes(20), answer, lesson, body) == [lesson]
    assert gone(HeldBytes(12), answer, body) == [body]
    assert gone(HeldBytes(12), answer, lesson) == [lesson]


def test_of_its_answers_the_largest_goes() -> None:
    small, large, new = ("a", HeldKind.ANSWER, 2), ("a", HeldKind.ANSWER, 8), ("a", HeldKind.ANSWER, 4)
    assert gone(HeldBytes(12), small, large, new) == [large]


def test_what_is_pinned_stays() -> None:
    account = HeldBytes(12)
    pinned = Holding(TenantId("a"), HeldKind.BODY, lambda: None)
    account.put(pinned, 10)
    account.pin(pinned)
    assert gone(account, ("b", HeldKind.BODY, 4)) == [("b", HeldKind.BODY, 4)]
    account.put(pinned, 0)
    assert gone(account, ("b", HeldKind.BODY, 4)) == []
