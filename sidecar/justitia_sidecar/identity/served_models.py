"""Decides which models a tenant may use: the pool's model, and each adapter that names the tenant or names nobody.
Other models do not exist for the tenant: they are neither served nor listed.
"""

import msgspec

from justitia_api.config import PoolConfig
from justitia_api.wire import Refusal
from justitia_sidecar.refusals import RefusalError, shown
from justitia_vocabulary.units import TenantId

MOST_NAMED = 20


class _Listed(msgspec.Struct):
    data: list[dict[str, object]]
    object: str = "list"


class ServedModels:
    def __init__(self, config: PoolConfig) -> None:
        self._model = config.model
        self._tenants = {
            adapter.name: None if adapter.tenants is None else frozenset(adapter.tenants) for adapter in config.adapters
        }

    def permits(self, tenant: TenantId, model: str) -> bool:
        if model == self._model:
            return True
        tenants = self._tenants.get(model, frozenset())
        return tenants is None or tenant in tenants

    def check(self, tenant: TenantId, model: str) -> None:
        """Raises a refusal with 404 if the tenant may not use a model of this name."""
        if self.permits(tenant, model):
            return
        names = [repr(name) for name in (self._model, *self._tenants) if self.permits(tenant, name)]
        more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
        served = f"model {names[0]}" if len(names) == 1 else f"models {', '.join(names[:MOST_NAMED])}{more}"
        raise RefusalError(
            Refusal.MODEL_NOT_FOUND, f"This pool serves your tenant the {served}, not {shown(model)}.", param="model"
        )

    def listed(self, tenant: TenantId, answer: bytes) -> bytes:
        """The engine's list of models without those that the tenant may not use. Raises msgspec.DecodeError if it is no
        such list.
        """
        found = msgspec.json.decode(answer, type=_Listed)
        found.data = [each for each in found.data if self.permits(tenant, str(each.get("id")))]
        return msgspec.json.encode(found)
