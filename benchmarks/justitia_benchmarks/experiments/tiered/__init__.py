"""What the default policy does beyond the papers, against targets of our own."""

from collections.abc import Sequence

from justitia_benchmarks.experiment import Experiment
from justitia_benchmarks.experiments.tiered.charges import Charges
from justitia_benchmarks.experiments.tiered.completion import Completion
from justitia_benchmarks.experiments.tiered.flood import Flood

EXPERIMENTS: Sequence[Experiment] = (Completion(), Flood(), Charges())
