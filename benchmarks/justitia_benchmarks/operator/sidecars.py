"""The sidecars of simulated pods: a real sidecar's control port for each, at the pod's address."""

import asyncio
import base64
import socket
import time
from pathlib import Path

import aiohttp

from justitia_api.config import KeyTable, PoolConfig
from justitia_api.wire import CONTROL_PORT
from justitia_operator.build.documents import CONFIG_FILE, KEYS_FILE
from justitia_operator.runtime.kube import Kube
from justitia_operator.world.names import children_name
from justitia_operator.world.objects import CHILD_SELECTOR, POOL_LABEL, Json, Kind, Ref
from justitia_sidecar.engine.client import EngineClient
from justitia_sidecar.metrics import SidecarMetrics
from justitia_sidecar.ports.control import ControlCredentials, build_control
from justitia_sidecar.ports.serving import Server, server_config
from justitia_sidecar.service import Sidecar
from justitia_vocabulary.units import TenantId

LOOK_SECONDS = 0.5


class SimulatedSidecars:
    """`folder` takes what kubelets would have mounted."""

    def __init__(self, kube: Kube, session: aiohttp.ClientSession, folder: Path) -> None:
        self._kube = kube
        self._session = session
        self._folder = folder
        self._sidecars: dict[str, Sidecar] = {}

    async def follow(self) -> None:
        """Starts one for each pod that has an address, until it is cancelled."""
        async with asyncio.TaskGroup() as serving:
            while True:
                pods, _ = await self._kube.list(Kind.POD, labels=CHILD_SELECTOR)
                for pod in pods:
                    name, address = pod["metadata"]["name"], (pod.get("status") or {}).get("podIP")
                    if address and name not in self._sidecars:
                        serving.create_task(self._serve(pod, address))
                await asyncio.sleep(LOOK_SECONDS)

    def weights(self, tenant: str) -> set[float]:
        """In effect, in all pods that serve the tenant."""
        name = TenantId(tenant)
        found = set()
        for sidecar in self._sidecars.values():
            in_effect = sidecar.parts.current.in_effect
            if in_effect is not None and any(each.name == tenant for each in in_effect.config.tenants):
                found.add(in_effect.admission.books.weight(name))
        return found

    async def _serve(self, pod: Json, address: str) -> None:
        name = pod["metadata"]["name"]
        sidecar = Sidecar(EngineClient("http://127.0.0.1:1", self._session), SidecarMetrics(), time.monotonic, None)
        self._sidecars[name] = sidecar
        credentials = await self._mount(pod, sidecar)
        config = server_config(build_control(sidecar.parts.current, sidecar.report, credentials), credentials.context)
        with socket.create_server((address, CONTROL_PORT)) as listener:
            await Server(config).serve(sockets=[listener])

    async def _mount(self, pod: Json, sidecar: Sidecar) -> ControlCredentials:
        """What a pod begins with."""
        namespace, child = pod["metadata"]["namespace"], children_name(pod["metadata"]["labels"][POOL_LABEL])
        secret = await self._kube.get(Ref(Kind.SECRET, namespace, child))
        config = await self._kube.get(Ref(Kind.CONFIG_MAP, namespace, child))
        if secret is None or config is None:
            raise RuntimeError(f"the pod {pod['metadata']['name']} runs without Secret and ConfigMap")
        folder = self._folder / pod["metadata"]["name"]
        folder.mkdir()
        for name, encoded in secret["data"].items():
            (folder / name).write_bytes(base64.b64decode(encoded))
        sidecar.parts.current.put_keys(KeyTable.model_validate_json((folder / KEYS_FILE).read_bytes()))
        sidecar.parts.current.put_config(PoolConfig.model_validate_json(config["data"][CONFIG_FILE]))
        return ControlCredentials(folder)
