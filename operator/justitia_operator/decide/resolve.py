"""Resolves references: which keys a tenant has, and which applications a pool admits, for which tenant and with which
weight.

A reference that does not resolve is a :class:`Refused`: the condition, its reason and what to do, never an exception.
"""

import base64
import binascii
from collections.abc import Iterator, Mapping, Set
from typing import TypeVar

from pydantic import ValidationError

from justitia_api.application import LLMApplication
from justitia_api.conditions import ConditionType, Reason
from justitia_api.config import MINIMUM_KEY_BYTES
from justitia_api.namespaces import NamespaceSelection
from justitia_api.pool import ServingPool, ServingPoolSpec
from justitia_api.resource import ObjectMeta, Resource
from justitia_api.tenant import ApiKey, Tenant
from justitia_operator.decide.inline_pools import inline_pool_refusal
from justitia_operator.learning.learned import learning_config, name_in_store, recorded
from justitia_operator.world.admissions import AdmittedApplication, TenantKeys
from justitia_operator.world.names import application_ref, pool_ref
from justitia_operator.world.objects import Json, Kind, Ref, is_controlled_by, labels_of
from justitia_operator.world.snapshot import Snapshot
from justitia_operator.world.verdicts import Refused

R = TypeVar("R", bound=Resource)

DEFAULT_WEIGHT = "1"


def parse(type_: type[R], obj: Json) -> R | Refused:
    """Parses the object. The status is left out: it is computed, never an input."""
    try:
        return type_.model_validate({key: value for key, value in obj.items() if key != "status"})
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        message = f"{where or 'object'}: {first['msg']}"
        return Refused(ConditionType.ACCEPTED, Reason.INVALID_SPEC, message)


def typed(world: Snapshot, type_: type[R], ref: Ref) -> R | Refused | None:
    """Reads and parses the object. None if it does not exist."""
    return world.objects.read(ref, lambda obj: parse(type_, obj))


def admit(world: Snapshot, application: LLMApplication) -> AdmittedApplication | Refused:
    """Admits the application to its pool, or refuses it."""
    namespace, tenant_name = application.metadata.namespace, application.spec.tenant_ref.name
    tenant = typed(world, Tenant, Ref(Kind.TENANT, "", tenant_name))
    if tenant is None:
        message = f"Tenant {tenant_name} does not exist: create it, or create this application for another Tenant"
        return Refused(ConditionType.RESOLVED_REFS, Reason.TENANT_NOT_FOUND, message)
    if isinstance(tenant, Refused):
        message = f"Tenant {tenant_name} is not accepted: {tenant.message}"
        return Refused(ConditionType.RESOLVED_REFS, Reason.REFERENT_NOT_ACCEPTED, message)
    if not allows(world, tenant.spec.namespaces, namespace):
        message = f"Tenant {tenant_name} does not allow namespace {namespace}: add it to the Tenant's spec.namespaces"
        return Refused(ConditionType.ACCEPTED, Reason.NAMESPACE_NOT_ALLOWED, message)
    pool = pool_of(world, application)
    if isinstance(pool, Refused):
        return pool
    weight = weight_in(pool, tenant)
    if isinstance(weight, Refused):
        return weight
    record = recorded(world.get(application_ref(application)))
    return AdmittedApplication(application, tenant, pool, weight, learning_config(application, pool, record))


def allows(world: Snapshot, selection: NamespaceSelection, namespace: str) -> bool:
    """Whether the selection includes the namespace."""
    if selection.names is not None:
        return namespace in selection.names
    found = world.get(Ref(Kind.NAMESPACE, "", namespace))
    if selection.selector is None or found is None:
        return False
    labels = labels_of(found)
    return all(labels.get(key) == value for key, value in selection.selector.match_labels.items())


