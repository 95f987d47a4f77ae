"""Which versions take effect, and which go, on live runs that come one after the other."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from justitia_api.config import LearningConfig
from justitia_api.learning import PredictorSpec, PredictorStatus
from justitia_api.status import ErrorSums, LearningStatus, ModelStatus
from justitia_benchmarks.experiment import Cell, Claim, Figures, Row
from justitia_benchmarks.experiments.learning.prompts import past_runs
from justitia_benchmarks.reports.learning_rollout import DRIFT, POISONED, STEADY, report_rollouts
from justitia_operator.learning.rollout import PATIENCE, Outcome, learned, step
from justitia_predictor.artifact import Artifact, digest
from justitia_predictor.models import Linear
from justitia_predictor.sample import Sample
from justitia_predictor.training import fitted
from justitia_sidecar.learning.evidence import Evidence, PairedErrors
from justitia_simulator.agents import CLASSES

PAST = 100
ASKED = 5
"""Runs between two times that the operator asks."""
POLICY = PredictorSpec()
LIVE = PATIENCE * POLICY.rollout.minimum_runs
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


class Rollouts:
    """Each cell is one application under the default rollout, with one pod. A model (ridge) is learned from past runs;
    then live runs come. `steady`: they are like the past ones. `poisoned`: the model was learned from costs that were
    exchanged among the runs. `drift`: the model is in effect, and from then on the cheapest prompts are those of the
    dearest runs and the other way round.
    """

    name = "learning-rollout"
    title = "Rollouts of predictors: what takes effect, and what is rolled back"
    paper = "justitia"

    def cells(self, quick: bool) -> Sequence[Cell]:
        return [
            Cell({"application": application, "scenario": scenario}, seed)
            for application in CLASSES for scenario in (STEADY, POISONED, DRIFT) for seed in range(2 if quick else 10)
        ]  # fmt: skip

    def run(self, cell: Cell) -> Figures:
        application, scenario = str(cell.parameters["application"]), str(cell.parameters["scenario"])
        runs = [r.sample for r in past_runs(application, PAST + LIVE, 1.0, cell.seed)]
        past, live = runs[:PAST], runs[PAST:]
        model = fitted(Linear.kind, application, _turned(past) if scenario == POISONED else past, cell.seed)
        version = digest(model.to_bytes())
        if scenario != DRIFT:
            status = after_training(model, PAST)
            live = past + live
        else:
            status = PredictorStatus(version=version, trained=BEGIN)
            live = past + _turned(live)
        made = list(decisions(status, {version: model}, live, begin=0 if scenario == DRIFT else PAST))
        return {"decisions": [{"runs": runs - PAST, "reason": reason} for runs, reason in made]}

    def report(self, rows: Sequence[Row], folder: Path) -> Sequence[Claim]:
        return report_rollouts(rows, folder)


def _turned(samples: Sequence[Sample]) -> list[Sample]:
    """The same prompts and costs, the cheapest prompt with the largest cost and so on."""
    order = sorted(range(len(samples)), key=lambda i: samples[i].cost)
    return [
        replace(samples[i], cost=samples[other].cost) for i, other in sorted(zip(order, reversed(order), strict=True))
    ]


def after_training(model: Artifact, samples: int) -> PredictorStatus:
    """The status once the first version is there, learned from so many runs."""
    trained = Outcome(BEGIN, samples, digest(model.to_bytes()), model.about.kind)
    return step(POLICY, PredictorStatus(), learned([], PredictorStatus()), trained, BEGIN)


def decisions(
    status: PredictorStatus, models: dict[str, Artifact], runs: Sequence[Sample], begin: int
) -> Iterator[tuple[int, str]]:
    """After how many runs, and which. Models predict from run `begin` on."""
    evidence, before = Evidence(), status.last_decision
    for number, run in enumerate(runs, 1):
        if number > begin:
            evidence.configure(LearningConfig(name="a", version=status.version, candidate=status.candidate))
        wanted = [v for v in (status.version, status.candidate) if v is not None and number > begin]
        evidence.end(evidence.begin(), {v: models[v].predict(run.features) for v in wanted}, run.cost)
        if number % ASKED:
            continue
        told = LearningStatus(
            namespace="n",
            name="a",
            samples=number,
            version=_model(status.version, evidence.version_errors),
            candidate=_model(status.candidate, evidence.candidate_errors),
        )
        status = step(POLICY, status, learned([told], status), None, BEGIN + timedelta(seconds=number))
        if status.last_decision is not None and status.last_decision != before:
            before = status.last_decision
            yield number, before.reason


def _model(version: str | None, errors: PairedErrors) -> ModelStatus | None:
    if version is None:
        return None
    sums: tuple[ErrorSums, ErrorSums] = errors.since_start, errors.recent
    return ModelStatus(version=version, loaded=True, since_start=sums[0], recent=sums[1])
