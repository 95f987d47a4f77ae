"""Sidecars that share the limits of one tenant over a log in memory, which a test writes and reads as it likes."""

from collections import deque
from collections.abc import Sequence

from justitia_api.config import PoolConfig, TenantConfig, TenantLimits, ValkeyConfig
from justitia_channel.messages import PlugInSnapshot
from justitia_sidecar.pool.limits import PoolLimits
from justitia_sidecar.pool.sharing import Sharing
from justitia_sidecar.pool.slots import Demand
from justitia_valkey.log import KEPT
from justitia_vocabulary.units import Seconds, TenantId
from support.listening_channel import Listening

GOLD = TenantId("gold")


def config_with(limits: TenantLimits) -> PoolConfig:
    return PoolConfig(
        generation=1,
        namespace="ns",
        name="p",
        model="m",
        tenants=(TenantConfig(name=GOLD, weight=1, limits=limits),),
        valkey=ValkeyConfig(pool="ns/p", addresses=("valkey:6379",)),
    )


class LimitedSidecar:
    """A sidecar whose tenant's requests begin as soon as its limit lets them. Each is so many sequences."""

    def __init__(self, pool: "LimitedPool", limit: int) -> None:
        self.pool = pool
        self.limits = PoolLimits(lambda: pool.now)
        self.sharing = Sharing(Listening(), limits=self.limits)
        self.sharing._channel.state = PlugInSnapshot(unit="s")
        self.running: list[int] = []
        self.waiting: deque[int] = deque()
        self.begun = 0
        self.met = False
        self.alive = True
        self.wrote = False
        self.read_to = pool.kept
        self.succeeded: Seconds = pool.now
        self.limits.demand = lambda tenant: Demand(
            self.used, self.used + sum(self.waiting), self.waiting[0] if self.waiting else 1
        )
        self.limits.on_slots = lambda tenant: self.begin()
        self.limit_is(limit)

    @property
    def used(self) -> int:
        return sum(self.running)

    def limit_is(self, limit: int) -> None:
        self.limit = limit
        self.limits.configure(config_with(TenantLimits(running_requests=limit)), shares=True)
        self.begin()

    def asks(self, *requests: int) -> None:
        self.waiting += requests
        self.begin()

    def begin(self) -> None:
        while self.alive and self.waiting and self.limits.fits(GOLD, self.limit, self.used, self.waiting[0]):
            self.running.append(self.waiting.popleft())
            self.begun += 1
        self.limits.touch(GOLD)

    def finishes(self, number: int = 1) -> None:
        del self.running[:number]
        self.begin()

    def dies(self) -> None:
        self.alive = False
        self.running.clear()
        self.waiting.clear()

    def write(self) -> None:
        self.pool.log.append((self.pool.now, self.sharing.update(self.pool.now)))
        self.wrote = True

    def fails(self) -> None:
        self.sharing.failed("no answer", self.pool.now)
        self.wrote = False

    def hear(self, most: int | None = None) -> None:
        for _, each in self.pool.log[self.read_to :][:most]:
            self.sharing.heard(each, self.pool.now)
            self.read_to += 1

    def read(self) -> None:
        """Read all. If the own update was written, the exchange is complete."""
        self.hear()
        if self.wrote:
            self.sharing.exchanged(self.pool.now)
            self.succeeded, self.wrote, self.met = self.pool.now, False, True

    def exchange(self) -> None:
        """As the real one: once more, if that presses."""
        for _ in range(2):
            self.write()
            self.read()
            if not self.limits.presses():
                return


class LimitedPool:
    def __init__(self, sidecars: int, limit: int) -> None:
        self.now: Seconds = 0.0
        self.log: list[tuple[Seconds, bytes]] = []
        self.sidecars: list[LimitedSidecar] = []
        for _ in range(sidecars):
            self.joins(limit)

    def joins(self, limit: int) -> LimitedSidecar:
        self.sidecars.append(LimitedSidecar(self, limit))
        return self.sidecars[-1]

    @property
    def used(self) -> int:
        return sum(each.used for each in self.sidecars)

    @property
    def kept(self) -> int:
        """Where the part of the log begins that the server still has."""
        return next((place for place, (at, _) in enumerate(self.log) if at >= self.now - KEPT), len(self.log))

    def passes(self, seconds: Seconds, *, every: Seconds = 0.5, without: Sequence[LimitedSidecar] = ()) -> None:
        """All exchange so often, one after the other."""
        live = [each for each in self.sidecars if each.alive and each not in without]
        for _ in range(round(seconds / every)):
            for each in live:
                self.now += every / len(live)
                each.exchange()
