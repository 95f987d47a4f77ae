"""What the default policy does beyond the papers, against targets of our own."""

from collections.abc import Sequence

from justitia_benchmarks.experiment import Experiment
from justitia_benchmarks.experiments.tiered.completion import Completion

EXPERIMENTS: Sequence[Experiment] = (Completion(),)
