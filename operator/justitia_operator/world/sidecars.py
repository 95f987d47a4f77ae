"""The pods of a pool whose sidecar runs, and the last report of each."""

from dataclasses import dataclass

from justitia_operator.world.names import SIDECAR_CONTAINER
from justitia_operator.world.objects import Json, Kind, Ref, ref_of
from justitia_operator.world.reports import Report
from justitia_operator.world.snapshot import Snapshot


@dataclass(frozen=True)
class SidecarPod:
    """A pod whose sidecar runs: its container and its address. `leaving` says that it is being deleted."""

    ref: Ref
    instance: str
    address: str
    leaving: bool = False

    def has_ended(self, report: Report | None) -> bool:
        """Whether the pod is leaving and no longer answers: it runs no configuration, and needs none."""
        return self.leaving and report is not None and report.generation is None


Reporting = tuple[SidecarPod, Report | None]
"""A pod and its report. None if it was not asked yet."""


def sidecar_pods(world: Snapshot, pool: Ref) -> list[SidecarPod]:
    """The pods of a pool. Pods that drain are included: they still serve what they began."""
    pods = (world.objects[ref] for ref in world.objects.referrers(pool, Kind.POD))
    return [found for pod in pods if (found := sidecar_pod(pod)) is not None]


def sidecar_pod(pod: Json) -> SidecarPod | None:
    """Reads the pod. None while its sidecar does not run, or it has none."""
    status = pod.get("status") or {}
    for container in status.get("initContainerStatuses") or ():
        running = container["name"] == SIDECAR_CONTAINER and "running" in (container.get("state") or {})
        if running and container.get("started") and status.get("podIP"):
            leaving = "deletionTimestamp" in pod["metadata"]
            return SidecarPod(ref_of(pod), container.get("containerID", ""), status["podIP"], leaving)
    return None


def present_reports(world: Snapshot, pool: Ref) -> list[Reporting]:
    """Pairs each pod with the report of the sidecar container that runs there. A report of an earlier container is
    dropped.
    """
    found = ((pod, world.reports.get(pod.ref)) for pod in sidecar_pods(world, pool))
    return [(pod, report if report is not None and report.instance == pod.instance else None) for pod, report in found]
