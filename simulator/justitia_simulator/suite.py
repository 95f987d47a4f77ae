"""The Justitia paper's workload: agent runs of ten classes, 72 % small, 26 % medium and 2 % large ones.

The number of runs of each class is exact, not drawn: with drawn counts the few large runs decide the result. Inside a
size the classes have the same share, those listed first one more where it does not divide. Arrivals follow Mooncake's
conversation trace; windows of 6, 9 and 18 minutes are the paper's 3x, 2x and 1x density.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

from justitia_simulator.agents import LARGE, MEDIUM, SMALL, agent_run
from justitia_simulator.arrivals import conversation_arrivals
from justitia_simulator.workload import WorkloadRun
from justitia_vocabulary.units import Seconds, TenantId

SHARES = ((SMALL, 0.72), (MEDIUM, 0.26))
ONE_TENANT = {"t0": 1.0}


def class_counts(count: int) -> dict[str, int]:
    """How many of `count` runs each class has; large ones take what rounding leaves."""
    counts: dict[str, int] = {}
    for classes, share in SHARES:
        counts |= _evenly(list(classes), round(count * share))
    return counts | _evenly(list(LARGE), count - sum(counts.values()))


def _evenly(names: Sequence[str], count: int) -> dict[str, int]:
    each, more = divmod(count, len(names))
    return {name: each + (index < more) for index, name in enumerate(names)}


def agent_suite(
    count: int = 300, *, seed: int, window: Seconds = 540.0, tenants: Mapping[str, float] = ONE_TENANT
) -> list[WorkloadRun]:
    """Runs in order of arrival. `tenants`: each with the probability, up to a factor, that a run is its.

    A seed fixes a run's class, shape, lengths and place in the order, whatever the window and the tenants.
    """
    order = random.Random(f"{seed}/order")
    classes = [name for name, runs in class_counts(count).items() for _ in range(runs)]
    order.shuffle(classes)
    owners = random.Random(f"{seed}/tenants").choices(list(tenants), list(tenants.values()), k=count)
    arrivals = conversation_arrivals(count, window, random.Random(f"{seed}/arrivals"))
    return [
        agent_run(name, f"r{i}", owners[i], round(arrivals[i], 3), random.Random(f"{seed}/run/{i}"))
        for i, name in enumerate(classes)
    ]


def per_run(workload: Sequence[WorkloadRun]) -> list[WorkloadRun]:
    """The same runs, each a tenant of its own: VTC with a client per run, the paper's baseline."""
    return [replace(run, tenant=TenantId(run.id)) for run in workload]
