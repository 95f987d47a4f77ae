"""Policies by name. Files and the command line use these names, resources the same in CamelCase."""

from collections.abc import Callable

from justitia_scheduling.cost import CostModel
from justitia_scheduling.fcfs import FCFS
from justitia_scheduling.justitia import Justitia
from justitia_scheduling.justitia_c import JustitiaC
from justitia_scheduling.lcf import LCF
from justitia_scheduling.parrot import Parrot
from justitia_scheduling.policy import Policy
from justitia_scheduling.rpm import RPM
from justitia_scheduling.sjf import SJF
from justitia_scheduling.srjf import SRJF
from justitia_scheduling.tiered import TieredJustitia
from justitia_scheduling.vtc import VTC
from justitia_scheduling.vtc_predicted import OracleVTC, PredictedVTC

DEFAULT_POLICY = "tiered-justitia"

POLICIES: dict[str, Callable[[CostModel], Policy]] = {
    "fcfs": FCFS,
    "rpm": RPM,
    "sjf": SJF,
    "lcf": LCF,
    "vtc": VTC,
    "vtc-predicted": PredictedVTC,
    "vtc-oracle": OracleVTC,
    "parrot": Parrot,
    "srjf": SRJF,
    "justitia": Justitia,
    "justitia-c": JustitiaC,
    "tiered-justitia": TieredJustitia,
}


def build_policy(name: str, cost_model: CostModel) -> Policy:
    """The policy of that name with its defaults. Raises ValueError that lists the names it knows."""
    try:
        return POLICIES[name](cost_model)
    except KeyError:
        raise ValueError(f"unknown policy {name!r}: choose one of {', '.join(sorted(POLICIES))}") from None
