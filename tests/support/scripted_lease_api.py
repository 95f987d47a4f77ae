"""An API server that misbehaves on purpose: it keeps one Lease, takes as long for each request as it is told to, fails
for as long as it is told to, and has other candidates do something at given moments of a manual clock.
"""

from collections.abc import Callable
from copy import deepcopy

from justitia_operator.world.objects import Json, Ref
from support.clocks import ManualClock


class ScriptedLeaseApi:
    """`takes`: seconds for each request. `lose_answers`: what is asked for takes effect, and nobody hears of it."""

    def __init__(self, clock: ManualClock) -> None:
        self.lease: Json | None = None
        self.writes: list[float] = []
        self.looks = 0
        self.takes = 0.0
        self.lose_answers: Exception | None = None
        self._clock = clock
        self._script: list[tuple[float, Callable[[], None]]] = []
        self._fails: Exception | None = None
        self._version = 0

    def at(self, seconds: float, happens: Callable[[], None]) -> None:
        """At the first request from then on."""
        self._script.append((seconds, happens))
        self._script.sort(key=lambda each: each[0])

    def fail(self, error: Exception | None) -> None:
        """Every request from now on."""
        self._fails = error

    def hold(self, identity: str | None, renew_time: str = "") -> None:
        """Another candidate has the Lease; nobody, if None."""
        holder = {} if identity is None else {"holderIdentity": identity}
        self._store({"spec": {**holder, "renewTime": renew_time, "leaseTransitions": 4}})

    def drop(self) -> None:
        self.lease = None

    async def get(self, ref: Ref) -> Json | None:
        self.looks += 1
        return await self._answered(lambda: deepcopy(self.lease))

    async def create(self, obj: Json) -> Json | None:
        return await self._answered(lambda: None if self.lease is not None else self._store(obj))

    async def replace(self, obj: Json) -> Json | None:
        return await self._answered(lambda: self._replace(obj), writes=True)

    def _replace(self, obj: Json) -> Json | None:
        if self.lease is None or self.lease["metadata"]["resourceVersion"] != obj["metadata"]["resourceVersion"]:
            return None
        return self._store(obj)

    async def _answered(self, effect: Callable[[], Json | None], *, writes: bool = False) -> Json | None:
        sent = self._clock.seconds()
        while self._script and self._script[0][0] <= sent:
            self._script.pop(0)[1]()
        if self._fails is not None:
            raise self._fails
        found = effect()
        if writes and found is not None:
            self.writes.append(sent)
        if writes and self.lose_answers is not None:
            error, self.lose_answers = self.lose_answers, None
            raise error
        await self._clock.sleep(self.takes)
        return found

    def _store(self, obj: Json) -> Json:
        self._version += 1
        self.lease = deepcopy(obj) | {"metadata": obj.get("metadata", {}) | {"resourceVersion": str(self._version)}}
        return deepcopy(self.lease)
