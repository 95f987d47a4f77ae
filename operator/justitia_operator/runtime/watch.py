"""What kopf does for the operator: it lists and watches objects, reconnects, and hands each object over. It writes
nothing. `docs/design/kopf.md` says why it does this much and no more.

kopf runs in a thread with its own event loop: it treats every task of its loop as one of its own, and cancels them all
when it ends.

Objects reach the store through functions that kopf calls as those of an index: for all listed objects, of every kind,
before it calls any handler. So the first handler shows that everything is known, and nothing has to be listed twice.
There is always something to handle: every cluster has namespaces, and there is the installation's root.
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
"""Secrets are watched separately: with any label, in the one namespace where they may be read."""
SEEN_KINDS = (*OWN_KINDS, Kind.NAMESPACE, *LABELLED_KINDS)
WATCH_SECONDS = 300
RETRY_SECONDS = 3.0


async def watch(
    controller: Controller, kinds: Sequence[Kind], namespaces: Sequence[str] | None, known: asyncio.Event
) -> None:
    """Passes all objects of these kinds to the controller, in these namespaces, or everywhere if None. Sets `known`
    once it has passed all that exist. Runs until it is cancelled. Raises what kopf fails with.
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
    for kind in LABELLED_KINDS:
        settings.watching.label_selectors[kind.plural] = CHILD_SELECTOR
    return settings


async def login(**kwargs: Any) -> kopf.ConnectionInfo | None:
    """Logs in to the API server, in the same way as `connect`."""
    if not uses_service_account():
        return kopf.login_with_kubeconfig(**kwargs)
    account = kopf.login_with_service_account(**kwargs)
    # kopf's address is a name. The operator must not depend on the cluster's DNS.
    return account and replace(account, server=service_address())
