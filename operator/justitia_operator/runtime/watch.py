"""What kopf does for the operator: it watches objects, reconnects, and hands over what exists, changes and goes. It
writes nothing. `docs/design/kopf.md` says why it does this much and no more.

kopf runs in a thread with its own event loop: it treats every task of its loop as one of its own, and cancels them all
when it ends.
"""

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import replace
from itertools import repeat
from typing import Any, cast

import kopf

from justitia_operator.runtime.controller import Controller
from justitia_operator.runtime.kube import service_address, uses_service_account
from justitia_operator.world.objects import MANAGER, SEEN_KINDS, Kind, selector_for

WATCH_SECONDS = 300
RETRY_SECONDS = 3.0


async def watch(controller: Controller, kinds: Sequence[Kind], namespaces: Sequence[str] | None) -> None:
    """Passes all objects of these kinds to the controller, in these namespaces, or everywhere if None. Runs until it is
    cancelled. Raises what kopf fails with.
    """
    stop, tell = threading.Event(), asyncio.get_running_loop().call_soon_threadsafe
    registry = kopf.OperatorRegistry()
    kopf.on.login(registry=registry)(login)

    def register(kind: Kind) -> None:
        group, _, version = kind.api_version.rpartition("/")

        @kopf.on.event(group, version, kind.plural, registry=registry)
        async def see(event: Any, **_: Any) -> None:
            obj = event["object"] | {"apiVersion": kind.api_version, "kind": str(kind)}
            tell(controller.gone if event["type"] == "DELETED" else controller.seen, obj)

    async def operate() -> None:
        try:
            await kopf.operator(
                registry=registry,
                settings=build_settings(),
                # Without it kopf looks up the user's name, and the user of a container need not have one.
                identity=cast("Any", MANAGER),
                standalone=True,
                clusterwide=namespaces is None,
                namespaces=namespaces or [],
                stop_flag=stop,
            )
        finally:
            # A thread of kopf waits for the flag, and its loop waits for that thread.
            stop.set()

    for kind in kinds:
        register(kind)
    operator = asyncio.create_task(asyncio.to_thread(lambda: asyncio.run(operate())))
    try:
        await asyncio.shield(operator)
    finally:
        stop.set()
        await operator


def build_settings() -> kopf.OperatorSettings:
    """Settings: no Events, no scanning, only our own objects among the child kinds, and endless retries. With kopf's
    own retries, an API server that is away for a minute would end the operator.
    """
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.scanning.disabled = True
    settings.watching.server_timeout = WATCH_SECONDS
    settings.networking.error_backoffs = repeat(RETRY_SECONDS)
    for kind in SEEN_KINDS:
        if selector := selector_for(kind):
            settings.watching.label_selectors[kind.plural] = selector
    return settings


async def login(**kwargs: Any) -> kopf.ConnectionInfo | None:
    """Logs in to the API server, in the same way as `connect`."""
    if not uses_service_account():
        return kopf.login_with_kubeconfig(**kwargs)
    account = kopf.login_with_service_account(**kwargs)
    # kopf's address is a name. The operator must not depend on the cluster's DNS.
    return account and replace(account, server=service_address())
