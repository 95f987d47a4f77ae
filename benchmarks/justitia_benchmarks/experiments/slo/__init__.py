"""Gamma moved by objectives: how it answers to steps, what it says of a load that no gamma holds, and what it does
inside tenants' shares.
"""

from collections.abc import Sequence

from justitia_benchmarks.experiment import Experiment
from justitia_benchmarks.experiments.slo.inside_shares import InsideShares
from justitia_benchmarks.experiments.slo.overload import Overload
from justitia_benchmarks.experiments.slo.steps import Steps

EXPERIMENTS: Sequence[Experiment] = (Steps(), Overload(), InsideShares())
