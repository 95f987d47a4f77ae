"""Steps told together: no time and no token is lost, and each tenant pays what it would if each step were told."""

import random
from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from justitia_channel.messages import Configure, Ticket
from justitia_engine import untold
from justitia_engine.host import EngineHost, SequenceName
from justitia_engine.untold import MOST, Reading, StepDone
from justitia_scheduling.core.cost import KVTokenTimeCost
from justitia_scheduling.policies.fcfs import FCFS
from justitia_vocabulary.units import ApplicationId, RequestId, RunId, TenantId
from support.examples import examples

PER_STEP, PER_TOKEN, PER_KV_TOKEN = 0.02, 0.0002, 0.000001


class BusyEngine:
    """Steps that take what the coefficients say, for sequences that come, read their prompt in chunks, and go."""

    def __init__(self, seed: int, most: int) -> None:
        self.rng = random.Random(seed)
        self.most = most
        self.output: defaultdict[RequestId, int] = defaultdict(int)
        self.host = EngineHost(FCFS(KVTokenTimeCost()), 100_000, 0.0, self.output.__getitem__)
        self.host.configure(Configure(1, "vtc", "engine-time", {"gold": 1.0, "silver": 1.0}), 0.0)
        self.left: dict[RequestId, list[int]] = {}  # prompt tokens to read, output tokens to make, tokens held
        self.now = 0.0
        self.longest_wait = 0
        self._came = 0

    def come(self) -> None:
        self._came += 1
        name = RequestId(f"s{self._came}")
        tenant = TenantId("gold" if self._came % 2 else "silver")
        self.host.ticket(Ticket(name, tenant, ApplicationId(f"of-{tenant}"), RunId(name)), self.now)
        prompt, output = self.rng.randint(10, 3000), self.rng.randint(1, 150)
        self.host.queued(SequenceName(name, name, 0), prompt, self.now)
        self.host.admitted(name, 0, self.now)
        self.left[name] = [prompt, output, 0]

    def step(self) -> None:
        while not self.left or (len(self.left) < self.most and self.rng.random() < 0.8):
            self.come()
        readings, tokens, held = [], 0, sum(kv for *_, kv in self.left.values())
        over = []
        for name, state in self.left.items():
            chunk = min(state[0], 1024)
            if chunk:
                readings.append(Reading(name, chunk, 0))
            state[0] -= chunk
            state[2] += chunk or 1
            tokens += chunk or 1
            if state[0] == 0:
                self.output[name] += 1
                state[1] -= 1
                if state[1] == 0:
                    over.append(name)
        duration = PER_STEP + PER_TOKEN * tokens + PER_KV_TOKEN * held
        self.now += duration
        self.host.stepped(StepDone(len(self.left), tokens, held, tuple(readings), duration))
        for name in over:
            del self.left[name]
            self.host.closed(name, self.output[name], True, self.now)
        self.host.tell_if_due(self.now)
        untold_tokens = [self.output[r.id] - r.produced for r in self.host.policy.running.values()]
        self.longest_wait = max([self.longest_wait, *untold_tokens])


def served(seed: int, most: int, steps: int) -> BusyEngine:
    engine = BusyEngine(seed, most)
    for _ in range(steps):
        engine.step()
    engine.host.tell(engine.now)
    return engine


@given(seed=st.integers(0, 2**32), most=st.integers(1, 100))
@examples(40)
def test_all_time_and_every_token_is_told(seed: int, most: int) -> None:
    engine = served(seed, most, 60)
    policy = engine.host.policy
    assert sum(policy.service.values()) == pytest.approx(engine.now)
    for request in policy.running.values():
        assert request.produced == engine.output[request.id]
        assert request.prefilled == request.request.prompt_tokens - engine.left[request.id][0]
    assert engine.longest_wait < MOST


@pytest.mark.parametrize("seed", range(3))
def test_tenants_pay_what_they_would_if_each_step_were_told(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    together = served(seed, 80, 400).host.policy.service
    monkeypatch.setattr(untold, "FEWEST", 1)
    monkeypatch.setattr(untold, "MOST", 1)
    one_by_one = served(seed, 80, 400).host.policy.service
    for tenant, charged in one_by_one.items():
        assert together[tenant] == pytest.approx(charged, rel=0.02)


def test_the_policy_hears_of_some_sequences_a_step_however_many_run() -> None:
    """Negative control of the one before: steps are in fact told together."""
    engine = served(1, 100, 200)
    assert engine.longest_wait > 10