def pool_of(world: Snapshot, application: LLMApplication) -> ServingPool | Refused:
    """Returns the pool of the application: the one that it refers to, or its own."""
    namespace, name = application.metadata.namespace, application.pool_name
    if application.spec.pool is not None:
        return _own_pool(world, application, application.spec.pool)
    pool = typed(world, ServingPool, Ref(Kind.SERVING_POOL, application.pool_namespace, name))
    if application.pool_namespace != namespace and not _is_open_to(world, pool, namespace):
        message = (
            f"ServingPool {name} of namespace {application.pool_namespace} does not exist or does not allow namespace "
            f"{namespace}: ask the pool's owner to add it to spec.allowedNamespaces, or correct poolRef"
        )
        return Refused(ConditionType.RESOLVED_REFS, Reason.REF_NOT_PERMITTED, message)
    if pool is None:
        message = f"ServingPool {name} does not exist in namespace {namespace}: create it there, or correct poolRef"
        return Refused(ConditionType.RESOLVED_REFS, Reason.POOL_NOT_FOUND, message)
    if isinstance(pool, Refused):
        message = f"ServingPool {name} is not accepted: {pool.message}"
        return Refused(ConditionType.RESOLVED_REFS, Reason.REFERENT_NOT_ACCEPTED, message)
    return pool


def _own_pool(world: Snapshot, application: LLMApplication, spec: ServingPoolSpec) -> ServingPool | Refused:
    """The pool as the application wants it. If that is not allowed, the pool as it was before."""
    if taken := foreign_pool(world, application):
        return taken
    namespace, name = application.metadata.namespace, application.metadata.name
    if message := refused_inline_pool(world, application):
        before = typed(world, ServingPool, Ref(Kind.SERVING_POOL, namespace, name))
        if isinstance(before, ServingPool):
            return before
        return Refused(ConditionType.ACCEPTED, Reason.INLINE_POOL_REFUSED, message)
    document = {
        "apiVersion": application.api_version,
        "kind": "ServingPool",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }
    return ServingPool.model_validate(document)


def _is_open_to(world: Snapshot, pool: ServingPool | Refused | None, namespace: str) -> bool:
    if not isinstance(pool, ServingPool) or pool.spec.allowed_namespaces is None:
        return False
    return allows(world, pool.spec.allowed_namespaces, namespace)


def refused_inline_pool(world: Snapshot, application: LLMApplication) -> str | None:
    """Explains what is not allowed in the application's own pool, and what to do. None if all is."""
    leave, spec = world.installation.inline_pools, application.spec.pool
    return None if leave is None or spec is None else inline_pool_refusal(leave, spec)


def foreign_pool(world: Snapshot, application: LLMApplication) -> Refused | None:
    """Refuses an inline pool whose name another pool has."""
    namespace, name = application.metadata.namespace, application.metadata.name
    found = world.get(Ref(Kind.SERVING_POOL, namespace, name))
    owner = world.get(Ref(Kind.LLM_APPLICATION, namespace, name))
    if found is None or owner is None or is_controlled_by(found, owner):
        return None
    message = (
        f"ServingPool {name} exists and does not belong to this application: refer to it by poolRef, or rename one"
    )
    return Refused(ConditionType.ACCEPTED, Reason.POOL_NAME_TAKEN, message)


def weight_in(pool: ServingPool, tenant: Tenant) -> str | Refused:
    """Returns the tenant's weight in the pool."""
    if tenant.spec.weight is not None:
        return tenant.spec.weight
    if tenant.spec.tier is None:
        return DEFAULT_WEIGHT
    weight = pool.spec.scheduling.weight_of(tenant.spec.tier)
    if weight is not None:
        return weight
    known = ", ".join(tier.name for tier in pool.spec.scheduling.tiers) or "none"
    message = (
        f"Tenant {tenant.metadata.name} is in tier {tenant.spec.tier}, but ServingPool {pool.metadata.name} has tiers "
        f"{known}: add the tier to the pool's scheduling.tiers, or change the Tenant's spec.tier"
    )
    return Refused(ConditionType.RESOLVED_REFS, Reason.UNKNOWN_TIER, message)


def applications_of(world: Snapshot, ref: Ref) -> Iterator[LLMApplication]:
    """Applications that refer to a tenant or a pool and can be parsed, by namespace and name."""
    for here in world.objects.referrers(ref, Kind.LLM_APPLICATION):
        application = typed(world, LLMApplication, here)
        if isinstance(application, LLMApplication):
            yield application


