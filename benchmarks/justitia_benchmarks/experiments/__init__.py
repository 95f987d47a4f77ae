"""Experiments, one module per family; what several share lies beside them. `EXPERIMENTS` are those of the papers, in
the order of their document.
"""

from justitia_benchmarks.experiment import Experiment
from justitia_benchmarks.experiments import boost, justitia, tiered, vtc

EXPERIMENTS: tuple[Experiment, ...] = (
    *justitia.EXPERIMENTS,
    *vtc.EXPERIMENTS,
    *boost.EXPERIMENTS,
    *tiered.EXPERIMENTS,
)
