"""Whose KV is kept when a sequence ends, and when it goes. The engine is a table of contexts."""

from collections.abc import Callable

from justitia_channel.messages import Configure, Ticket
from justitia_engine.host import EngineHost, SequenceName
from justitia_engine.keeping import MEMORY, REMEMBERED, Context
from justitia_engine.untold import StepDone
from justitia_scheduling.core.cost import EngineTime
from justitia_scheduling.core.kept import MOST
from justitia_scheduling.core.step_time import PRIOR
from justitia_scheduling.policies.fcfs import FCFS
from justitia_vocabulary.units import ApplicationId, RequestId, RunId, TenantId

TOKENS, KV_TOKENS = 100, 10_000
TALKS, ONE_SHOT = ApplicationId("ns/talks"), ApplicationId("ns/one-shot")


class Blocks:
    """Each sequence writes a context of its own; `begins` says with which one each begins."""

    def __init__(self) -> None:
        self.begins: dict[RequestId, RequestId] = {}
        self.held: list[RequestId] = []

    def written(self, sequence: RequestId) -> Context | None:
        return Context(TOKENS, ((4, sequence),))

    def begins_with(self, sequence: RequestId, context: Context) -> bool:
        return (4, self.begins.get(sequence)) in context.marks

    def hold(self, sequence: RequestId, context: Context) -> Callable[[], None]:
        self.held.append(sequence)
        return lambda: self.held.remove(sequence)


class Room:
    """A host, and what a test does with it. Times stand still; each turn is a request with its ticket."""

    def __init__(self, policy: str = "vtc", cost_model: str = "engine-time") -> None:
        self.blocks = Blocks()
        self.host = EngineHost(FCFS(EngineTime(PRIOR)), KV_TOKENS, 0.0, lambda _: 1, self.blocks)
        self.host.configure(Configure(1, policy, cost_model, {"gold": 1.0, "silver": 1.0}), 0.0)
        self.turns = 0

    def arrives(
        self, run: str, after: RequestId | None = None, application: ApplicationId = TALKS, tenant: str = "gold"
    ) -> RequestId:
        self.turns += 1
        name = SequenceName(RequestId(f"{run}/{self.turns}"), f"key{self.turns}", 0)
        if after is not None:
            self.blocks.begins[name.id] = after
        self.host.ticket(Ticket(name.key, TenantId(tenant), application, RunId(run)), 0.0)
        self.host.queued(name, 50, 0.0)
        return name.id

    def ends(self, sequence: RequestId) -> None:
        self.host.ends(sequence, 0.0)
        self.host.closed(sequence, 1, True, 0.0)

    def turn(self, run: str, after: RequestId | None = None, application: ApplicationId = TALKS) -> RequestId:
        sequence = self.arrives(run, after, application)
        self.host.admitted(sequence, 0, 0.0)
        self.ends(sequence)
        return sequence

    def talk(self, run: str, turns: int, application: ApplicationId = TALKS) -> RequestId:
        last = self.turn(run, None, application)
        for _ in range(turns - 1):
            last = self.turn(run, last, application)
        return last

    def over(self, run: str) -> None:
        self.host.run_ended(RunId(run), 0.0)

    def iterations(self, number: int) -> None:
        for _ in range(number):
            self.host.stepped(StepDone(1, 1, 0, (), 0.01))


def learnt() -> Room:
    """A room that has seen one long conversation, whose run is over."""
    room = Room()
    room.talk("known", 2 * MEMORY)
    room.over("known")
    return room


def test_contexts_are_kept_once_most_have_been_taken_up() -> None:
    room = Room()
    last = room.turn("a")
    kept = []
    for _ in range(2 * MEMORY):
        last = room.turn("a", last)
        kept.append(bool(room.blocks.held))
    assert not kept[0]
    assert kept[-1]
    assert kept == sorted(kept)


