"""What is sent to the engine tells what it should and no more, and what is learned from samples is counted right."""

import json
import random
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pytest
from tokenizers import Tokenizer

from justitia_benchmarks.engine_learning.curve import curve, first_version, largest_difference
from justitia_benchmarks.engine_learning.plan import QUICK, WHOLE, LearningCurve, PastRuns, contended_cells
from justitia_benchmarks.engine_learning.serving import check, writing
from justitia_benchmarks.engine_learning.workload import (
    MOST_OUTPUT,
    SERVED,
    TellingRun,
    class_of,
    contended,
    filling,
    known_of,
    make_model,
    past_rounds,
)
from justitia_benchmarks.experiment import PaperVerdict
from justitia_benchmarks.experiments.learning.errors import errors_by_kind
from justitia_benchmarks.reports.engine_learning import completion_claims, error_claims, write_document
from justitia_benchmarks.reports.learning import KINDS, ORDER
from justitia_benchmarks.statistics import Estimate
from justitia_cli.replay import Target
from justitia_predictor.artifact import Artifact
from justitia_predictor.evaluation import errors
from justitia_predictor.features import NUMBERS
from justitia_predictor.models import Linear, PromptLength
from justitia_predictor.sample import Sample
from justitia_predictor.training import fitted
from justitia_sidecar.request.body import Endpoint, parse_body
from justitia_simulator.records import FINISHED, PolicyResults, RequestResult
from justitia_vocabulary.units import ApplicationId
from support.written_runs import written_runs


def past(count: int, degree: float = 1.0) -> list[TellingRun]:
    return [each for runs in past_rounds(count, 10, degree, seed=1) for each in runs]


def samples_of(application: str, runs: list[TellingRun]) -> list[Sample]:
    """As a sidecar would have them."""
    known = known_of(runs, runs)
    return [Sample(known[r.run.id], float(r.run.cost)) for r in runs if class_of(r.run.application) == application]


def log_error(model: Artifact, unseen: list[Sample]) -> float:
    return errors([model.predict(s.features) for s in unseen], [s.cost for s in unseen]).log


def exchanged(samples: list[Sample]) -> list[Sample]:
    costs = [s.cost for s in samples]
    random.Random(1).shuffle(costs)
    return [replace(s, cost=cost) for s, cost in zip(samples, costs, strict=True)]


# What is sent.


def test_every_prompt_has_as_many_tokens_as_its_call(tmp_path: Path) -> None:
    runs = [*past(3), *filling(40, seed=1, degree=1.0)]
    tokenizer = Tokenizer.from_file(str(make_model(tmp_path, runs) / "tokenizer.json"))
    for each in runs:
        counted = [len(tokenizer.encode(text).ids) for text in each.texts]
        assert counted == [request.prompt_tokens for request in each.run.requests]


def test_the_model_has_room_for_every_word(tmp_path: Path) -> None:
    model = make_model(tmp_path, past(2))
    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
    assert json.loads((model / "config.json").read_text())["vocab_size"] == tokenizer.get_vocab_size()


def test_an_answers_length_is_in_nothing_that_the_sidecar_reads_but_the_engine() -> None:
    (one, *_) = past(1)
    longer = replace(one.run.requests[0], output_tokens=one.run.requests[0].output_tokens + 100)
    stages = (replace(one.run.stages[0], requests=(longer, *one.run.stages[0].requests[1:])), *one.run.stages[1:])
    other = replace(one, run=replace(one.run, stages=stages))
    bodies = [{**each.body(0), "model": "tiny"} for each in (one, other)]
    read = [parse_body(Endpoint.COMPLETION, json.dumps(body).encode(), several=True) for body in bodies]
    assert bodies[0] != bodies[1]
    assert read[0] == read[1]
    assert read[0].max_tokens == MOST_OUTPUT


def test_what_is_known_of_a_run_is_what_the_sidecar_reads_of_its_first_request() -> None:
    runs = past(12)
    known = known_of(runs, runs)
    bound = NUMBERS.index("log most output tokens")
    assert len({features.numbers[bound] for features in known.values()}) == 1
    for each in runs:
        read = parse_body(Endpoint.COMPLETION, json.dumps({**each.body(0), "model": "tiny"}).encode(), several=True)
        assert read.text == each.texts[0].encode()
        assert known[each.run.id].numbers[bound + 1 :] == pytest.approx([0.6931, 0.6931], abs=1e-4)


def test_past_runs_come_in_rounds_and_the_first_has_one_of_each_class() -> None:
    rounds = list(past_rounds(25, 10, 1.0, seed=1))
    assert [len(runs) for runs in rounds] == [len(SERVED) * each for each in (1, 10, 10, 4)]
    ids = [each.run.id for runs in rounds for each in runs]
    assert len(set(ids)) == len(ids)


def test_contended_runs_are_those_that_fill_the_engine_and_arrive_at_the_load() -> None:
    runs, filled = contended(60, 1, 2.5, 0.01, 1.0), filling(60, 1, 1.0)
    assert [each.texts for each in runs] == [each.texts for each in filled]
    assert [each.run.stages for each in runs] == [each.run.stages for each in filled]
    slower = contended(60, 1, 1.25, 0.01, 1.0)
    assert slower[-1].run.arrival == pytest.approx(2 * runs[-1].run.arrival)
    assert {stage.delay for each in runs for stage in each.run.stages} == {0.0}


def test_an_application_is_of_its_class() -> None:
    assert class_of(ApplicationId("bench/kbqav-silver")) == "KBQAV"


