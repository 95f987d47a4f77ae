"""Which namespaces the operator serves: all, or those of a list that it may read.

Rights go with their namespace. A namespace that may not be read is left out, as if it were empty. Watches start over
when one can be read, or no longer: then its objects are gone, or new.
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
    """Returns the namespaces to serve, None for the whole cluster. Raises Unavailable, or Rejected if none of the
    wanted ones may be read.
    """
    if not wanted:
        return None
    found = await _readable(kube, wanted)
    for name in wanted:
        if name not in found:
            log.warning("namespace not served: the operator may not read it", namespace=name)
    if not found:
        names = ", ".join(wanted)
        raise Rejected(
            f"the operator may not read any of the namespaces {names}: check that the chart's Role is in them"
        )
    return found


async def until_changed(kube: Kube, wanted: Sequence[str], served: tuple[str, ...] | None, clock: Clock) -> None:
    """Returns once the namespaces that may be read are others than those that are served."""
    found = served
    while found == served:
        await clock.sleep(LOOK_SECONDS)
        with suppress(Unavailable):
            found = served and await _readable(kube, wanted)
    log.info("namespaces have come or gone", served=found)


async def _readable(kube: Kube, wanted: Sequence[str]) -> tuple[str, ...]:
    return tuple([name for name in wanted if await kube.may_list(Kind.SERVING_POOL, name)])
