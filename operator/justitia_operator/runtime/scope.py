"""Which namespaces are served: all of the cluster, or those that the operator is told of and may read.

A right that is missing in one namespace ends all watches of kopf, and rights go with their namespace. So a namespace
that may not be read is left out when the process starts, as if there were nothing in it, and the process ends when that
has changed for one of them: the next serves the others.
"""

import asyncio
from collections.abc import Sequence
from typing import NoReturn

import structlog

from justitia_operator.runtime.kube import Kube, Rejected, Unavailable
from justitia_operator.world.objects import Kind

LOOK_SECONDS = 10.0

log = structlog.get_logger()


class ScopeChanged(Exception):
    """What may be read is not what is watched: the process has to start anew."""


class Scope:
    """Of one process. `namespaces` is None for the whole cluster."""

    def __init__(self, kube: Kube, wanted: Sequence[str]) -> None:
        self._kube = kube
        self._wanted = wanted
        self.namespaces: tuple[str, ...] | None = None

    async def find(self) -> None:
        """Sets the namespaces. Raises Rejected where none of those that are wanted may be read, and Unavailable."""
        if not self._wanted:
            return
        self.namespaces = await self._readable()
        for name in self._wanted:
            if name not in self.namespaces:
                log.warning("namespace not served: there is no right to read it", namespace=name)
        if not self.namespaces:
            names = ", ".join(self._wanted)
            raise Rejected(f"there is no right to read any of the namespaces {names}: is the chart's Role in them?")

    async def keep(self) -> NoReturn:
        """Looks for ever. Raises ScopeChanged."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                found = self.namespaces if self.namespaces is None else await self._readable()
            except Unavailable:
                continue
            if found != self.namespaces:
                raise ScopeChanged("a namespace that is to be served has come or gone: starting anew")

    async def _readable(self) -> tuple[str, ...]:
        return tuple([name for name in self._wanted if await self._kube.may_list(Kind.SERVING_POOL, name)])
