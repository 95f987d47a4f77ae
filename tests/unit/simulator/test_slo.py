"""What stands beside simulated engines sees what their results say, and moves gamma."""

from dataclasses import dataclass, field

import pytest
from msgspec import structs

from justitia_scheduling.core.cost import WeightedTokens
from justitia_scheduling.objectives.attainment import counted
from justitia_scheduling.objectives.objective import Objective
from justitia_scheduling.objectives.observations import ObjectiveId
from justitia_scheduling.objectives.slo import PERIOD, GammaController
from justitia_scheduling.policies.uniboost import UniBoost
from justitia_simulator.engine import Engine
from justitia_simulator.inference import Inference
from justitia_simulator.mixes import LIGHT_REASONING, reasoning_mix
from justitia_simulator.profiles import find_profile
from justitia_simulator.records import PolicyResults
from justitia_simulator.slo import Declared, SloControl
from justitia_simulator.summary import tpot, ttft, ttlt
from justitia_simulator.workload import WorkloadRun
from justitia_vocabulary.objectives import MetricName
from justitia_vocabulary.units import Seconds

H100 = structs.replace(find_profile("h100-llama2-7b"), token_budget=1024, kv_tokens=20_000)


def workload(count: int = 120, rho: float = 2.0) -> list[WorkloadRun]:
    return reasoning_mix(count, 0.2, seed=1, rho=rho, service_seconds=lambda request: 1.0, reasoning=LIGHT_REASONING)


def policies(count: int = 1) -> list[UniBoost]:
    return [UniBoost(WeightedTokens()) for _ in range(count)]


@dataclass
class Recorder:
    """Only sees."""

    period: Seconds = 7.0
    seen: dict[str, list[float]] = field(default_factory=lambda: {"ttft": [], "ttlt": [], "tpot": [], "jct": []})
    looks: list[Seconds] = field(default_factory=list)
    open: int = 0

    def arrived(self, request: Inference, now: Seconds) -> None:
        self.open += 1

    def first_token(self, request: Inference, now: Seconds) -> None:
        self.seen["ttft"].append(now - request.ready)

    def finished(self, request: Inference, now: Seconds) -> None:
        self.open -= 1
        self.seen["ttlt"].append(now - request.ready)
        if request.produced > 1:
            self.seen["tpot"].append((now - request.first_token) / (request.produced - 1))

    def run_finished(self, run: WorkloadRun, now: Seconds) -> None:
        self.seen["jct"].append(now - run.arrival)

    def look(self, now: Seconds) -> None:
        self.looks.append(now)


def served(watcher: "Recorder | SloControl | None", by: list[UniBoost]) -> PolicyResults:
    return Engine(by, H100, label="served", watcher=watcher).serve(workload())


def test_it_sees_what_the_results_say_at_its_period_and_changes_nothing() -> None:
    recorder = Recorder()
    results = served(recorder, policies(2))
    assert results == served(None, policies(2))
    for name, expected in (
        ("ttft", ttft(results.requests)),
        ("ttlt", ttlt(results.requests)),
        ("tpot", tpot(results.requests)),
        ("jct", [r.jct for r in results.runs if r.jct is not None]),
    ):
        assert sorted(recorder.seen[name]) == pytest.approx(sorted(expected))
    assert recorder.open == 0
    assert recorder.looks == [7.0 * (i + 1) for i in range(len(recorder.looks))]
    assert recorder.looks[-1] == pytest.approx(max(r.finished or 0.0 for r in results.requests), abs=7.0)


def control(by: list[UniBoost], **objectives: Declared) -> SloControl:
    return SloControl(by, {ObjectiveId(name): declared for name, declared in objectives.items()})


def first_tokens(bound: Seconds) -> Objective:
    return Objective(MetricName.TIME_TO_FIRST_TOKEN, 0.9, bound, 3600.0)


def test_a_missed_objective_takes_gamma_down_in_all_engines() -> None:
    by = policies(2)
    slo = control(by, o=Declared(first_tokens(0.05)))
    served(slo, by)
    assert [look.now for look in slo.looks[:3]] == [PERIOD, 2 * PERIOD, 3 * PERIOD]
    assert {policy.boosting.tail.gamma for policy in by} == {slo.looks[-1].gamma}
    assert slo.looks[-1].gamma < 0.1
    assert all(policy.boosting.tail.estimate > policy.boosting.tail.gamma for policy in by)


def test_an_objective_counts_its_application_only() -> None:
    by = policies()
    slo = control(by, o=Declared(first_tokens(5.0), "reasoning"), every=Declared(first_tokens(5.0)))
    results = served(slo, by)
    now = slo.looks[-1].now + 70
    counts = {key: counted(watched, now)[0].total for key, watched in slo.seen.watched.items()}
    assert counts == {
        "o": sum(r.application == "reasoning" for r in results.requests),
        "every": len(results.requests),
    }


def test_an_objective_may_change_on_the_way() -> None:
    by = policies()
    changed = Declared(first_tokens(0.05), since=30.0)
    slo = SloControl(by, {"o": Declared(first_tokens(1000.0))}, [("o", changed)], GammaController())
    served(slo, by)
    assert all(look.decision.ceiling == GammaController().highest for look in slo.looks if look.now < 30)
    assert slo.looks[-1].decision.ceiling < GammaController().highest
