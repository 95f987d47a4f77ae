"""A request that is expected to miss an objective when it arrives: what its answer says, and what becomes of it."""

import json
import random
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from justitia_api.config import (
    ApplicationConfig,
    KeyEntry,
    KeyTable,
    PoolConfig,
    SchedulingConfig,
    ServiceLevelObjective,
    TenantConfig,
    key_digest,
)
from justitia_channel.messages import PlugInSnapshot
from justitia_scheduling.core.cost import StepTime
from justitia_scheduling.core.lazyheap import SLACK
from justitia_scheduling.core.report import PolicyReport
from justitia_sidecar.admission.amounts import Amounts
from justitia_sidecar.admission.outputs import OutputMeans
from justitia_sidecar.admission.runs import TrackedRun
from justitia_sidecar.engine.client import EngineClient
from justitia_sidecar.metrics import SidecarMetrics
from justitia_sidecar.objectives.objectives import Objectives
from justitia_sidecar.service import Sidecar
from justitia_vocabulary.objectives import BeyondObjective, MetricName
from justitia_vocabulary.policies import PolicyName
from justitia_vocabulary.units import ApplicationId, RunId, TenantId
from support.learning_room import Clock
from support.listening_channel import Listening
from support.misbehaving_engine import MisbehavingEngine
from support.objectives import objective
from support.sidecar_client import BODY, GOLD, KEY, PEPPER, Client, assert_nothing_left, engine_answers, pool
from support.tracked import tracked_request

EPOCH = 1.8e9
FIRST, PACE, REQUEST, RUN = MetricName
SAY, DEFER, REFUSE = BeyondObjective
ENGINE = PolicyReport(gamma=0.1, gamma_estimate=0.1)
STEP = StepTime(per_step=0.02, per_token=0.0001, per_kv_token=0.0)
MEAN = 100
EACH = 0.0001 * 50 + MEAN * (0.02 + 0.0001)
"""The work of a request that waits, in engine seconds: 50 prompt tokens, and the mean output by itself."""
READING = 0.02 + 3 * 0.0001
BEYOND = b"x-justitia-beyond-objective"


def config(
    *objectives: ServiceLevelObjective,
    action: BeyondObjective = SAY,
    policy: PolicyName = PolicyName.TIERED_JUSTITIA,
    generation: int = 1,
) -> PoolConfig:
    mine = ApplicationConfig(namespace="ns", name="a", tenant="gold", objectives=objectives, beyond_objective=action)
    theirs = ApplicationConfig(namespace="ns", name="b", tenant="silver")
    return pool(
        generation,
        scheduling=SchedulingConfig(policy=policy, enforcement="Engine"),
        tenants=(TenantConfig(name="gold", weight=1), TenantConfig(name="silver", weight=1)),
        applications=(mine, theirs),
    )


class Stage:
    """A sidecar whose engine takes what it gets, and of which a test says what waits."""

    def __init__(self, sidecar: Sidecar, channel: Listening) -> None:
        self.sidecar = sidecar
        self.channel = channel

    def configure(self, *objectives: ServiceLevelObjective, **how: Any) -> None:
        self.sidecar.parts.current.put_config(config(*objectives, generation=2, **how))

    def waits(self, number: int, tenant: str = "gold", *, boosted_for: float | None = 60.0) -> None:
        """So many requests of the tenant's application have not begun."""
        in_effect, now = self.sidecar.parts.current.configured(), self.sidecar.parts.clock()
        [application] = [each for each in in_effect.config.applications if each.tenant == tenant]
        for _ in range(number):
            admission = in_effect.admission
            run = admission.books.runs.enter(TenantId(tenant), application, None, now)
            name = f"{tenant} {len(admission.books.requests)}"
            admission.enter(tracked_request(name, run, boosted_for=boosted_for, arrival=now), now)

    def has_seen(self, output: int) -> None:
        """All that is known of outputs is one request of that length."""
        books = self.sidecar.parts.current.configured().admission.books
        books.outputs = OutputMeans()
        books.outputs.observe(ApplicationId("ns/a"), output)

    def value(self, name: str, **labels: str) -> float:
        return self.sidecar.parts.metrics.registry.get_sample_value(name, labels) or 0.0

    def counted(self) -> dict[MetricName, tuple[int, int]]:
        """Values and misses of the objectives, once they are known."""
        counts = self.sidecar.parts.objectives.counts(self.sidecar.parts.clock() + 4000.0)
        return {each.objective.metric: (each.counted[0].total, each.counted[0].missed) for each in counts}


