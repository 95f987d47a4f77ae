"""Finds out what a request belongs to: its application, its run, and with whom it shares cached prefixes.

- *Application*: the path `/applications/{namespace}/{name}`, else the header `x-justitia-application: namespace/name`,
  else the tenant's only application in the pool.
- *Run id*: the header `x-justitia-run`, else the gateways' fairness ids, else `metadata.run_id` of the body, else the
  trace id of `traceparent`. Without one, the request is a run of its own.

The tenant comes from the API key alone. Another tenant's application counts as unknown.
"""

import re
from collections import defaultdict
from collections.abc import Mapping

from justitia_api import wire
from justitia_api.config import ApplicationConfig, PoolConfig
from justitia_api.wire import Refusal
from justitia_sidecar.identity.salt import cache_salt
from justitia_sidecar.refusals import RefusalError, shown
from justitia_vocabulary.units import ApplicationId, TenantId

MAXIMUM_RUN_ID_BYTES = 256

_TRACEPARENT = re.compile(rb"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")
_RUN_HEADERS = tuple(name.encode() for name in (wire.RUN_HEADER, *wire.RUN_ALIAS_HEADERS))

DECIDING_HEADERS = frozenset(
    {"authorization", "traceparent", wire.APPLICATION_HEADER, wire.RUN_HEADER, *wire.RUN_ALIAS_HEADERS}
)
"""The headers that say whose a request is, and of which run."""

RequestHeaders = Mapping[bytes, bytes]


class Directory:
    """A pool's applications and prefix groups, by tenant."""

    def __init__(self, config: PoolConfig) -> None:
        self._of: defaultdict[TenantId, dict[ApplicationId, ApplicationConfig]] = defaultdict(dict)
        for application in config.applications:
            self._of[TenantId(application.tenant)][application.id] = application
        self._groups = {TenantId(tenant.name): tenant.prefix_group for tenant in config.tenants}

    def application(self, tenant: TenantId, path: str | None, headers: RequestHeaders) -> ApplicationConfig:
        """The application of a request. `path` is `namespace/name` if the URL names it. Raises a refusal with 400."""
        own = self._of.get(tenant, {})
        named = path
        if named is None and (header := headers.get(wire.APPLICATION_HEADER.encode())) is not None:
            named = header.decode("latin-1")
        if named is not None:
            try:
                return own[ApplicationId(named)]
            except KeyError:
                raise RefusalError(
                    Refusal.UNKNOWN_APPLICATION,
                    f"Your tenant has no application {shown(named)} in this pool: {_choose(own)}.",
                ) from None
        if len(own) == 1:
            return next(iter(own.values()))
        refusal = Refusal.AMBIGUOUS_APPLICATION if own else Refusal.UNKNOWN_APPLICATION
        raise RefusalError(refusal, f"The request names no application: {_choose(own)}.")

    def salt(self, tenant: TenantId) -> str:
        """The cache salt of the tenant's requests."""
        return cache_salt(tenant, self._groups.get(tenant))


def _choose(own: Mapping[ApplicationId, ApplicationConfig]) -> str:
    if not own:
        return "create an LLMApplication that refers to your tenant and this pool"
    names = ", ".join(sorted(own)[:20])
    return (
        f"set the header {wire.APPLICATION_HEADER} (or the path /applications/<namespace>/<name>/v1) to one of {names}"
    )


def run_id(headers: RequestHeaders, body_run: str | None) -> str | None:
    """The client's id of the run, None without one. Raises a refusal with 400 if it is too long."""
    found = _find_run(headers, body_run)
    if found is not None and len(found) > MAXIMUM_RUN_ID_BYTES:
        raise RefusalError(
            Refusal.INVALID_BODY, f"The run id is {len(found)} bytes long: use at most {MAXIMUM_RUN_ID_BYTES}."
        )
    return found


def _find_run(headers: RequestHeaders, body_run: str | None) -> str | None:
    for name in _RUN_HEADERS:
        if value := headers.get(name):
            return value.decode("latin-1")
    if body_run:
        return body_run
    if (parent := headers.get(b"traceparent")) and (match := _TRACEPARENT.fullmatch(parent)):
        return match[1].decode()
    return None


def ends_run(headers: RequestHeaders) -> bool:
    return headers.get(wire.RUN_END_HEADER.encode(), b"").lower() == b"true"
