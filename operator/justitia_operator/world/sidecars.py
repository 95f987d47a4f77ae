"""The pods of a pool whose sidecar runs, each with what it said last."""

from dataclasses import dataclass

from justitia_operator.world.names import SCHEDULER_CONTAINER
from justitia_operator.world.objects import Json, Kind, Ref, ref_of
from justitia_operator.world.reports import Report
from justitia_operator.world.snapshot import Snapshot


@dataclass(frozen=True)
class SchedulerPod:
    """A pod whose scheduler runs: in which container, and at which address. `leaving`: it is being deleted."""

    ref: Ref
    instance: str
    address: str
    leaving: bool = False

    def has_ended(self, report: Report | None) -> bool:
        """Whether it leaves and does not answer any more: nothing is in force there, and nothing has to be."""
        return self.leaving and report is not None and report.generation is None


Reporting = tuple[SchedulerPod, Report | None]
"""A pod and its present report; None if it was not asked yet."""


def scheduler_pods(world: Snapshot, pool: Ref) -> list[SchedulerPod]:
    """A pool's, those included that are being drained: they still serve what they began."""
    pods = (world.objects[ref] for ref in world.objects.referrers(pool, Kind.POD))
    return [found for pod in pods if (found := scheduler_pod(pod)) is not None]


def scheduler_pod(pod: Json) -> SchedulerPod | None:
    """None while its scheduler does not run, or the pod has none."""
    status = pod.get("status") or {}
    for container in status.get("initContainerStatuses") or ():
        running = container["name"] == SCHEDULER_CONTAINER and "running" in (container.get("state") or {})
        if running and container.get("started") and status.get("podIP"):
            leaving = "deletionTimestamp" in pod["metadata"]
            return SchedulerPod(ref_of(pod), container.get("containerID", ""), status["podIP"], leaving)
    return None


def present_reports(world: Snapshot, pool: Ref) -> list[Reporting]:
    """Of each of a pool's pods what the scheduler that runs there said last: what the one before it said is past."""
    found = ((pod, world.reports.get(pod.ref)) for pod in scheduler_pods(world, pool))
    return [(pod, report if report is not None and report.instance == pod.instance else None) for pod, report in found]
