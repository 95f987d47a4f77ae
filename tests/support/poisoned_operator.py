"""The operator's program with a bug on purpose: its decision about a resource named `poisoned...` raises."""

import sys
from datetime import datetime

from justitia_operator.__main__ import main
from justitia_operator.decide.reconcile import reconcile
from justitia_operator.runtime import controller
from justitia_operator.world.objects import Plan, Ref
from justitia_operator.world.snapshot import Snapshot


def poisoned(world: Snapshot, ref: Ref, now: datetime) -> Plan:
    if ref.name.startswith("poisoned"):
        raise RuntimeError("poisoned")
    return reconcile(world, ref, now)


if __name__ == "__main__":
    controller.reconcile = poisoned
    sys.exit(main())
