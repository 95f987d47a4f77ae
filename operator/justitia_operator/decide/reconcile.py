"""What to write for a resource, given the cluster as last seen: pure, level-triggered, safe to repeat.

A plan is empty when the cluster is as it should be. A user's mistake becomes a condition, never an exception, and what
existed before it stays.
"""

from collections.abc import Container, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from justitia_api.application import LLMApplication
from justitia_api.conditions import ConditionType, Reason
from justitia_api.config import KeyTable, PoolConfig
from justitia_api.pool import ServingPool
from justitia_api.tenant import LONGEST_LIST, Tenant
from justitia_operator.build.arguments import refused_argument, refused_variable
from justitia_operator.build.builders import build_children, build_inline_pool
from justitia_operator.build.credentials import make_pod_credentials, period_at, pool_pepper
from justitia_operator.build.documents import build_key_table, build_pool_config, read_pool_config, withdrawn
from justitia_operator.build.shared_valkey import valkey_of
from justitia_operator.decide.compare import differs, needs_apply
from justitia_operator.decide.engines import count_engines, engines_verdict, observe_engines
from justitia_operator.decide.ownership import additions
from justitia_operator.decide.programming import policy_verdict, programmed_verdict, pushes
from justitia_operator.decide.received import received
from justitia_operator.decide.resolve import (
    admissions,
    admit,
    applications_of,
    names_in_store,
    parse,
    permitted,
    refused_inline_pool,
    tenant_keys,
)
from justitia_operator.decide.serving import application_ready, fairness_verdict, tenant_ready
from justitia_operator.decide.sidecar_image import installation_of
from justitia_operator.decide.status import accepted, not_installed, plan_status, resolved, verdict_of
from justitia_operator.learning.predictors import plan_predictor
from justitia_operator.slo.gamma import gamma_range
from justitia_operator.slo.objectives import standing_of
from justitia_operator.world.admissions import AdmittedApplication
from justitia_operator.world.catalog import Catalog
from justitia_operator.world.installation import Installation
from justitia_operator.world.names import (
    child_ref,
    children_name,
    engines_kind,
    selector_of,
    service_host,
)
from justitia_operator.world.objects import (
    CHILD_KINDS,
    ENGINE_KINDS,
    OPTIONAL_KINDS,
    Json,
    Kind,
    Plan,
    Ref,
    is_controlled_by,
    ref_of,
)
from justitia_operator.world.sidecars import Reporting, present_reports
from justitia_operator.world.snapshot import Rejection, Snapshot
from justitia_operator.world.verdicts import Refused, Verdict
from justitia_vocabulary.policies import WITHOUT_WEIGHTS


def reconcile(world: Snapshot, ref: Ref, now: datetime) -> Plan:
    """Plans for one of our resources. Empty if it does not exist or is being deleted."""
    obj = world.get(ref)
    if obj is None or obj["metadata"].get("deletionTimestamp"):
        return Plan()
    match ref.kind:
        case Kind.TENANT:
            return reconcile_tenant(world, obj, now)
        case Kind.SERVING_POOL:
            return reconcile_pool(world, obj, now)
        case Kind.LLM_APPLICATION:
            return reconcile_application(world, obj, now)
        case _:
            raise ValueError(f"{ref} is not reconciled")


def reconcile_all(world: Snapshot, now: datetime) -> Plan:
    """Plans for everything at once, as for a file. It includes the pools that applications bring along."""
    plan = Plan()
    for kind in (Kind.TENANT, Kind.LLM_APPLICATION):
        for obj in world.of(kind):
            plan += reconcile(world, ref_of(obj), now)
    made = [obj for obj in plan.applies if obj["kind"] == Kind.SERVING_POOL]
    world = replace(world, objects=Catalog([*world.objects.values(), *made]))
    for obj in world.of(Kind.SERVING_POOL):
        plan += reconcile(world, ref_of(obj), now)
    return plan


