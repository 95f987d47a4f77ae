"""All experiments, in the order of the document. One module per family; what several share lies beside them."""

from justitia_benchmarks.experiment import Experiment
from justitia_benchmarks.experiments import boost, justitia, tiered, vtc

EXPERIMENTS: tuple[Experiment, ...] = (
    *justitia.EXPERIMENTS,
    *vtc.EXPERIMENTS,
    *boost.EXPERIMENTS,
    *tiered.EXPERIMENTS,
)
