from typing import Any

from justitia_api.config import ApplicationConfig, RunConfig
from justitia_sidecar.admission.runs import AT_A_TIME, RunTable, TrackedRun
from justitia_vocabulary.units import ApplicationId, TenantId

GOLD = TenantId("gold")
CHAT = ApplicationId("ns/chat")


def table(maximum: int = 100) -> RunTable:
    return RunTable(lambda run, now: None, lambda run, now: None, maximum)


def enter(runs: RunTable, run: str | None, now: float, **limits: float) -> TrackedRun:
    config = RunConfig(**{"idle_timeout_seconds": 10, "maximum_age_seconds": 100, **limits})  # type: ignore[arg-type]
    return runs.enter(GOLD, ApplicationConfig(namespace="ns", name="chat", tenant="gold", run=config), run, now)


def test_requests_with_one_id_share_a_run() -> None:
    runs = table()
    assert enter(runs, "r", 0) is enter(runs, "r", 1)
    assert len(runs) == 1


def test_a_request_without_id_is_a_run_of_its_own_that_ends_with_it() -> None:
    runs = table()
    one, two = enter(runs, None, 0), enter(runs, None, 0)
    assert one is not two
    runs.leave(one, 1)
    runs.leave(two, 1)
    assert len(runs) == 0


def test_an_idle_run_stays_open_until_its_timeout() -> None:
    runs = table()
    runs.leave(enter(runs, "r", 0), 1)
    runs.expire(10.9)
    assert len(runs) == 1
    runs.expire(11)
    assert len(runs) == 0


def test_each_run_expires_by_the_timeout_of_its_application() -> None:
    runs = table()
    for name, ended, timeout in (("soon", 3, 5), ("late", 1, 20), ("next", 2, 10)):
        runs.leave(enter(runs, name, 0, idle_timeout_seconds=timeout), ended)
    left = []
    for now in (7.9, 8, 12, 21):
        runs.expire(now)
        left.append([run.name for run in runs.open])
    assert left == [["soon", "late", "next"], ["late", "next"], ["late"], []]


def test_a_run_that_is_used_again_expires_after_its_last_request() -> None:
    runs = table()
    for name, ended in (("used", 1), ("idle", 2)):
        runs.leave(enter(runs, name, 0), ended)
    runs.leave(enter(runs, "used", 5), 6)
    runs.expire(12)
    assert [run.name for run in runs.open] == ["used"]
    runs.expire(16)
    assert len(runs) == 0


class CountedMoment(float):
    """A moment that counts how often it is computed or compared with."""

    uses = 0

    def _counted(self, operation: str, other: float) -> Any:
        CountedMoment.uses += 1
        return getattr(float(self), operation)(other)

    def __sub__(self, other: float) -> Any:
        return self._counted("__sub__", other)

    def __ge__(self, other: float) -> Any:
        return self._counted("__ge__", other)

    def __le__(self, other: float) -> Any:
        return self._counted("__le__", other)


def test_runs_that_stay_are_not_looked_at_when_others_expire() -> None:
    runs = table(maximum=10_000)
    for number in range(1000):
        runs.leave(enter(runs, f"r{number}", 0, idle_timeout_seconds=10 + number % 3), number / 1000)
    CountedMoment.uses = 0
    runs.expire(CountedMoment(10.0))
    assert len(runs) == 999
    assert 0 < CountedMoment.uses <= 10


def test_a_run_with_open_requests_does_not_expire() -> None:
    runs = table()
    enter(runs, "r", 0)
    runs.expire(1000)
    assert len(runs) == 1


def test_the_client_ends_a_run_whose_requests_go_on() -> None:
    runs = table()
    first = enter(runs, "r", 0)
    assert runs.end(GOLD, CHAT, "r", 1)
    assert not runs.end(GOLD, CHAT, "r", 1)
    assert enter(runs, "r", 2) is not first
    assert len(runs) == 2
    runs.leave(first, 3)
    assert len(runs) == 1


def test_the_last_request_ends_its_run() -> None:
    runs = table()
    one, two = enter(runs, "r", 0), enter(runs, "r", 0)
    runs.leave(one, 1, ends=True)
    assert len(runs) == 1
    runs.leave(two, 2)
    assert len(runs) == 0


