"""Drawn runs against what was recorded of the same classes."""

import math
import random
from statistics import fmean, quantiles

import pytest

from justitia_simulator.agents import CLASSES, LogNormal, agent_run
from justitia_simulator.workload import WorkloadRun

# calls, stages, p mean, p 95 %, d mean, d 95 %, C 50 %, C mean, C 95 %, tool seconds
RECORDED = {
    "EV": (3.9, 2, 415, 889, 48, 127, 9.4e4, 1.14e5, 2.3e5, 0),
    "FV": (2.1, 2.1, 1151, 1398, 36, 46, 8.5e4, 9.1e4, 1.5e5, 2.4),
    "CC": (4, 2, 333, 458, 160, 295, 2.5e5, 2.8e5, 4.9e5, 0.4),
    "ALFWI": (15.7, 15.7, 2023, 2567, 15, 63, 4.5e5, 4.6e5, 7.5e5, 2.6),
    "KBQAV": (8, 3, 427, 653, 82, 199, 3.4e5, 3.8e5, 9.2e5, 1.3),
    "PE": (2, 2, 1220, 1880, 280, 666, 4.9e5, 6.0e5, 1.3e6, 25),
    "CG": (1.4, 1.4, 678, 3245, 227, 519, 4.6e4, 3.6e5, 2.7e6, 17),
    "MRS": (24.7, 3, 578, 1774, 244, 698, 5.5e6, 6.4e6, 1.5e7, 0),
    "DM": (105, 8, 2624, 3278, 473, 820, 1.4e8, 1.4e8, 2.2e8, 0),
}
WITHIN = (0.05, 0.05, 0.05, 0.06, 0.05, 0.06, 0.25, 0.12, 0.25, 0.10)


def drawn(application: str, count: int) -> list[WorkloadRun]:
    rng = random.Random(f"agents/{application}")
    return [agent_run(application, f"r{i}", "t", 0.0, rng) for i in range(count)]


@pytest.mark.parametrize("application", RECORDED)
def test_drawn_runs_measure_like_the_recorded_ones(application: str) -> None:
    runs = drawn(application, 300 if application == "DM" else 1500)
    requests = [r for run in runs for r in run.requests]
    prompts, outputs = [r.prompt_tokens for r in requests], [r.output_tokens for r in requests]
    costs = quantiles([run.cost for run in runs], n=20)
    measured = (
        len(requests) / len(runs),
        fmean(len(run.stages) for run in runs),
        fmean(prompts),
        quantiles(prompts, n=20)[-1],
        fmean(outputs),
        quantiles(outputs, n=20)[-1],
        costs[9],
        fmean(run.cost for run in runs),
        costs[-1],
        fmean(sum(stage.delay for stage in run.stages) for run in runs),
    )
    for ours, recorded, within in zip(measured, RECORDED[application], WITHIN, strict=True):
        assert ours == pytest.approx(recorded, rel=within), measured


def test_a_document_merge_falls_fivefold_in_cost_when_its_shared_prompts_are_held_once() -> None:
    for run in drawn("DM", 5):
        assert [len(stage.requests) for stage in run.stages] == [2, 20, 20, 2, 20, 20, 1, 20]
        shared = 0.0
        for stage in run.stages:
            if len(stage.requests) == 20:
                assert len({(r.prefix, r.prefix_tokens, r.prompt_tokens) for r in stage.requests}) == 1
                held = stage.requests[0].prompt_tokens * max(r.output_tokens for r in stage.requests)
                shared += held + sum(r.output_tokens * (r.output_tokens + 1) / 2 for r in stage.requests)
            else:
                shared += sum(r.cost for r in stage.requests)
        assert 3.8 < run.cost / shared < 6.0


def test_shared_prompts_are_shared_inside_a_run_only() -> None:
    one, other = drawn("SC", 2)
    assert len({r.prefix for r in one.requests}) == 1
    assert {r.prefix for r in one.requests}.isdisjoint({r.prefix for r in other.requests})


def test_a_fitted_lognormal_has_the_mean_and_percentile_it_was_fitted_to() -> None:
    fitted = LogNormal.fit(244, 698)
    assert math.exp(fitted.mu + fitted.sigma**2 / 2) == pytest.approx(244)
    assert fitted.at(1.6449) == 698
    with pytest.raises(ValueError, match="no lognormal has mean 678"):
        LogNormal.fit(678, 3245)


def test_every_class_draws_the_same_run_from_the_same_state() -> None:
    for application in CLASSES:
        assert drawn(application, 2) == drawn(application, 2)
