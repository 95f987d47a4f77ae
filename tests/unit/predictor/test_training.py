"""Training finds what is there to find, does not find what is not, and copes with samples that say nothing."""

import math
import random
from dataclasses import replace
from statistics import fmean

import pytest

from justitia_predictor.artifact import Errors
from justitia_predictor.evaluation import best, errors, loss, mean_of
from justitia_predictor.features import Features, FirstRequest
from justitia_predictor.models import Network, RunningMean
from justitia_predictor.sample import MOST_SAMPLES, Sample, data_hash
from justitia_predictor.training import FITS, LEAST_SAMPLES, TooFewSamplesError, fitted, train
from support.written_runs import written_runs


def errors_on(samples: list[Sample], unseen: list[Sample]) -> Errors:
    artifact = train("apps/check", samples)
    return errors([artifact.predict(s.features) for s in unseen], [s.cost for s in unseen])


def test_costs_that_prompts_tell_are_found() -> None:
    found = errors_on(written_runs(100, noise=0.3, seed=1), written_runs(200, noise=0.3, seed=2))
    assert found.relative < 0.35
    assert found.rank > 0.9


def test_where_prompts_tell_nothing_no_order_is_found() -> None:
    samples, unseen = written_runs(100, noise=0.3, seed=1), written_runs(200, noise=0.3, seed=2)
    costs = [s.cost for s in samples]
    random.Random(3).shuffle(costs)
    shuffled = [replace(s, cost=cost) for s, cost in zip(samples, costs, strict=True)]
    assert abs(errors_on(shuffled, unseen).rank) < 0.3


@pytest.mark.parametrize("seed", range(12))
def test_a_network_that_begins_badly_begins_again(seed: int) -> None:
    """With some beginnings all that is learned is the mean cost."""
    samples, unseen = written_runs(60, noise=0.5, seed=5), written_runs(60, noise=0.5, seed=6)
    network = fitted(Network.kind, "apps/check", samples, seed)
    assert errors([network.predict(s.features) for s in unseen], [s.cost for s in unseen]).rank > 0.5


@pytest.mark.parametrize("count", [100, 300])
def test_a_network_hardly_learns_what_is_chance(count: int) -> None:
    """The mean of unpredictable normal errors is sqrt(2 / pi) standard deviations."""
    noise, seeds = 1.5, range(4)
    found = []
    for seed in seeds:
        network = fitted(Network.kind, "apps/check", written_runs(count, noise, seed), seed)
        unseen = written_runs(200, noise, seed=1000 + seed)
        found.append(errors([network.predict(s.features) for s in unseen], [s.cost for s in unseen]).log)
    assert fmean(found) < 1.07 * noise * math.sqrt(2 / math.pi)


def test_errors_by_hand() -> None:
    found = errors([1.0, 4.0, 9.0], [2.0, 4.0, 3.0])
    assert found.relative == pytest.approx((0.5 + 0 + 2) / 3)
    assert found.log == pytest.approx((math.log(2) + 0 + math.log(3)) / 3)
    assert found.rank == pytest.approx(0.5)
    assert errors([5.0, 5.0], [1.0, 2.0]).rank == 0
    assert mean_of([(1, Errors(1, 0, 3)), (3, Errors(2, 1, 1))]) == Errors(1.75, 0.75, 1.5)


def test_the_best_kind_is_the_one_that_sizes_and_orders_best() -> None:
    mean = Errors(relative=2.0, rank=0.0, log=1.0)
    assert loss(mean, mean) == 2
    assert best({RunningMean.kind: mean, "mlp": Errors(0.5, 0.9, 0.4), "linear": Errors(0.5, 0.8, 0.3)}) == "mlp"
    assert best({RunningMean.kind: mean, "mlp": Errors(3.0, 0.1, 0.4)}) == RunningMean.kind
    assert best({"mlp": mean, RunningMean.kind: mean}) == RunningMean.kind


def test_nothing_is_trained_of_too_few_runs() -> None:
    with pytest.raises(TooFewSamplesError, match=f"apps/check has 9 finished runs: training needs {LEAST_SAMPLES}"):
        train("apps/check", written_runs(LEAST_SAMPLES - 1, noise=0.3, seed=1))


def test_runs_that_cost_nothing_are_not_learned_from() -> None:
    samples = written_runs(LEAST_SAMPLES, noise=0.3, seed=1)
    assert train("apps/check", [*samples, replace(samples[0], cost=0.0)]).about.samples == LEAST_SAMPLES


def test_the_newest_are_learned_from() -> None:
    old, new = written_runs(50, noise=0.3, seed=1), written_runs(MOST_SAMPLES, noise=0.3, seed=2)
    fewest = {kind: fit for kind, fit in FITS.items() if kind == RunningMean.kind}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("justitia_predictor.training.FITS", fewest)
        assert train("apps/check", [*old, *new]).about.data == data_hash(new)


@pytest.mark.parametrize("text", [b"", b"one and the same text"], ids=["without words", "the same words"])
@pytest.mark.parametrize("costs", [(7e4,), (1e3, 1e8)], ids=["the same cost", "two costs"])
def test_samples_that_say_nothing_give_a_model_that_says_a_cost_that_was_seen(
    text: bytes, costs: tuple[float, ...]
) -> None:
    features = Features.of(FirstRequest(text, len(text), 0, None, 1, 1))
    samples = [Sample(features, costs[i % len(costs)]) for i in range(40)]
    assert min(costs) * 0.99 <= train("apps/check", samples).predict(features) <= max(costs) * 1.01


def test_a_run_that_is_unlike_all_others_has_a_cost_like_theirs() -> None:
    artifact = train("apps/check", written_runs(50, noise=0.3, seed=1))
    strange = Features.of(FirstRequest("日本語 \xff".encode(), 10**9, 10**9, 10**9, 10**6, 10**6))
    lowest, highest = math.exp(artifact.about.lowest - 1), math.exp(artifact.about.highest + 1)
    assert lowest <= artifact.predict(strange) <= highest


def test_the_hash_of_samples_is_of_their_content_whatever_their_order() -> None:
    samples = written_runs(5, noise=0.3, seed=1)
    assert data_hash(samples) == data_hash(samples[::-1])
    assert data_hash(samples) != data_hash([replace(samples[0], cost=1.0), *samples[1:]])