@pytest.fixture
async def stage(engine: MisbehavingEngine) -> AsyncIterator[Stage]:
    async with EngineClient.session() as session:
        channel = Listening()
        channel.state = PlugInSnapshot(policy=ENGINE, step_time=STEP)
        url = EngineClient(engine.url, session)
        sidecar = Sidecar(url, SidecarMetrics(), Clock(), channel, objectives=Objectives(EPOCH))
        entry = KeyEntry(digest=key_digest(PEPPER, KEY), tenant=GOLD)
        sidecar.parts.current.put_keys(KeyTable(pepper=PEPPER, keys=(entry,)))
        sidecar.parts.current.put_config(config(objective()))
        await engine_answers(sidecar)
        stage = Stage(sidecar, channel)
        stage.has_seen(MEAN)
        yield stage


async def said(stage: Stage, **more: Any) -> str | None:
    """What the answer says of the objective."""
    client = await Client(stage.sidecar, **more).run()
    assert client.status == 200
    found = dict(client.sent[0]["headers"]).get(BEYOND)
    return None if found is None else found.decode()


async def test_say_says_what_is_expected_and_changes_nothing(stage: Stage) -> None:
    stage.waits(1)
    assert await said(stage) == f"TimeToFirstToken; expected={EACH + READING:.4g}; bound=1"
    assert stage.channel.tickets()[-1].boosted_for == 1.0
    assert stage.value("justitia_beyond_objective_total", tenant="gold", application="ns/a", action="Say") == 1


async def test_defer_takes_no_place_from_those_that_can_still_meet_it(stage: Stage) -> None:
    stage.configure(objective(), action=DEFER)
    stage.waits(1)
    assert await said(stage) == f"TimeToFirstToken; expected={EACH + READING:.4g}; bound=1; deferred"
    assert stage.channel.tickets()[-1].boosted_for is None


async def test_what_was_deferred_stands_before_nobody(stage: Stage) -> None:
    """Otherwise everything would be deferred for as long as something deferred waits."""
    stage.configure(objective(), action=DEFER)
    stage.waits(3, boosted_for=None)
    assert await said(stage) is None
    assert stage.channel.tickets()[-1].boosted_for == 1.0


async def test_what_is_late_already_stands_before_nobody(stage: Stage) -> None:
    """Its boost is over: it makes way for what can still be in time."""
    stage.waits(2, boosted_for=10.0)
    clock = stage.sidecar.parts.clock
    assert isinstance(clock, Clock)
    assert await said(stage) is not None
    stage.has_seen(MEAN)
    clock.now += 10.0
    assert await said(stage) is None


async def test_refuse_says_what_to_do(stage: Stage) -> None:
    stage.configure(objective(), action=REFUSE)
    stage.waits(2)
    client = await Client(stage.sidecar).run()
    assert (client.status, client.code) == (503, "beyond_objective")
    assert dict(client.sent[0]["headers"])[b"retry-after"] == b"4", "4.05 s are expected, 1 s is the bound"
    assert json.loads(client.answer)["error"]["message"] == (
        "Time to first token is expected after 4.05 s, by what waits before this request, and the application's "
        "objective is 1 s: retry later, or send less at a time."
    )
    assert not stage.channel.tickets()
    assert stage.value("justitia_refusals_total", reason="beyond_objective") == 1


async def test_refusing_makes_no_objective_look_met(stage: Stage) -> None:
    """What is refused is a miss of the objectives that it was expected to miss, and of no other."""
    stage.configure(objective(window=36_000), objective(REQUEST, 3_600_000, window=36_000), action=REFUSE)
    stage.waits(2)
    for _ in range(3):
        assert (await Client(stage.sidecar).run()).status == 503
    assert stage.counted() == {FIRST: (3, 3), REQUEST: (0, 0)}


async def test_a_request_before_which_nothing_waits_is_never_refused(stage: Stage) -> None:
    """It would be refused for ever, and nothing would be learned any more."""
    stage.configure(objective(bound=1), action=REFUSE)
    stage.waits(5, "silver")
    assert await said(stage) == f"TimeToFirstToken; expected={READING:.4g}; bound=0.001"


@pytest.mark.parametrize("action", list(BeyondObjective))
async def test_nothing_is_said_where_nothing_is_known(stage: Stage, action: BeyondObjective) -> None:
    stage.configure(objective(), action=action)
    stage.waits(3)
    stage.channel.state = PlugInSnapshot(policy=ENGINE)
    assert await said(stage) is None, "the engine has not said how long a step takes"
    stage.channel.state = PlugInSnapshot(policy=ENGINE, step_time=STEP)
    books = stage.sidecar.parts.current.configured().admission.books
    books.outputs = OutputMeans()
    assert await said(stage) is None, "nothing of the application has finished"


