"""The condition Ready of tenants and applications, and a pool's PoolFairness: what a client would see at this moment.

An application is ready when an engine of its pool takes requests, the pool's configuration includes the application,
and its tenant has a usable key. A tenant is ready when one of its applications is.
"""

from collections.abc import Iterable, Sequence

from justitia_api.application import LLMApplication
from justitia_api.conditions import ConditionType, Reason
from justitia_api.pool import ServingPool
from justitia_operator.build.documents import read_pool_config
from justitia_operator.decide.engines import Engines, observe_engines
from justitia_operator.decide.resolve import tenant_keys
from justitia_operator.world.admissions import AdmittedApplication
from justitia_operator.world.names import child_ref, pool_ref
from justitia_operator.world.objects import Kind, Ref
from justitia_operator.world.sidecars import Reporting
from justitia_operator.world.snapshot import Snapshot
from justitia_operator.world.verdicts import Refused, Verdict
from justitia_vocabulary.policies import WITHOUT_WEIGHTS


class Pools:
    """Reads each pool once, however many applications of a tenant it serves."""

    def __init__(self, world: Snapshot) -> None:
        self._world = world
        self._obstacles: dict[Ref, str | None] = {}
        self._served: dict[Ref, frozenset[tuple[str, str]]] = {}

    def obstacle(self, application: LLMApplication, pool: ServingPool) -> str | None:
        """Why the pool does not serve the application's requests. None if it does."""
        ref = pool_ref(pool)
        if ref not in self._obstacles:
            self._obstacles[ref] = self._no_engine(pool)
            config = read_pool_config(self._world.get(child_ref(pool, Kind.CONFIG_MAP)))
            self._served[ref] = frozenset((a.namespace, a.name) for a in config.applications) if config else frozenset()
        if self._obstacles[ref] is not None:
            return self._obstacles[ref]
        if (application.metadata.namespace, application.metadata.name) not in self._served[ref]:
            name = pool.metadata.name
            return f"ServingPool {name} does not serve the application yet: check whether one of them is paused"
        return None

    def _no_engine(self, pool: ServingPool) -> str | None:
        engines = observe_engines(self._world, pool)
        if engines.ready:
            return None
        why = engines.obstacle.message if engines.obstacle else "no engine takes requests yet"
        return f"ServingPool {pool.metadata.name} is not ready: {why}"


def application_ready(world: Snapshot, application: LLMApplication, pool: ServingPool) -> Verdict:
    """The condition Ready of an application that is admitted to its pool."""
    tenant = application.spec.tenant_ref.name
    if not tenant_keys(world)[tenant].values:
        message = f"Tenant {tenant} has no usable API key, so every request gets 401: see its condition ResolvedRefs"
        return Verdict(ConditionType.READY, False, Reason.REFS_NOT_RESOLVED, message)
    obstacle = Pools(world).obstacle(application, pool)
    if obstacle is not None:
        return Verdict(ConditionType.READY, False, Reason.POOL_NOT_READY, obstacle)
    return Verdict(ConditionType.READY, True, Reason.SERVING, "requests are served at status.endpoint")


def tenant_ready(world: Snapshot, keys: int, found: Iterable[AdmittedApplication | Refused]) -> Verdict:
    """The condition Ready of a tenant with so many usable keys. `found` is the result for each of its applications."""
    if not keys:
        message = "no API key is usable: see the condition ResolvedRefs"
        return Verdict(ConditionType.READY, False, Reason.REFS_NOT_RESOLVED, message)
    pools, served, obstacles = Pools(world), 0, []
    for each in found:
        obstacle = _obstacle(pools, each)
        if obstacle is None:
            served += 1
        else:
            obstacles.append(obstacle)
    if served:
        message = f"{keys} API keys are valid; {served} of {served + len(obstacles)} applications are served"
        return Verdict(ConditionType.READY, True, Reason.SERVING, message)
    if not obstacles:
        message = "no LLMApplication refers to the tenant: create one in a namespace of spec.namespaces"
        return Verdict(ConditionType.READY, False, Reason.NO_APPLICATIONS, message)
    reason, message = obstacles[0]
    more = f" (the first of {len(obstacles)} applications; none of them is served)" if len(obstacles) > 1 else ""
    return Verdict(ConditionType.READY, False, reason, f"{message}{more}")