def test_a_run_past_its_age_is_followed_by_a_new_one() -> None:
    runs = table()
    first = enter(runs, "r", 0)
    assert enter(runs, "r", 99) is first
    assert enter(runs, "r", 100) is not first


def test_a_run_past_its_cost_is_followed_by_a_new_one() -> None:
    runs = table()
    first = enter(runs, "r", 0, maximum_cost=1000)
    first.cost = 1000
    assert enter(runs, "r", 1, maximum_cost=1000) is not first


def test_a_flood_of_run_ids_is_bounded_and_ends_the_longest_idle_first() -> None:
    runs = table(maximum=3)
    for i in range(50):
        runs.leave(enter(runs, f"r{i}", i / 1000), i / 1000)
    assert len(runs) == 3
    assert runs.end(GOLD, CHAT, "r49", 1)
    assert not runs.end(GOLD, CHAT, "r46", 1)


def test_a_flood_of_run_ids_ends_no_run_of_another_tenant_within_its_due() -> None:
    runs = table(maximum=4)
    runs.reweight({GOLD: 1.0, TenantId("silver"): 1.0})
    silver = ApplicationConfig(namespace="ns", name="chat", tenant="silver")
    for name in ("first", "second"):
        runs.leave(runs.enter(TenantId("silver"), silver, name, 0), 0)
    for i in range(50):
        runs.leave(enter(runs, f"r{i}", 1 + i / 1000), 1 + i / 1000)
    assert len(runs) == 4
    assert all(runs.is_open(TenantId("silver"), CHAT, name, 2) for name in ("first", "second"))
    assert all(runs.is_open(GOLD, CHAT, name, 2) for name in ("r48", "r49"))
    runs.leave(runs.enter(TenantId("silver"), silver, "third", 2), 2)
    assert not runs.is_open(TenantId("silver"), CHAT, "first", 2)


def test_runs_with_open_requests_pass_the_bound_until_one_is_idle() -> None:
    runs = table(maximum=1)
    one, _ = enter(runs, "r", 0), enter(runs, "s", 0)
    assert len(runs) == 2
    runs.leave(one, 1)
    assert len(runs) == 1


def test_the_same_id_of_another_tenant_is_another_run() -> None:
    runs = table()
    other = ApplicationConfig(namespace="ns", name="chat", tenant="silver")
    assert enter(runs, "r", 0) is not runs.enter(TenantId("silver"), other, "r", 0)


def test_what_a_run_cost_by_the_end_of_each_stage_is_told_with_its_end() -> None:
    runs = table()
    ended: list[TrackedRun] = []
    runs.on_ended = ended.append

    first, beside = enter(runs, "r", 0), enter(runs, "r", 0)
    first.cost += 11
    runs.leave(first, 1)
    first.cost += 11
    runs.leave(beside, 2)
    enter(runs, "r", 3).cost += 11
    assert not ended
    runs.leave(first, 3, ends=True)
    assert ended == [first]
    assert first.stages == [2 * 11, 3 * 11]
    assert (first.cost, first.aborted) == (3 * 11, False)


def test_a_run_is_open_from_its_first_request_until_it_is_spent() -> None:
    runs = table()
    assert not runs.is_open(GOLD, CHAT, "r", 0)
    runs.leave(enter(runs, "r", 0), 1)
    assert runs.is_open(GOLD, CHAT, "r", 2)
    assert not runs.is_open(GOLD, CHAT, None, 2)
    assert not runs.is_open(GOLD, CHAT, "r", 12)


def test_where_other_sidecars_know_of_them_fewer_runs_may_be_open_and_they_end_in_pieces() -> None:
    runs = table(maximum=1000)
    for number in range(200):
        runs.leave(enter(runs, f"r{number}", 0), 0)
    runs.most_of_pool = 100
    runs.expire(1)
    assert len(runs) == 200 - AT_A_TIME
    runs.expire(1)
    assert len(runs) == 100
    runs.most_of_pool = None
    for number in range(200, 400):
        runs.leave(enter(runs, f"r{number}", 2), 2)
    assert len(runs) == 300