def reconcile_tenant(world: Snapshot, obj: Json, now: datetime) -> Plan:
    """Plans a status only: what a tenant is entitled to is written with the pools that serve it."""
    tenant = parse(Tenant, obj)
    if isinstance(tenant, Refused):
        return plan_status(obj, (verdict_of(tenant), _not_accepted()), {}, now)
    keys = tenant_keys(world)[tenant.metadata.name]
    problems = list(keys.problems)
    weights: dict[str, str] = {}
    found = [admit(world, application) for application in applications_of(world, ref_of(obj))]
    for each in found:
        match each:
            case AdmittedApplication(application=application, pool=pool, weight=weight):
                if pool.spec.scheduling.policy not in WITHOUT_WEIGHTS:
                    weights[f"{application.pool_namespace}/{application.pool_name}"] = weight
            case Refused(reason=Reason.UNKNOWN_TIER) as refused if refused not in problems:
                problems.append(refused)
    refs = resolved()
    if problems:
        refs = replace(verdict_of(problems[0]), message="; ".join(problem.message for problem in problems))
    ready = tenant_ready(world, len(keys.values), found)
    served = sum(isinstance(each, AdmittedApplication) for each in found)
    listed = [{"pool": name, "weight": weight} for name, weight in sorted(weights.items())]
    fields = {"applications": served, "weights": listed[:LONGEST_LIST]}
    return plan_status(obj, (accepted(paused=False), refs, ready), fields, now)


def reconcile_application(world: Snapshot, obj: Json, now: datetime) -> Plan:
    """Plans its status, and its own pool if it brings one."""
    application = parse(LLMApplication, obj)
    # The record of the predictor is stored nowhere else, so it stays whatever the rest becomes.
    fields: dict[str, Any] = {"predictor": (obj.get("status") or {}).get("predictor")}
    if isinstance(application, Refused):
        return plan_status(obj, (verdict_of(application), _not_accepted()), fields, now)
    found = admit(world, application)
    accepted_, refs = accepted(application.spec.paused), resolved()
    if isinstance(found, Refused):
        if found.condition is ConditionType.ACCEPTED:
            accepted_ = verdict_of(found)
            reason, message = Reason.NOT_ACCEPTED, "see the condition Accepted"
        else:
            refs = verdict_of(found)
            reason, message = Reason.REFS_NOT_RESOLVED, "see the condition ResolvedRefs"
        ready = Verdict(ConditionType.READY, False, reason, message)
        return plan_status(obj, (accepted_, refs, ready), fields, now)
    plan, refusal = _plan_own_pool(world, application, obj)
    ready = application_ready(world, application, found.pool)
    predictor = plan_predictor(world, application, found.pool, obj, now)
    standing = standing_of(world, application, found.pool, obj, now)
    fields = {
        "endpoint": endpoint_of(application),
        "pool": _pool_as_seen_from_here(application),
        "service": received(world, application, found.pool, obj, now),
        "predictor": predictor.record,
    }
    verdicts = [refusal or accepted_, refs, ready]
    if predictor.verdict is not None:
        verdicts.append(predictor.verdict)
    if standing is not None:
        fields["slo"] = standing.written
        verdicts.append(standing.verdict)
    return plan + predictor.plan + plan_status(obj, verdicts, fields, now)


def endpoint_of(application: LLMApplication) -> str:
    """The base URL for OpenAI clients inside the cluster."""
    namespace, name = application.metadata.namespace, application.metadata.name
    host = service_host(application.pool_name, application.pool_namespace)
    return f"http://{host}{application_path(namespace, name)}"


def _pool_as_seen_from_here(application: LLMApplication) -> str:
    name, namespace = application.pool_name, application.pool_namespace
    return name if namespace == application.metadata.namespace else f"{namespace}/{name}"


def application_path(namespace: str, name: str) -> str:
    """The path of an application's OpenAI API at any sidecar of its pool."""
    return f"/applications/{namespace}/{name}/v1"


def _plan_own_pool(world: Snapshot, application: LLMApplication, obj: Json) -> tuple[Plan, Verdict | None]:
    if application.spec.pool is None or application.spec.paused:
        return Plan(), None
    if message := refused_inline_pool(world, application):
        return Plan(), Verdict(ConditionType.ACCEPTED, False, Reason.INLINE_POOL_REFUSED, message)
    desired = build_inline_pool(application, obj["spec"]["pool"])
    rejected = world.rejection(desired)
    refusal = None
    if rejected is not None:
        refusal = Verdict(ConditionType.ACCEPTED, False, rejected.reason, rejected.message)
    return Plan(applies=(desired,) if _is_due(world, desired) else ()), refusal