def _obstacle(pools: Pools, found: AdmittedApplication | Refused) -> tuple[Reason, str] | None:
    if isinstance(found, Refused):
        return found.reason, found.message
    obstacle = pools.obstacle(found.application, found.pool)
    return None if obstacle is None else (Reason.POOL_NOT_READY, obstacle)


def fairness_verdict(
    pool: ServingPool,
    engines: Engines,
    policy_in_effect: Verdict | None = None,
    reports: Sequence[Reporting] = (),
    *,
    shares: bool = False,
) -> Verdict:
    """The condition PoolFairness. `policy_in_effect` is the condition PolicyInEffect, None if no pod has one. `reports`
    are those of the pool's pods. `shares`: its engines share over a Valkey, as configured.
    """
    policy = pool.spec.scheduling.policy
    several = max(pool.spec.replicas, engines.ready)
    if policy in WITHOUT_WEIGHTS:
        message = (
            f"policy {policy} ignores weights: choose TieredJustitia, Justitia or VTC if tenants are to get shares"
        )
        return Verdict(ConditionType.POOL_FAIRNESS, False, Reason.POLICY_WITHOUT_SHARES, message)
    if several > 1 and not shares:
        return Verdict(ConditionType.POOL_FAIRNESS, False, Reason.PER_REPLICA, _why_apart(pool, several))
    if not engines.ready:
        message = "no engine serves the pool: see the condition EnginesAvailable"
        return Verdict(ConditionType.POOL_FAIRNESS, False, Reason.NONE_AVAILABLE, message)
    if policy_in_effect is not None and policy_in_effect.reason is Reason.POLICY_FAILED:
        message = "the policy failed, and requests are served in the order of arrival: see the condition PolicyInEffect"
        return Verdict(ConditionType.POOL_FAIRNESS, False, Reason.POLICY_FAILED, message)
    if engines.ready > 1:
        return _sharing_verdict(engines.ready, [(pod, report) for pod, report in reports if not pod.leaving])
    return Verdict(ConditionType.POOL_FAIRNESS, True, Reason.SINGLE_REPLICA, "one engine serves the pool")


def _why_apart(pool: ServingPool, engines: int) -> str:
    apart = f"each of {engines} engines shares on its own"
    if pool.spec.replicas < 2 and pool.spec.autoscaling is None:
        return f"{apart} while a new one takes the place of another"
    inside = pool.spec.scheduling.enforcement == "Engine"
    needs = "set valkey" if inside else "set scheduling.enforcement to Engine, and valkey"
    return f"{apart}: {needs} (here or in the chart's values), or use 1 replica, if shares must be the pool's"


def _sharing_verdict(engines: int, reports: Sequence[Reporting]) -> Verdict:
    """Whether each of so many engines that take requests knows what all others served."""
    if len(reports) < engines:
        message = f"{len(reports)} of {engines} engines are known to share: the pods of the others have just started"
        return Verdict(ConditionType.POOL_FAIRNESS, False, Reason.NOT_REACHED, message)
    for pod, report in reports:
        sharing = None if report is None else report.sharing
        if sharing is None:
            why = "it does not report whether it shares: its sidecar may be starting, or of another release"
        elif not sharing.connected:
            why = f"it does not reach the pool's Valkey: {sharing.failure or 'it has just started'}"
        elif sharing.others < len(reports) - 1:
            why = f"it hears of {sharing.others} of {len(reports) - 1} other pods"
        else:
            continue
        message = f"pod {pod.ref.name} shares on its own: {why}"
        return Verdict(ConditionType.POOL_FAIRNESS, False, Reason.NOT_REACHED, message)
    message = f"{engines} engines share as one: each knows what the others serve"
    return Verdict(ConditionType.POOL_FAIRNESS, True, Reason.SHARED, message)
