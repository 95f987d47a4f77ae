"""One operator at a time: a Lease that is held by renewing it, and released at the end.

Whether another's Lease has run out is judged by how long it has not changed on our own clock, so that clocks need not
agree. Who could not renew for RENEW_SECONDS has to stop before DURATION_SECONDS are over, when another may take it.
"""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime

import structlog

from justitia_operator.kube import Kube, Rejected, Unavailable
from justitia_operator.objects import Json, Kind, Ref

DURATION_SECONDS = 15
RENEW_SECONDS = 10.0
RETRY_SECONDS = 2.0

log = structlog.get_logger()


class LeaseLost(Exception):
    """The Lease could not be renewed in time: another may lead, so this process has to end."""


class Lease:
    """A candidate's view of the Lease. `clock` is monotonic, in seconds; `identity` tells candidates apart."""

    def __init__(self, kube: Kube, namespace: str, name: str, identity: str, clock: Callable[[], float]) -> None:
        self._kube = kube
        self._ref = Ref(Kind.LEASE, namespace, name)
        self._identity = identity
        self._clock = clock
        self._version = ""
        self._changed_at = clock()
        self._renewed: Json | None = None
        """As the API server stored it, while the Lease is ours."""

    async def acquire(self) -> None:
        """Returns once the Lease is ours."""
        while True:
            if await self._try():
                return
            await asyncio.sleep(RETRY_SECONDS)

    async def keep(self) -> None:
        """Renews for ever. Raises LeaseLost."""
        renewed = self._clock()
        while True:
            await asyncio.sleep(RETRY_SECONDS)
            if await self._try():
                renewed = self._clock()
            elif self._clock() - renewed > RENEW_SECONDS:
                self._renewed = None
                raise LeaseLost(f"{self._ref} was not renewed for {RENEW_SECONDS:.0f} s")

    async def release(self) -> None:
        """Lets the next one in at once, if the Lease is ours and the API server answers."""
        if self._renewed is None:
            return
        try:
            found = await self._kube.get(self._ref)
            if found is not None and found["spec"].get("holderIdentity") == self._identity:
                free = {key: value for key, value in found["spec"].items() if key != "holderIdentity"}
                await self._kube.replace(found | {"spec": free})
        except (Unavailable, Rejected) as error:
            log.warning("lease not released, it will run out", error=str(error))

    async def _try(self) -> bool:
        try:
            async with asyncio.timeout(RENEW_SECONDS / 2):
                self._renewed = await self._renew() or await self._take()
        except (Unavailable, TimeoutError):
            return False
        return self._renewed is not None

    async def _renew(self) -> Json | None:
        """Without a look first: nobody else writes what is ours."""
        return self._renewed and await self._hold(self._renewed)

    async def _take(self) -> Json | None:
        found = await self._kube.get(self._ref)
        if found is None:
            metadata = {"name": self._ref.name, "namespace": self._ref.namespace}
            lease = {"apiVersion": Kind.LEASE.api_version, "kind": str(Kind.LEASE), "metadata": metadata}
            return await self._kube.create(lease | {"spec": self._spec({})})
        version = found["metadata"]["resourceVersion"]
        if version != self._version:
            self._version, self._changed_at = version, self._clock()
        holder = found["spec"].get("holderIdentity")
        if holder not in (None, self._identity) and self._clock() - self._changed_at < DURATION_SECONDS:
            return None
        return await self._hold(found)

    async def _hold(self, found: Json) -> Json | None:
        """None if it has changed meanwhile."""
        return await self._kube.replace(found | {"spec": self._spec(found["spec"])})

    def _spec(self, before: Json) -> Json:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {"holderIdentity": self._identity, "leaseDurationSeconds": DURATION_SECONDS, "renewTime": now}
        if before.get("holderIdentity") == self._identity:
            return before | spec
        return before | spec | {"acquireTime": now, "leaseTransitions": before.get("leaseTransitions", 0) + 1}
