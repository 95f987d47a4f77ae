"""The two documents that configure a pool's pods, and when a new generation of the configuration begins.

The generation increases by one whenever the content differs from what was written last. The last one is read from the
ConfigMap; if that is gone or damaged, from the pool's status.
"""

import hashlib
from collections.abc import Iterable, Mapping, Set

from pydantic import ValidationError

from justitia_api.config import (
    AdapterConfig,
    ApplicationConfig,
    BoostConfig,
    KeyEntry,
    KeyTable,
    PoolConfig,
    QueueConfig,
    RunConfig,
    SchedulingConfig,
    TenantConfig,
    TenantLimits,
    ValkeyConfig,
    key_digest,
)
from justitia_api.engine import Adapter
from justitia_api.pool import BoostSpec, SchedulingSpec, ServingPool
from justitia_api.tenant import Tenant
from justitia_operator.world.admissions import AdmittedApplication, TenantKeys
from justitia_operator.world.objects import Json

CONFIG_FILE = "pool.json"
KEYS_FILE = "keys.json"


def build_pool_config(
    pool: ServingPool,
    admitted: Iterable[AdmittedApplication],
    keys: Mapping[str, TenantKeys],
    written: PoolConfig | None,
    last_generation: int,
    *,
    pepper: str,
    learned_from: Iterable[str] = (),
    valkey: ValkeyConfig | None = None,
) -> PoolConfig:
    """Builds the pool's configuration. `keys` are those of all tenants. `pepper` is the pool's, hex. `written` is the
    configuration that was written last, `last_generation` the generation in the pool's status. `learned_from` are the
    names in the pool's store that applications still use. `valkey` is where the pool's engines share.
    """
    groups = pool.spec.engine.prefix_cache.groups
    tenants: dict[str, TenantConfig] = {}
    applications: list[ApplicationConfig] = []
    for admission in admitted:
        application = _application(admission, written)
        if application is not None:
            applications.append(application)
            tenants[application.tenant] = _tenant(admission.tenant, admission.weight, groups)
    scheduling = pool.spec.scheduling
    config = PoolConfig(
        generation=written.generation if written else last_generation,
        namespace=pool.metadata.namespace,
        name=pool.metadata.name,
        model=pool.spec.model.served_name,
        adapters=tuple(sorted(map(_adapter, pool.spec.model.adapters), key=lambda adapter: adapter.name)),
        scheduling=_scheduling(scheduling),
        queue=QueueConfig(
            maximum_requests=scheduling.queue.maximum_requests, timeout_seconds=scheduling.queue.timeout_seconds
        ),
        tenants=tuple(tenants[name] for name in sorted(tenants)),
        applications=tuple(sorted(applications, key=lambda a: (a.namespace, a.name))),
        valkey=valkey,
        learned_from=tuple(sorted(learned_from)),
        key_digests=_hashed(_entries(pepper, tenants, keys)),
    )
    if config == written:
        return config
    return config.model_copy(update={"generation": max(config.generation, last_generation) + 1})


def withdrawn(
    written: PoolConfig, permitted: Set[tuple[str, str, str]], pepper: str, keys: Mapping[str, TenantKeys]
) -> PoolConfig:
    """The configuration of a paused pool: what was written, without the applications that are no longer permitted
    (namespace, name, tenant), and with the keys that are valid.
    """
    applications = tuple(a for a in written.applications if (a.namespace, a.name, a.tenant) in permitted)
    names = {application.tenant for application in applications}
    tenants = tuple(tenant for tenant in written.tenants if tenant.name in names)
    hashed = _hashed(_entries(pepper, names, keys))
    config = written.model_copy(update={"applications": applications, "tenants": tenants, "key_digests": hashed})
    return config if config == written else config.model_copy(update={"generation": written.generation + 1})


def _adapter(adapter: Adapter) -> AdapterConfig:
    tenants = None if adapter.tenants is None else tuple(sorted(adapter.tenants))
    return AdapterConfig(name=adapter.name, tenants=tenants)


def _scheduling(scheduling: SchedulingSpec) -> SchedulingConfig:
    return SchedulingConfig(
        policy=scheduling.policy,
        cost_model=scheduling.cost_model,
        enforcement=scheduling.enforcement,
        boost=None if scheduling.boost is None else _boost(scheduling.boost),
        burst_seconds=scheduling.burst_seconds,
        heartbeat_seconds=scheduling.heartbeat_seconds,
        stretch=scheduling.stretch,
    )


def _boost(boost: BoostSpec) -> BoostConfig:
    return BoostConfig(
        mode=boost.mode,
        minimum_gamma=float(boost.gamma or boost.minimum_gamma),
        maximum_gamma=float(boost.gamma or boost.maximum_gamma),
        hysteresis=float(boost.hysteresis),
    )


def _tenant(tenant: Tenant, weight: str, groups: Mapping[str, str]) -> TenantConfig:
    return TenantConfig(
        name=tenant.metadata.name,
        weight=float(weight),
        tier=tenant.spec.tier,
        limits=tenant.spec.limits or TenantLimits(),
        prefix_group=groups.get(tenant.metadata.name),
    )


def _application(admission: AdmittedApplication, written: PoolConfig | None) -> ApplicationConfig | None:
    """The application's entry. For a paused application it is the entry that was written, if any."""
    application = admission.application
    if application.spec.paused:
        here = (application.metadata.namespace, application.metadata.name, application.spec.tenant_ref.name)
        before = written.applications if written else ()
        return next((a for a in before if (a.namespace, a.name, a.tenant) == here), None)
    run = application.spec.run
    return ApplicationConfig(
        namespace=application.metadata.namespace,
        name=application.metadata.name,
        tenant=application.spec.tenant_ref.name,
        weight=float(application.spec.share.weight),
        priority=application.spec.share.priority,
        run=RunConfig(
            idle_timeout_seconds=run.idle_timeout_seconds,
            maximum_age_seconds=run.maximum_age_seconds,
            maximum_cost=run.maximum_cost,
        ),
        objectives=application.spec.slo,
        beyond_objective=application.spec.beyond_objective,
        learning=admission.learning,
    )


def build_key_table(pepper: str, config: PoolConfig, keys: Mapping[str, TenantKeys]) -> KeyTable:
    """Builds the table of API keys of the configuration's tenants, digested with the pool's pepper."""
    entries = _entries(pepper, (tenant.name for tenant in config.tenants), keys)
    return KeyTable(generation=config.generation, pepper=pepper, keys=entries)


def _entries(pepper: str, tenants: Iterable[str], keys: Mapping[str, TenantKeys]) -> tuple[KeyEntry, ...]:
    return tuple(
        KeyEntry(digest=key_digest(pepper, value), tenant=name)
        for name in sorted(set(tenants))
        for value in keys[name].values
    )


def _hashed(entries: Iterable[KeyEntry]) -> str:
    return hashlib.sha256("".join(f"{e.digest} {e.tenant}\n" for e in entries).encode()).hexdigest()[:32]


def read_pool_config(config_map: Json | None) -> PoolConfig | None:
    """Reads the configuration from a ConfigMap. None if there is none, or somebody damaged it."""
    text = ((config_map or {}).get("data") or {}).get(CONFIG_FILE)
    if text is None:
        return None
    try:
        return PoolConfig.model_validate_json(text)
    except ValidationError:
        return None
