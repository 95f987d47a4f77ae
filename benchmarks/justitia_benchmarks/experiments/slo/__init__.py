"""Gamma moved by objectives: how it answers to steps, and what it says of a load that no gamma holds."""

from collections.abc import Sequence

from justitia_benchmarks.experiment import Experiment
from justitia_benchmarks.experiments.slo.overload import Overload
from justitia_benchmarks.experiments.slo.steps import Steps

EXPERIMENTS: Sequence[Experiment] = (Steps(), Overload())
