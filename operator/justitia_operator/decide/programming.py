"""Which pods to send a pool's documents to, and what conditions say of their reports.

The documents are in a ConfigMap and a Secret too, which a kubelet brings to the pod within minutes. Sending them takes
less than a second.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from justitia_api.conditions import ConditionType, Reason
from justitia_api.config import KeyTable, PoolConfig, PoolDocuments, digest_of
from justitia_api.pool import ServingPool
from justitia_operator.decide.received import begins
from justitia_operator.world.catalog import refers_to
from justitia_operator.world.names import pool_ref
from justitia_operator.world.objects import Json, Kind, Push, Ref, ref_of
from justitia_operator.world.reports import Report
from justitia_operator.world.sidecars import Reporting, present_reports
from justitia_operator.world.snapshot import Snapshot
from justitia_operator.world.verdicts import Verdict

MOST_NAMED = 3
"""Pods that a message names."""


def pushes(world: Snapshot, pool: ServingPool, config: PoolConfig, keys: KeyTable) -> Iterator[Push]:
    """Sends the documents to each pod that has not got this generation yet, and to each that was asked and does not run
    it.
    """
    sent = None
    for pod, report in present_reports(world, pool_ref(pool)):
        if report is None or report.due or report.told != config.generation:
            if sent is None:
                sent = _written(config, keys)
            documents, digest = sent
            replaces = None if report is None else report.documents
            uid = pool.metadata.uid
            yield Push(pod.ref, pod.instance, pod.address, uid, config.generation, documents, digest, replaces)


def _written(config: PoolConfig, keys: KeyTable) -> tuple[bytes, str]:
    """The documents as they are sent, and their digest."""
    documents = PoolDocuments(configuration=config, keys=keys).model_dump_json(by_alias=True).encode()
    written = json.loads(documents)
    return documents, digest_of(written["configuration"], written["keys"])


def programmed_verdict(reports: Sequence[Reporting], generation: int) -> Verdict:
    """The condition Programmed."""
    pods = [(pod, report) for pod, report in reports if not pod.has_ended(report)]
    if not pods:
        return Verdict(ConditionType.PROGRAMMED, False, Reason.NO_PODS, "no pod runs a sidecar yet")
    silent, behind, foreign = [], [], []
    for pod, report in pods:
        if report is None:
            behind.append(f"{pod.ref.name} has not been asked yet")
        elif report.generation is None:
            silent.append(f"{pod.ref.name}: {report.problem}")
        elif report.generation < generation:
            behind.append(f"{pod.ref.name} has {report.generation}")
        elif report.generation > generation or not report.in_effect:
            foreign.append(f"{pod.ref.name} has {report.generation}")
        elif report.not_understood:
            behind.append(f"{pod.ref.name} runs an older sidecar, which keeps its previous {report.not_understood}")
    if foreign:
        message = (
            f"{len(foreign)} of {len(pods)} pods run documents that are not those of configuration {generation}, the "
            "latest one, although the operator sends these again and again: find out who reads the pool's Secret, and "
            f"delete a pod that stays so: {_some(foreign)}"
        )
        return Verdict(ConditionType.PROGRAMMED, False, Reason.OVERRIDDEN, message)
    if silent:
        message = (
            f"{len(silent)} of {len(pods)} pods do not answer the operator, and read configuration {generation} from "
            f"their volumes instead, within minutes; check network policies: {_some(silent)}"
        )
        return Verdict(ConditionType.PROGRAMMED, False, Reason.NOT_REACHABLE, message)
    if behind:
        message = f"configuration {generation} is not in effect in every pod: {_some(behind)}"
        return Verdict(ConditionType.PROGRAMMED, False, Reason.OUTDATED, message)
    message = f"configuration {generation} is in effect in every pod"
    return Verdict(ConditionType.PROGRAMMED, True, Reason.PROGRAMMED, message)


def pods_behind(world: Snapshot) -> int:
    """Counts pods, of all pools, that have not reported their pool's latest configuration to be in effect."""
    behind = 0
    for obj in world.of(Kind.SERVING_POOL):
        latest = (obj.get("status") or {}).get("configurationGeneration")
        for pod, report in present_reports(world, ref_of(obj)):
            current = report is not None and report.generation == latest and report.in_effect
            behind += not (current or pod.has_ended(report))
    return behind


def concerned_by_figures(pod: Json, before: Report, after: Report) -> frozenset[Ref] | None:
    """Resources that a pod's new report concerns if only figures changed, as they do with each request: what was
    learned and counted of an application concerns it alone, as does that it is served for the first time; gamma
    concerns the pool. None if more than figures changed.
    """
    figures: dict[str, Any] = {
        "applications": after.applications,
        "learning": after.learning,
        "objectives": after.objectives,
        "boost": after.boost,
    }
    if replace(before, **figures) != after:
        return None
    pools = frozenset() if before.boost == after.boost else refers_to(pod)
    changed = _changed(before.learning, after.learning) | _changed(before.objectives, after.objectives)
    changed |= begins(before.applications, after.applications)
    return pools | {Ref(Kind.LLM_APPLICATION, *key) for key in changed}


def _changed(before: Mapping[tuple[str, str], object], after: Mapping[tuple[str, str], object]) -> set[tuple[str, str]]:
    return {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}


def policy_verdict(reports: Sequence[Reporting]) -> Verdict | None:
    """The condition PolicyInEffect: that of the worst pod. None if no pod has one."""
    told = [(pod, report.policy) for pod, report in reports if report is not None and report.policy]
    if not told:
        return None
    pod, condition = min(told, key=lambda each: ("False", "Unknown", "True").index(each[1].status))
    if condition.status == "True":
        message = "every engine orders requests by its configuration"
        return Verdict(ConditionType.POLICY_IN_EFFECT, True, Reason.CONFIGURED, message)
    try:
        reason, message = Reason(condition.reason), f"{pod.ref.name}: {condition.message}"
    except ValueError:
        # A sidecar of another release.
        reason, message = Reason.OTHER, f"{pod.ref.name}: {condition.reason}: {condition.message}"
    return Verdict(ConditionType.POLICY_IN_EFFECT, False, reason, message)


def _some(named: Sequence[str]) -> str:
    more = f", and {len(named) - MOST_NAMED} more" if len(named) > MOST_NAMED else ""
    return "; ".join(named[:MOST_NAMED]) + more