def _is_due(world: Snapshot, desired: Json) -> bool:
    rejected, observed = _rejection(world, desired), world.get(ref_of(desired))
    if rejected is None or rejected.retry:
        return needs_apply(desired, observed)
    return rejected.reason is Reason.FIELDS_ADDED and differs(desired, observed)


def _rejection(world: Snapshot, desired: Json) -> Rejection | None:
    """Why an object is not as it should be. None once nothing is left of what others added."""
    rejected, observed = world.rejection(desired), world.get(ref_of(desired))
    if rejected is None or rejected.reason is not Reason.FIELDS_ADDED or observed is None:
        return rejected
    return rejected if additions(desired, observed) else None


def reconcile_pool(world: Snapshot, obj: Json, now: datetime) -> Plan:
    """Plans its objects and status. A refused engine setting withholds only the object that makes the engines' pods:
    keys and weights still change. A kind that the cluster lacks withholds only the object of that kind. A paused pool
    stays as it is, except that tenants lose what is taken away from them.
    """
    pool = parse(ServingPool, obj)
    if isinstance(pool, Refused):
        return plan_status(obj, (verdict_of(pool), _not_accepted()), {}, now)
    admitted = admissions(world, pool)
    config_map = child_ref(pool, Kind.CONFIG_MAP)
    written = read_pool_config(world.get(config_map))
    last = (obj.get("status") or {}).get("configurationGeneration", 0)
    pepper = pool_pepper(world.installation.root, pool.metadata.uid)
    if pool.spec.paused and written is not None:
        config = withdrawn(written, permitted(world, pool), pepper, tenant_keys(world))
    else:
        config = build_pool_config(
            pool,
            admitted,
            tenant_keys(world),
            written,
            last,
            pepper=pepper,
            learned_from=names_in_store(world, pool),
            valkey=valkey_of(pool, world.installation),
        )
    table = build_key_table(pepper, config, tenant_keys(world))
    parts = _build_parts(world, pool, config, table, now)
    refused = _refused_engine(pool, world.installation)
    verdict = refused or accepted(pool.spec.paused)
    missing = parts.keys() & set(OPTIONAL_KINDS) - world.installed
    plan = Plan()
    if not pool.spec.paused:
        withheld = missing | (ENGINE_KINDS if refused else set())
        plan, rejected = _plan_children(world, pool, obj, parts, withheld=withheld)
        verdict = rejected or verdict
    elif last or written is not None:
        documents = (parts[Kind.CONFIG_MAP], parts[Kind.SECRET])
        plan = Plan(applies=tuple(child for child in documents if _is_due(world, child)))
    else:
        config = config.model_copy(update={"generation": last})
    if config.generation:
        plan += Plan(pushes=tuple(pushes(world, pool, config, table)))
    engines, reports = observe_engines(world, pool), present_reports(world, ref_of(obj))
    fields: dict[str, Any] = {
        "replicas": engines.existing,
        "readyReplicas": engines.ready,
        "selector": ",".join(f"{key}={value}" for key, value in selector_of(pool.metadata.name).items()),
        "endpoint": f"http://{service_host(pool.metadata.name, pool.metadata.namespace)}/v1",
        # If it cannot be written, each new status would make another one.
        "configurationGeneration": last if config_map in world.rejections else config.generation,
        "applications": len(config.applications),
        "gamma": gamma_range(reports, obj),
    }
    verdicts = (
        verdict,
        not_installed(missing) if missing else resolved(),
        *_pool_verdicts(
            engines_verdict(world, pool, engines, now),
            fairness_verdict(pool, engines, policy_verdict(reports), reports, shares=config.valkey is not None),
            verdict,
        ),
        *_told_verdicts(reports, config.generation),
    )
    return plan + plan_status(obj, verdicts, fields, now)


def _build_parts(
    world: Snapshot, pool: ServingPool, config: PoolConfig, table: KeyTable, now: datetime
) -> dict[Kind, Json]:
    root, uid = world.installation.root, pool.metadata.uid
    credentials = make_pod_credentials(root, uid, period_at(uid, now))
    return build_children(pool, config, table, credentials, installation_of(world, pool))


