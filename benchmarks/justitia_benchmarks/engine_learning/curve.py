"""What is learned from samples in the order in which their runs were over. Pure."""

from collections.abc import Mapping, Sequence

from justitia_benchmarks.engine_learning.plan import LearningPlan
from justitia_benchmarks.experiment import Figures
from justitia_benchmarks.experiments.learning.errors import errors_by_kind
from justitia_benchmarks.experiments.learning.rollout import after_training, decisions
from justitia_predictor.artifact import digest
from justitia_predictor.sample import Sample
from justitia_predictor.training import train
from justitia_vocabulary.units import KVTokenTime

SEED = 0
"""The seed of what training draws."""


def learned(samples: Sequence[Sample], written: Sequence[KVTokenTime], plan: LearningPlan) -> dict[str, object]:
    """Learn from the samples of one application, whose runs were written to cost that. Raises RuntimeError if some are
    missing.
    """
    return {
        "difference": largest_difference([s.cost for s in samples], written),
        "curve": curve(samples, plan.counts, plan.unseen),
        "first": first_version(samples, plan.learned_from),
    }


def curve(samples: Sequence[Sample], counts: Sequence[int], unseen: int) -> Mapping[str, Figures]:
    """By number of runs learned from, the first ones: errors by kind of model on the last runs, `unseen` many."""
    return {str(n): errors_by_kind("", samples[:n], samples[-unseen:], SEED) for n in counts}


def first_version(samples: Sequence[Sample], past: int) -> Figures:
    """What becomes of the version that is learned from the first `past` runs, when it predicts the others under the
    default rollout: the first decision's reason, after how many runs in all.
    """
    model = train("", samples[:past], SEED)
    status = after_training(model, past)
    found: Figures = {"kind": model.about.kind, "reason": "undecided", "runs": None}
    if status.candidate is None:
        return found
    for runs, reason in decisions(status, {digest(model.to_bytes()): model}, samples, begin=past):
        return {**found, "reason": reason, "runs": runs}
    return found


def largest_difference(measured: Sequence[KVTokenTime], written: Sequence[KVTokenTime]) -> float:
    """The largest difference of measured costs from those that were written, relative to these."""
    if len(measured) != len(written):
        raise RuntimeError(f"{len(measured)} samples of {len(written)} runs")
    return max(abs(m / w - 1) for m, w in zip(sorted(measured), sorted(written), strict=True))
