"""What predictors of runs' costs are worth, on agent runs whose first prompts are written here."""

from collections.abc import Sequence

from justitia_benchmarks.experiment import Experiment
from justitia_benchmarks.experiments.learning.completion import LearnedCompletion
from justitia_benchmarks.experiments.learning.errors import PredictionError
from justitia_benchmarks.experiments.learning.rollout import Rollouts

EXPERIMENTS: Sequence[Experiment] = (PredictionError(), LearnedCompletion(), Rollouts())