def _plan_children(
    world: Snapshot, pool: ServingPool, obj: Json, parts: Mapping[Kind, Json], *, withheld: Set[Kind]
) -> tuple[Plan, Verdict | None]:
    """Plans the pool's objects that differ, and collects what the API server says of those that it refuses."""
    children = [child for kind, child in parts.items() if kind not in withheld]
    still_needed = ENGINE_KINDS - parts.keys()
    plan = Plan(
        applies=tuple(child for child in children if _is_due(world, child)),
        deletes=tuple(
            ref
            for ref in _superfluous(world, obj, parts.keys())
            if ref.kind not in still_needed or _replaced(world, pool, withheld)
        ),
    )
    rejected = [found for child in children if (found := _rejection(world, child))]
    if not rejected:
        return plan, None
    message = "; ".join(each.message for each in rejected)
    return plan, Verdict(ConditionType.ACCEPTED, False, rejected[0].reason, message)


def _replaced(world: Snapshot, pool: ServingPool, withheld: Set[Kind]) -> bool:
    """Whether to delete engines of the other kind of object: with Surge not before enough new ones serve."""
    wanted = engines_kind(pool)
    if pool.spec.engine.rollout == "Recreate":
        return wanted not in withheld
    return count_engines(world, pool, wanted).ready >= pool.spec.replicas


def _refused_engine(pool: ServingPool, installation: Installation) -> Verdict | None:
    """The verdict on engine settings that must not, or cannot, be used. None if all can."""
    engine = pool.spec.engine
    if message := refused_argument(engine) or refused_variable(engine):
        return Verdict(ConditionType.ACCEPTED, False, Reason.ENGINE_ARGUMENT_REFUSED, message)
    on_node = engine.model_cache is not None and engine.model_cache.type == "Node"
    if on_node and installation.node_cache_path is None:
        message = (
            "engine.modelCache has type Node, but the operator has no folder of nodes configured: use a "
            "PersistentVolumeClaim, or ask the installation's owner to set modelCache.nodePath in the chart"
        )
        return Verdict(ConditionType.ACCEPTED, False, Reason.NODE_CACHE_NOT_OFFERED, message)
    return None


def _pool_verdicts(available: Verdict, fairness: Verdict, accepted_: Verdict) -> Iterator[Verdict]:
    yield available
    yield fairness
    if available.holds:
        yield Verdict(ConditionType.READY, True, Reason.SERVING, available.message)
    elif not accepted_.holds:
        yield _not_accepted()
    else:
        yield Verdict(ConditionType.READY, False, Reason.NONE_AVAILABLE, available.message)


def _told_verdicts(reports: Sequence[Reporting], generation: int) -> Iterator[Verdict]:
    yield programmed_verdict(reports, generation)
    if (policy := policy_verdict(reports)) is not None:
        yield policy


def _superfluous(world: Snapshot, pool: Json, parts: Container[Kind]) -> Iterator[Ref]:
    """Objects that were made for the pool and are no part of it any more: their kind or their name is not wanted."""
    name = pool["metadata"]["name"]
    for kind in (*CHILD_KINDS, *OPTIONAL_KINDS):
        for ref in world.objects.referrers(ref_of(pool), kind):
            found = world.objects[ref]
            going = found["metadata"].get("deletionTimestamp")
            if (
                (ref.name != children_name(name, kind) or kind not in parts)
                and is_controlled_by(found, pool)
                and not going
            ):
                yield ref


def _not_accepted() -> Verdict:
    return Verdict(ConditionType.READY, False, Reason.NOT_ACCEPTED, "see the condition Accepted")


@dataclass(frozen=True)
class Mistake:
    """A user's mistake in a resource."""

    ref: Ref
    reason: str
    message: str


def mistakes(plan: Plan) -> tuple[Mistake, ...]:
    """Users' mistakes in the resources of a plan, as the conditions explain them."""
    types = {ConditionType.ACCEPTED, ConditionType.RESOLVED_REFS}
    return tuple(
        Mistake(patch.ref, condition["reason"], condition["message"])
        for patch in plan.statuses
        for condition in patch.status["conditions"]
        if condition["type"] in types and condition["status"] == "False"
    )
