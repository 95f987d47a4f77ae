"""Which namespaces are served: all of the cluster, or those of a list that the operator may read.

Rights go with their namespace. One that may not be read is left out, as if there were nothing in it: kopf would wait
for it with all others, and never know them. So who watches begins anew when one may be read, or no longer.
"""

from collections.abc import Sequence
from contextlib import suppress

import structlog

from justitia_operator.runtime.clock import Clock
from justitia_operator.runtime.kube import Kube, Rejected, Unavailable
from justitia_operator.world.objects import Kind

LOOK_SECONDS = 10.0

log = structlog.get_logger()


async def find_namespaces(kube: Kube, wanted: Sequence[str]) -> tuple[str, ...] | None:
    """The namespaces to serve, None for the whole cluster. Raises Rejected where none of those that are wanted may be
    read, and Unavailable.
    """
    if not wanted:
        return None
    found = await _readable(kube, wanted)
    for name in wanted:
        if name not in found:
            log.warning("namespace not served: there is no right to read it", namespace=name)
    if not found:
        names = ", ".join(wanted)
        raise Rejected(f"there is no right to read any of the namespaces {names}: is the chart's Role in them?")
    return found


async def until_changed(kube: Kube, wanted: Sequence[str], served: tuple[str, ...] | None, clock: Clock) -> None:
    """Returns once other namespaces may be read than those that are served."""
    found = served
    while found == served:
        await clock.sleep(LOOK_SECONDS)
        with suppress(Unavailable):
            found = served and await _readable(kube, wanted)
    log.info("namespaces have come or gone", served=found)


async def _readable(kube: Kube, wanted: Sequence[str]) -> tuple[str, ...]:
    return tuple([name for name in wanted if await kube.may_list(Kind.SERVING_POOL, name)])