@pytest.mark.parametrize(
    ("objectives", "how", "body"),
    [
        ((), {}, {}),
        ((objective(PACE, 1),), {}, {}),
        ((objective(RUN, 1),), {}, {}),
        ((objective(),), {}, {"stream": False}),
        ((objective(), objective(bound=60_000, percentile=99)), {}, {}),
        ((objective(),), {"policy": PolicyName.VTC}, {}),
    ],
    ids=["no objective", "pace", "runs", "a whole answer", "a larger bound", "no gamma"],
)
async def test_only_what_a_queue_decides_and_the_answer_shows_is_expected(
    stage: Stage, objectives: tuple[ServiceLevelObjective, ...], how: dict[str, Any], body: dict[str, Any]
) -> None:
    stage.configure(*objectives, action=REFUSE, **how)
    stage.waits(5)
    client = await Client(stage.sidecar, body=json.dumps(BODY | body).encode()).run()
    assert client.code != "beyond_objective" if client.status != 200 else True
    assert BEYOND not in dict(client.sent[0]["headers"])


async def test_a_completion_is_expected_with_its_own_output(stage: Stage) -> None:
    """`max_tokens` ends the output, and a client gains by it what it saves the engine."""
    stage.configure(objective(REQUEST, 3000))
    stage.waits(1)
    expected = EACH + READING + (MEAN - 1) * 0.02
    longer = json.dumps(BODY | {"max_tokens": 500}).encode()
    assert await said(stage, body=longer) == f"RequestCompletion; expected={expected:.4g}; bound=3"
    stage.has_seen(MEAN)
    assert await said(stage) is None


async def test_a_flood_of_another_tenant_counts_for_its_share_only(stage: Stage) -> None:
    stage.configure(objective(bound=9000), action=REFUSE)
    stage.waits(2)
    stage.waits(100, "silver")
    assert await said(stage) is None, "two of its own, and as much of the other"
    stage.has_seen(MEAN)
    stage.waits(1)
    assert (await Client(stage.sidecar).run()).code == "beyond_objective"


async def test_nothing_is_left_of_a_refused_request(stage: Stage) -> None:
    stage.configure(objective(), action=REFUSE)
    stage.waits(1)
    admission = stage.sidecar.parts.current.configured().admission
    [waits] = admission.books.requests.values()
    assert (await Client(stage.sidecar).run()).status == 503
    admission.leave(waits, 0.0, completed=False)
    assert_nothing_left(stage.sidecar)
    assert not admission.books.amounts.waiting


def test_what_is_over_leaves_nothing_behind_however_long_its_boost_would_last() -> None:
    amounts, application = Amounts(), config().applications[0]
    run = TrackedRun(RunId("r"), GOLD, application, None, 0.0, 0.0)
    for number in range(1000):
        request = tracked_request(str(number), run, boosted_for=86_400.0)
        amounts.enter(request, MEAN)
        if number % 2:
            amounts.begin(request)
        amounts.leave(request)
    assert len(amounts._lapses) == 0
    assert len(amounts._lapses._heap) <= SLACK + 1
    assert not amounts.waiting
    assert not amounts.asked


@given(st.integers(0, 2**32), st.integers(1, 40))
def test_amounts_are_those_of_the_requests_that_are_there(seed: int, steps: int) -> None:
    """Against a recount of everything after each step."""
    chance, amounts = random.Random(seed), Amounts()
    there: dict[str, Any] = {}
    for step in range(steps):
        waiting = [name for name, (_, begun) in there.items() if not begun]
        match chance.choice(["enter", "enter", "begin", "leave", "lapse"]):
            case "lapse":
                amounts.lapse(10.0)
            case "enter":
                application = config().applications[chance.randrange(2)]
                run = TrackedRun(RunId("r"), TenantId(application.tenant), application, None, 0.0, 0.0)
                request = tracked_request(
                    str(step),
                    run,
                    prompt=chance.randrange(100),
                    sequences=chance.randint(1, 3),
                    boosted_for=chance.choice([None, 10.0, 20.0]),
                )
                there[str(step)] = (request, False)
                amounts.enter(request, MEAN)
            case "begin" if waiting:
                name = chance.choice(waiting)
                request, _ = there[name]
                there[name] = (request, True)
                amounts.begin(request)
                request.account.prompt += 7
            case "leave" if there:
                request, _ = there.pop(chance.choice(list(there)))
                amounts.leave(request)
    amounts.lapse(10.0)
    found: Counter[tuple[str, str, bool]] = Counter()
    for tenant, of_tenant in amounts.waiting.items():
        for name, amount in of_tenant.items():
            found[tenant, name, True] = amount.boosted.sequences
            found[tenant, name, False] = amount.others.sequences
    expected: Counter[tuple[str, str, bool]] = Counter()
    for request, begun in there.values():
        if not begun:
            boosted = request.boosted_for == 20.0
            expected[request.tenant, request.application, boosted] += request.asks.sequences
    assert +found == expected
    for tenant, demand in amounts.asked.items():
        waiting = [r for r, begun in there.values() if not begun and r.tenant == tenant]
        assert demand.outputs == MEAN * sum(r.asks.sequences for r in waiting) > 0
    assert amounts.asked.keys() == amounts.waiting.keys()
    assert amounts.begun.sequences == sum(r.asks.sequences for r, begun in there.values() if begun)
    if not there:
        assert not amounts.begun.prompts
