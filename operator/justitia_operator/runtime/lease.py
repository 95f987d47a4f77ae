"""One operator at a time: a Lease that its holder keeps by renewing it, and releases at the end.

Let d be DURATION_SECONDS and h be HOLD_SECONDS < d. A candidate that sent a renewal at time t of its own clock, and got
it confirmed, holds the Lease until t + h. The API server stored the renewal at t or later, and another candidate takes
the Lease no earlier than d after it last saw it change, so not before t + d. A renewal that was stored but not
confirmed only moves that moment further away. So d - h or more pass between the last moment at which the holder may
send something, and the first at which another may lead. What was sent arrives in that time: no request waits longer
than :meth:`Lease.seconds_left`. What arrives even later names a version of its object that the next leader has changed.

A candidate judges by its own clock how long another's Lease has not changed, so clocks need not agree. They have to run
at the same speed, and to go on while a machine sleeps.
"""

import structlog

from justitia_operator.runtime.clock import Clock
from justitia_operator.runtime.kube import Kube, Rejected, Unavailable
from justitia_operator.world.objects import Json, Kind, Ref

DURATION_SECONDS = 15
HOLD_SECONDS = 10.0
RETRY_SECONDS = 2.0
_GONE = ""
"""The version of a Lease that does not exist."""

log = structlog.get_logger()


class LeaseLost(Exception):
    """The Lease was not renewed in time, or has another holder: another operator may lead, so this one has to end."""


class Lease:
    """A candidate's view of the Lease. `identity` tells candidates apart."""

    def __init__(self, kube: Kube, namespace: str, name: str, identity: str, clock: Clock) -> None:
        self._kube = kube
        self._ref = Ref(Kind.LEASE, namespace, name)
        self._identity = identity
        self._clock = clock
        self._version: str | None = None
        """The version last seen. None before the first look."""
        self._changed_at = clock.seconds()
        self._renewed: Json | None = None
        """The Lease as the API server stored it, while we hold it."""
        self._held_until = clock.seconds()

    def seconds_left(self) -> float:
        """For how long certainly nobody else leads. If it is not above 0, somebody may."""
        return self._held_until - self._clock.seconds()

    async def acquire(self) -> None:
        """Returns once we hold the Lease."""
        while True:
            if await self._try():
                return
            await self._clock.sleep(RETRY_SECONDS)

    async def keep(self) -> None:
        """Renews for ever. Raises LeaseLost."""
        while True:
            await self._clock.sleep(RETRY_SECONDS)
            held = await self._try()
            if self._renewed is None:
                raise LeaseLost(f"{self._ref} has another holder: ending, so that only one operator writes")
            if not held and self.seconds_left() <= 0:
                raise LeaseLost(
                    f"{self._ref} was not renewed for {HOLD_SECONDS:.0f} s: ending, because another may lead"
                )

    async def release(self) -> None:
        """Releases the Lease, so that the next one leads at once, if we hold it and the API server answers. Nothing may
        be written any more.
        """
        self._held_until = self._clock.seconds()
        if self._renewed is None:
            return
        try:
            found = await self._kube.get(self._ref)
            if found is not None and found["spec"].get("holderIdentity") == self._identity:
                free = {key: value for key, value in found["spec"].items() if key != "holderIdentity"}
                await self._kube.replace(found | {"spec": free})
        except (Unavailable, Rejected) as error:
            log.warning("lease not released, it will expire", error=str(error))

    async def _try(self) -> bool:
        """Whether the API server confirmed that we hold the Lease. Once another has taken it from us, we do not take it
        back.
        """
        try:
            async with self._clock.timeout(HOLD_SECONDS / 2):
                return await (self._take() if self._renewed is None else self._renew(self._renewed))
        except (Unavailable, TimeoutError):
            return False

    async def _renew(self, renewed: Json) -> bool:
        """Renews without reading first, because nobody else writes a Lease that we hold. If that fails, it looks
        whether an earlier renewal was stored but not confirmed.
        """
        if await self._hold(renewed):
            return True
        found = await self._kube.get(self._ref)
        if found is None or found["spec"].get("holderIdentity") != self._identity:
            self._renewed = None
            return False
        return await self._hold(found)

    async def _take(self) -> bool:
        found = await self._kube.get(self._ref)
        version = _GONE if found is None else found["metadata"]["resourceVersion"]
        first = self._version is None
        if version != self._version:
            self._version, self._changed_at = version, self._clock.seconds()
        unchanged = self._clock.seconds() - self._changed_at
        if found is None:
            # If somebody deleted it, its holder may not know yet.
            return (first or unchanged >= DURATION_SECONDS) and await self._create()
        holder = found["spec"].get("holderIdentity")
        if holder not in (None, self._identity) and unchanged < DURATION_SECONDS:
            return False
        return await self._hold(found)

    async def _create(self) -> bool:
        metadata = {"name": self._ref.name, "namespace": self._ref.namespace}
        lease = {"apiVersion": Kind.LEASE.api_version, "kind": str(Kind.LEASE), "metadata": metadata}
        sent = self._clock.seconds()
        return self._confirmed(sent, await self._kube.create(lease | {"spec": self._spec({})}))

    async def _hold(self, found: Json) -> bool:
        """Writes us as the holder, unless the Lease has changed meanwhile."""
        sent = self._clock.seconds()
        return self._confirmed(sent, await self._kube.replace(found | {"spec": self._spec(found["spec"])}))

    def _confirmed(self, sent: float, stored: Json | None) -> bool:
        if stored is None:
            return False
        self._renewed, self._held_until = stored, sent + HOLD_SECONDS
        return True

    def _spec(self, before: Json) -> Json:
        now = self._clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {"holderIdentity": self._identity, "leaseDurationSeconds": DURATION_SECONDS, "renewTime": now}
        if before.get("holderIdentity") == self._identity:
            return before | spec
        return before | spec | {"acquireTime": now, "leaseTransitions": before.get("leaseTransitions", 0) + 1}
