"""A namespace where the operator has work, and what it made there."""

import base64

from justitia_api.config import KeyTable, PoolConfig
from support.kubectl import Json, Kubectl, eventually

SYSTEM = "justitia-system"
TOKEN = "example-only-token-0123456789abcdef"


class Stage:
    """A namespace with a tenant, its key, a pool and an application, named after the namespace. The operator reads keys
    in the namespace `system`.
    """

    def __init__(self, kubectl: Kubectl, namespace: str, system: str = SYSTEM) -> None:
        self.kubectl, self.namespace, self.tenant, self.system = kubectl, namespace, f"tenant-{namespace}", system

    def key(self, token: str = "") -> Json:
        token = token or f"{TOKEN}-{self.namespace}"
        metadata = {"name": self.tenant, "namespace": self.system}
        return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"token": token}}

    def tenant_object(self, **spec: object) -> Json:
        given = {"namespaces": {"names": [self.namespace]}, "apiKeys": [{"secretRef": {"name": self.tenant}}]} | spec
        return self._object("Tenant", self.tenant, given)

    def pool(self, **spec: object) -> Json:
        return self._object("ServingPool", "shared", {"model": {"uri": "hf://acme/model", "name": "m"}} | spec)

    def application(self, name: str = "chat", **spec: object) -> Json:
        given = {"tenantRef": {"name": self.tenant}} | ({} if "pool" in spec else {"poolRef": {"name": "shared"}})
        return self._object("LLMApplication", name, given | spec)

    def _object(self, kind: str, name: str, spec: Json) -> Json:
        where = {} if kind == "Tenant" else {"namespace": self.namespace}
        return {
            "apiVersion": "justitia.dev/v1alpha1",
            "kind": kind,
            "metadata": {"name": name, **where},
            "spec": spec,
        }

    def set(self, **changes: Json) -> None:
        """Everything applied, with changed specs for tenant, pool, application."""
        self.kubectl.apply(
            self.key(),
            self.tenant_object(**changes.get("tenant", {})),
            self.pool(**changes.get("pool", {})),
            self.application(**changes.get("application", {})),
        )

    def child(self, kind: str, pool: str = "shared") -> Json:
        return self.kubectl.get(kind, f"justitia-{pool}", self.namespace)

    def config(self, pool: str = "shared") -> PoolConfig:
        return PoolConfig.model_validate_json(self.child("configmap", pool)["data"]["pool.json"])

    def keys(self) -> KeyTable:
        return KeyTable.model_validate_json(base64.b64decode(self.child("secret")["data"]["keys.json"]))

    def condition(self, what: str, name: str, type_: str) -> tuple[str, str]:
        return self.kubectl.condition(what, name, "" if what == "tn" else self.namespace, type_)

    def versions(self) -> dict[str, str]:
        return self.kubectl.versions(self.namespace, self.tenant)

    def settle(self) -> None:
        """Waits until the pool's status tells of its configuration with the application."""
        eventually(lambda: self.kubectl.get("spool", "shared", self.namespace)["status"]["applications"] == 1)
        eventually(lambda: self.condition("llmapp", "chat", "Accepted") == ("True", "Accepted"))

    def act_as_kubelet(self) -> None:
        """Reports the pool's pods as ready, which is the missing kubelet's part."""
        for name in self.pods():
            self.report(name, phase="Running", conditions=[{"type": "Ready", "status": "True"}])

    def pods(self) -> list[str]:
        """Names of the pool's pods, once there are some."""
        return eventually(lambda: self.kubectl.names("pods", self.namespace, "justitia.dev/pool=shared"))

    def report(self, pod: str, **status: object) -> None:
        self.kubectl.patch("pod", pod, self.namespace, {"status": status}, "--subresource=status")