def admissions(world: Snapshot, pool: ServingPool) -> tuple[AdmittedApplication, ...]:
    """Applications that are admitted to the pool, by name."""
    candidates = applications_of(world, pool_ref(pool))
    return tuple(found for a in candidates if isinstance(found := admit(world, a), AdmittedApplication))


def permitted(world: Snapshot, pool: ServingPool) -> Set[tuple[str, str, str]]:
    """Applications, each with its tenant, that the pool may serve, whatever its spec says of tiers."""
    found = ((application, admit(world, application)) for application in applications_of(world, pool_ref(pool)))
    return {
        (application.metadata.namespace, application.metadata.name, application.spec.tenant_ref.name)
        for application, result in found
        if not isinstance(result, Refused) or result.reason is Reason.UNKNOWN_TIER
    }


def names_in_store(world: Snapshot, pool: ServingPool) -> Iterator[str]:
    """Names in the pool's store of all applications that refer to it, also of those that are refused."""
    if pool.spec.learning is not None:
        for ref in world.objects.referrers(pool_ref(pool), Kind.LLM_APPLICATION):
            yield name_in_store(ObjectMeta.model_validate(world.objects[ref]["metadata"]))


def tenant_keys(world: Snapshot) -> Mapping[str, TenantKeys]:
    """Returns the keys of every tenant. A key of two tenants belongs to the older one, so that adding a tenant takes
    nothing away.
    """
    return world.objects.derived((Kind.TENANT, Kind.SECRET), lambda: _tenant_keys(world))


def _tenant_keys(world: Snapshot) -> Mapping[str, TenantKeys]:
    owners: dict[bytes, str] = {}
    found: dict[str, TenantKeys] = {}
    every = (typed(world, Tenant, ref) for ref in world.objects.of(Kind.TENANT))
    tenants = [tenant for tenant in every if isinstance(tenant, Tenant)]
    for tenant in sorted(tenants, key=lambda t: (t.metadata.creation_timestamp, t.metadata.name)):
        values: list[bytes] = []
        problems: list[Refused] = []
        for key in tenant.spec.api_keys:
            value = _value(world, key)
            if isinstance(value, Refused):
                problems.append(value)
            elif owners.setdefault(value, tenant.metadata.name) != tenant.metadata.name:
                problems.append(_duplicate(key, owners[value]))
            elif value not in values:
                values.append(value)
        found[tenant.metadata.name] = TenantKeys(tuple(values), tuple(problems))
    return found


def _duplicate(key: ApiKey, owner: str) -> Refused:
    message = (
        f"the key in Secret {key.secret_ref.name} already belongs to Tenant {owner}: give each tenant a key of its own"
    )
    return Refused(ConditionType.RESOLVED_REFS, Reason.DUPLICATE_KEY, message)


def _value(world: Snapshot, key: ApiKey) -> bytes | Refused:
    namespace, reference = world.installation.namespace, key.secret_ref
    secret = world.get(Ref(Kind.SECRET, namespace, reference.name))
    value = secret_value(secret, reference.key) if secret is not None else None
    if value is None:
        what = "does not exist" if secret is None else f"has no entry {reference.key}"
        message = f"Secret {reference.name} in namespace {namespace} {what}: create it with the API key in that entry"
        return Refused(ConditionType.RESOLVED_REFS, Reason.SECRET_NOT_FOUND, message)
    if len(value) < MINIMUM_KEY_BYTES:
        message = (
            f"the key in Secret {reference.name} has {len(value)} bytes: use {MINIMUM_KEY_BYTES} or more random bytes"
        )
        return Refused(ConditionType.RESOLVED_REFS, Reason.KEY_TOO_SHORT, message)
    return value


def secret_value(secret: Json, entry: str) -> bytes | None:
    """Reads an entry of a Secret, without surrounding white space, from `stringData` or `data`. None if it is not
    there.
    """
    text = (secret.get("stringData") or {}).get(entry)
    if text is not None:
        return str(text).encode().strip()
    encoded = (secret.get("data") or {}).get(entry)
    if encoded is None:
        return None
    try:
        return base64.b64decode(encoded, validate=True).strip()
    except (binascii.Error, ValueError):
        return None
