"""What the studies of objectives serve, on which engine, and how a window is judged.

One H100 with a 7B model (inferred, not measured), UniBoost, chunk 1,024. Single requests, Poisson arrivals: chat, and a
share of reasoning with outputs up to 4,096 tokens. This engine sustains about 5 requests a second with a fifth of them
reasoning. Something changes in the middle.

A window is 30 s of arrivals. It is held if at least the objective's percentile of them meets the bound of that moment.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from msgspec import structs

from justitia_benchmarks.experiments.boost_serving import CHUNK, COST, NO_SAMPLES
from justitia_scheduling.objectives.objective import Objective
from justitia_scheduling.objectives.observations import ObjectiveId
from justitia_scheduling.policies.uniboost import UniBoost
from justitia_simulator.engine import Engine
from justitia_simulator.mixes import CONVERSATION, LIGHT_REASONING, reasoning_mix
from justitia_simulator.profiles import find_profile
from justitia_simulator.records import RequestResult
from justitia_simulator.slo import Declared, Look, SloControl
from justitia_simulator.workload import WorkloadRun
from justitia_vocabulary.objectives import MetricName
from justitia_vocabulary.policies import Knob
from justitia_vocabulary.units import RunId, Seconds

PROFILE = structs.replace(find_profile("h100-llama2-7b"), token_budget=CHUNK)
STEP: Seconds = 240.0
END: Seconds = 540.0
WINDOW: Seconds = 30.0
OBJECTIVE = ObjectiveId("o")
BUDGET: Seconds = 600.0
"""The objective's window. Control does not depend on it."""


@dataclass(frozen=True)
class LoadPhase:
    """Requests a second, the share of them that is reasoning, and the objective's bound in seconds."""

    rate: float
    reasoning: float
    bound: Seconds


@dataclass(frozen=True)
class LoadStep:
    before: LoadPhase
    after: LoadPhase
    metric: MetricName = MetricName.TIME_TO_FIRST_TOKEN
    percentile: float = 0.9

    def objective(self, phase: LoadPhase) -> Objective:
        return Objective(self.metric, self.percentile, phase.bound, BUDGET)


SCENARIOS = {
    "load doubles": LoadStep(LoadPhase(3.0, 0.2, 1.5), LoadPhase(6.0, 0.2, 1.5)),
    "mix turns to long reasoning": LoadStep(LoadPhase(5.0, 0.1, 1.5), LoadPhase(5.0, 0.25, 1.5)),
    "objective tightened": LoadStep(LoadPhase(5.5, 0.2, 20.0), LoadPhase(5.5, 0.2, 1.5)),
    "load doubles within reach, completion": LoadStep(
        LoadPhase(2.5, 0.2, 40.0), LoadPhase(5.0, 0.2, 40.0), MetricName.REQUEST_COMPLETION
    ),
    "load doubles, completion": LoadStep(
        LoadPhase(3.0, 0.2, 40.0), LoadPhase(6.0, 0.2, 40.0), MetricName.REQUEST_COMPLETION
    ),
}


@dataclass(frozen=True)
class ServedStep:
    requests: Sequence[RequestResult]
    looks: Sequence[Look]


def workload(scenario: LoadStep, seed: int) -> list[WorkloadRun]:
    """Both phases, the second from STEP on."""
    runs: list[WorkloadRun] = []
    for number, (phase, start) in enumerate(((scenario.before, 0.0), (scenario.after, STEP))):
        length = (END - STEP) if number else STEP
        drawn = reasoning_mix(
            int(phase.rate * length * 1.3) + 50,
            phase.reasoning,
            seed=2000 + 2 * seed + number,
            rho=phase.rate,
            service_seconds=lambda request: 1.0,
            reasoning=LIGHT_REASONING,
            other=CONVERSATION,
        )
        runs += [
            replace(run, id=RunId(f"{number}-{run.id}"), arrival=start + run.arrival)
            for run in drawn
            if run.arrival < length
        ]
    return runs


def serve(runs: Sequence[WorkloadRun], gamma: float | LoadStep | None, engines: int = 1) -> ServedStep:
    """With gamma fixed, moved by the scenario's objective, or left to equation 9."""
    policies = [UniBoost(COST) for _ in range(engines)]
    objectives, changes = {}, []
    if isinstance(gamma, LoadStep):
        objectives = {OBJECTIVE: Declared(gamma.objective(gamma.before))}
        changes = [(OBJECTIVE, Declared(gamma.objective(gamma.after), since=STEP))]
    elif gamma is not None:
        for policy in policies:
            policy.tune({Knob.GAMMA_FLOOR: gamma, Knob.GAMMA_CEILING: gamma})
    control = SloControl(policies, objectives, changes if objectives else []) if not isinstance(gamma, float) else None
    engine = Engine(policies, PROFILE, label="served", sample_every=NO_SAMPLES, watcher=control)
    return ServedStep(engine.serve(runs).requests, control.looks if control else [])


def attained(served: ServedStep, scenario: LoadStep, start: Seconds) -> float:
    """The share of the arrivals of [start, start + WINDOW) that meets the bound; all of nothing."""
    bound = (scenario.after if start >= STEP else scenario.before).bound
    values = [value(request, scenario.metric) for request in served.requests if start <= request.ready < start + WINDOW]
    return sum(v <= bound for v in values) / len(values) if values else 1.0


def value(request: RequestResult, metric: MetricName) -> Seconds:
    """The value of a finished request. The pace of decoding and runs are not studied here."""
    end = request.first_token if metric is MetricName.TIME_TO_FIRST_TOKEN else request.finished
    assert end is not None
    return end - request.ready
