"""What kopf does for the operator: it lists and watches objects, reconnects, and hands each of them over. It writes
nothing. `docs/design/kopf.md` says why it does this much and no more.

kopf runs in a thread, with an event loop of its own: it takes every task of its loop for one of its own, and cancels
them all when it ends.

Objects are taken over by functions that kopf takes for those of an index: it calls them for all that it lists, of every
kind, before it calls any handler. So the first handler shows that all is known, and nothing has to be listed a second
time. There is always something to handle: in every cluster there are namespaces, and there is the installation's root.
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
from justitia_operator.world.objects import CHILD_SELECTOR, MANAGER, OWN_KINDS, WATCHED_KINDS, Json, Kind

LABELLED_KINDS = tuple(kind for kind in WATCHED_KINDS if kind is not Kind.SECRET)
"""Secrets are watched apart, in the one namespace where they may be read, and with any label."""
SEEN_KINDS = (*OWN_KINDS, Kind.NAMESPACE, *LABELLED_KINDS)
WATCH_SECONDS = 300
RETRY_SECONDS = 3.0


async def watch(
    controller: Controller, kinds: Sequence[Kind], namespaces: Sequence[str] | None, known: asyncio.Event
) -> None:
    """Tells the controller of all objects of these kinds, in these namespaces, or everywhere if None. Sets `known` once
    it was told of all that exist. Runs until it is cancelled. Raises what kopf fails with.
    """
    stop, tell = threading.Event(), asyncio.get_running_loop().call_soon_threadsafe
    registry = kopf.OperatorRegistry()
    kopf.on.login(registry=registry)(login)

    def register(kind: Kind) -> None:
        resource = (*kind.api_version.rpartition("/")[::2], kind.plural)

        def typed(body: Any) -> Json:
            return dict(body) | {"apiVersion": kind.api_version, "kind": str(kind)}

        @kopf.index(*resource, registry=registry, id=f"know-{kind.plural}")
        async def know(body: kopf.Body, **_: Any) -> None:
            tell(controller.seen, typed(body))

        @kopf.on.event(*resource, registry=registry, id=f"see-{kind.plural}")
        async def see(event: Any, **_: Any) -> None:
            tell(known.set)
            if event["type"] == "DELETED":
                tell(controller.gone, typed(event["object"]))

    async def operate() -> None:
        try:
            await kopf.operator(
                registry=registry,
                settings=build_settings(),
                # Without one kopf looks for the user's name, and the user of a container need not have one.
                identity=cast("Any", MANAGER),
                standalone=True,
                clusterwide=namespaces is None,
                namespaces=namespaces or [],
                stop_flag=stop,
            )
        finally:
            # A thread of kopf's waits for the flag, and its loop for that thread.
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
    """No posting, no scanning, our own among the child kinds only, and attempts without end: with kopf's own, an API
    server that is away for a minute would end the operator.
    """
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.scanning.disabled = True
    settings.watching.server_timeout = WATCH_SECONDS
    settings.networking.error_backoffs = repeat(RETRY_SECONDS)
    for kind in LABELLED_KINDS:
        settings.watching.label_selectors[kind.plural] = CHILD_SELECTOR
    return settings


async def login(**kwargs: Any) -> kopf.ConnectionInfo | None:
    """How kopf reaches the API server: as `connect` does."""
    if not uses_service_account():
        return kopf.login_with_kubeconfig(**kwargs)
    account = kopf.login_with_service_account(**kwargs)
    # kopf's is a name: what we do must not stop where the cluster's DNS does.
    return account and replace(account, server=service_address())
