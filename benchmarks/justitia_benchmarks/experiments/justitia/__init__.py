"""The Justitia paper's evaluation (section 5 of its second version)."""

from collections.abc import Sequence

from justitia_benchmarks.experiment import Experiment
from justitia_benchmarks.experiments.justitia.completion import CompletionTime
from justitia_benchmarks.experiments.justitia.misprediction import Misprediction
from justitia_benchmarks.experiments.justitia.overhead import SchedulingTime
from justitia_benchmarks.experiments.justitia.starvation import Starvation

EXPERIMENTS: Sequence[Experiment] = (CompletionTime(), Starvation(), Misprediction(), SchedulingTime())