def test_the_next_turn_takes_over_and_its_tenant_pays_for_what_was_held() -> None:
    room = learnt()
    last = room.turn("a")
    assert room.blocks.held == [last]
    room.iterations(3)
    before = room.host.policy.kv_token_time[TenantId("gold")]
    waiting = room.arrives("a", last)
    assert room.blocks.held == [last], "it is kept while the next turn waits"
    taken, given = room.host.keeping.taken_over, room.host.keeping.given_up
    room.host.admitted(waiting, 40, 0.0)
    assert not room.blocks.held
    assert room.host.policy.kv_token_time[TenantId("gold")] - before == 3 * TOKENS
    assert (room.host.keeping.taken_over, room.host.keeping.given_up) == (taken + 1, given)


def test_requests_that_nobody_goes_on_from_are_not_kept() -> None:
    room = learnt()
    for i in range(3):
        room.turn(f"shot{i}", application=ONE_SHOT)
    room.turn("two")
    room.turn("two", application=ONE_SHOT)
    assert [name for name in room.blocks.held if "shot" in name] == []


def test_an_application_that_stops_going_on_is_not_kept_any_more() -> None:
    room = learnt()
    for i in range(2 * MEMORY):
        room.turn(f"r{i}")
        room.over(f"r{i}")
    room.turn("last")
    assert not room.blocks.held


def test_a_run_that_ends_keeps_nothing() -> None:
    room = learnt()
    room.turn("a")
    assert room.blocks.held
    room.over("a")
    assert not room.blocks.held
    assert room.host.keeping.kept.tokens == 0


def test_what_ends_last_of_an_ending_run_is_not_kept() -> None:
    room = learnt()
    sequence = room.arrives("a")
    room.host.admitted(sequence, 0, 0.0)
    room.over("a")
    room.ends(sequence)
    assert not room.blocks.held


def test_nothing_is_kept_where_nobody_would_pay() -> None:
    for cost_model in ("weighted-tokens", "kv-token-time"):
        room = Room(cost_model=cost_model)
        room.talk("a", 3 * MEMORY)
        assert not room.blocks.held


def test_a_sequence_that_leaves_before_it_was_admitted_gives_up_what_it_would_have_taken() -> None:
    room = learnt()
    last = room.turn("a")
    waiting = room.arrives("a", last)
    room.host.closed(waiting, 0, False, 0.0)
    assert not room.blocks.held


def test_a_run_of_many_parallel_contexts_remembers_the_latest() -> None:
    room = learnt()
    sequences = [room.arrives("wide") for _ in range(3 * REMEMBERED)]
    for sequence in sequences:
        room.host.admitted(sequence, 0, 0.0)
    for sequence in sequences:
        room.ends(sequence)
    assert len(room.blocks.held) <= REMEMBERED


def test_the_adversary_who_leaves_many_contexts_behind_is_the_first_to_lose_one() -> None:
    """A flood of runs fills the table of what is kept; another tenant's context stays."""
    room = learnt()
    paused = room.arrives("mine", tenant="silver")
    room.host.admitted(paused, 0, 0.0)
    room.ends(paused)
    for i in range(MOST + 20):
        opened = room.turn(f"flood{i}")
        room.iterations(1)
        room.turn(f"flood{i}", opened)
    assert len(room.blocks.held) == MOST
    assert paused in room.blocks.held


def test_a_policy_that_follows_another_charges_for_what_is_kept() -> None:
    room = learnt()
    last = room.turn("a")
    room.iterations(2)
    room.host.configure(Configure(2, "tiered-justitia", "engine-time", {"gold": 1.0, "silver": 1.0}), 0.0)
    before = room.host.policy.kv_token_time[TenantId("gold")]
    room.turn("a", last)
    assert room.host.policy.kv_token_time[TenantId("gold")] - before >= 2 * TOKENS


def test_room_is_made_for_what_runs_and_for_who_ranks_before() -> None:
    room = learnt()
    first, head = room.turn("a"), room.arrives("b")
    assert not room.host.makes_room(head, 0.0), "a arrived before b"
    assert room.host.makes_room(None, 0.0)
    assert first not in room.blocks.held
    assert not room.host.makes_room(None, 0.0)