def test_an_answer_of_another_length_is_noticed() -> None:
    (one, *_) = past(1)
    target = writing(Target("http://127.0.0.1:1/v1"), [one])
    assert target.body(one.run, 0, one.run.requests[0], []) == one.body(0)

    def results(more: int) -> PolicyResults:
        rows = [
            RequestResult("p", one.run.id, "t", "a", 0, 0.0, 0.0, None, 0.1, 0.2, r.prompt_tokens, tokens, 0, FINISHED)
            for r in one.run.requests
            if (tokens := r.output_tokens + more)
        ]
        return PolicyResults("p", rows, [])

    check([one], results(0))
    with pytest.raises(RuntimeError, match="instead of"):
        check([one], results(1))


# What is learned.


def test_the_curve_learns_from_the_first_runs_and_predicts_the_last() -> None:
    samples = written_runs(60, 0.1, seed=1)
    found = curve(samples, (10, 30), unseen=20)
    assert list(found) == ["10", "30"]
    assert found["30"] == errors_by_kind("", samples[:30], samples[40:], 0)
    by_kind = found["30"]["errors"]
    assert by_kind["linear"]["relative"] < 0.5 * by_kind["running-mean"]["relative"]  # type: ignore[index]


def test_a_version_that_predicts_is_promoted_and_one_of_exchanged_costs_is_not() -> None:
    samples = written_runs(160, 0.1, seed=2)
    first = first_version(samples, 60)
    assert first["reason"] == "Promoted"
    assert 90 <= int(str(first["runs"])) <= 110
    poisoned = [*exchanged(samples[:60]), *samples[60:]]
    assert first_version(poisoned, 60)["reason"] != "Promoted"


def test_samples_that_are_missing_or_cost_something_else_are_noticed() -> None:
    assert largest_difference([2.0, 1.0], [1.0, 2.0]) == 0
    assert largest_difference([2.2, 1.0], [1.0, 2.0]) == pytest.approx(0.1)
    with pytest.raises(RuntimeError, match="1 samples of 2 runs"):
        largest_difference([1.0], [1.0, 2.0])


@pytest.mark.parametrize(("degree", "better"), [(0.0, False), (1.0, True)], ids=["nothing told", "all told"])
def test_a_model_is_better_than_lengths_where_prompts_tell_something(degree: float, better: bool) -> None:
    """A negative control: with degree 0 there is nothing to learn but the prompt's length."""
    runs = past(160, degree)
    ratios = []
    for application in ("CC", "KBQAV", "PE", "SC"):
        samples = samples_of(application, runs)
        learned, unseen = samples[:100], samples[100:]
        model, length = (fitted(kind, application, learned, 1) for kind in (Linear.kind, PromptLength.kind))
        ratios.append(log_error(model, unseen) / log_error(length, unseen))
    assert (fmean(ratios) < 0.9) is better


# The plan and the document.


def test_each_seed_is_served_in_every_way_and_each_cell_has_a_result_of_its_own() -> None:
    cells = list(contended_cells(WHOLE))
    for seed in range(1, WHOLE.seeds + 1):
        assert {cell.told for cell in cells if cell.seed == seed} == set(ORDER)
    other = [*contended_cells(QUICK), *(kind(plan) for plan in (WHOLE, QUICK) for kind in (PastRuns, LearningCurve))]
    digests = [cell.digest for cell in (*cells, *other)]
    assert len(set(digests)) == len(digests)


def learned_figures(relative: float) -> dict[str, object]:
    point = {"kind": "mlp", "errors": {kind: {"relative": relative, "rank": 0.5, "log": 0.4} for kind in KINDS}}
    first = {"kind": "mlp", "reason": "Promoted", "runs": 80}
    return {"difference": 0.0, "curve": {str(n): point for n in QUICK.counts}, "first": first}


def contended_figures(jct: float, told: float | None) -> dict[str, object]:
    return {"jct": [jct] * 20, "cost": [100.0] * 20, "told": [told] * 20}


def test_errors_and_times_are_judged_against_the_papers_figures(tmp_path: Path) -> None:
    learned = {"EV": learned_figures(0.3), "FV": learned_figures(0.4)}
    jct = dict(zip(ORDER, (1.3, 1.1, 1.0, 0.9, 0.8), strict=True))
    rows = [
        (cell, contended_figures(jct[cell.told] * cell.seed, None if cell.told == "cold start" else 110.0))
        for cell in contended_cells(QUICK)
    ]
    verdicts = [claim.verdict for claim in error_claims(QUICK, learned)]
    assert verdicts == [PaperVerdict.REACHED, PaperVerdict.REACHED]
    assert [claim.verdict for claim in completion_claims(rows)] == [
        PaperVerdict.BEATEN,
        PaperVerdict.BEATEN,
        PaperVerdict.BEATEN,
    ]
    document = write_document(QUICK, learned, rows, tmp_path).read_text()
    assert "| cold start | 1.62 (1.62 to 1.62, n = 2) |" in document
    assert "Promoted: 2 of 2 | median 80 |" in document
    assert {path.suffix for path in tmp_path.iterdir()} == {".md", ".svg"}


def test_a_cold_start_that_costs_too_much_is_said_to() -> None:
    """Times grow with the seed: ratios are taken inside one."""
    jct = dict(zip(ORDER, (1.4, 1.0, 0.9, 0.9, 0.8), strict=True))
    rows = [(cell, contended_figures(jct[cell.told] * cell.seed, 1.0)) for cell in contended_cells(QUICK)]
    (*_, cold) = completion_claims(rows)
    assert cold.verdict is PaperVerdict.NOT_REACHED
    assert isinstance(cold.ours, Estimate)
    assert cold.ours.mean == pytest.approx(1.4)
