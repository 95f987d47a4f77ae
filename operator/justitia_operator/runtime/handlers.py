"""What kopf watches. It is an informer here: events only, so that it writes nothing to any object.

Objects are taken over by functions that kopf takes for those of an index: it calls them for all that it lists, of every
kind, before any handler. So the first handler tells that all is known, and nothing has to be listed a second time.
There is always something to handle: in every cluster there are namespaces, and there is the installation's root.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, repeat
from typing import Any

import kopf

from justitia_operator.runtime.controller import CHILD_SELECTOR, Controller
from justitia_operator.runtime.kube import service_address, uses_service_account
from justitia_operator.world.objects import OWN_KINDS, WATCHED_KINDS, Json, Kind

WATCH_SECONDS = 300
SEEN_KINDS = (*OWN_KINDS, Kind.NAMESPACE, *(kind for kind in WATCHED_KINDS if kind is not Kind.SECRET))


class Backoffs:
    """Seconds between two attempts, for ever. With kopf's own, which end, an API server that is away for a minute ends
    the process, whose container then waits ever longer before it starts anew.
    """

    def __iter__(self) -> Iterator[float]:
        return chain((1.0, 1.0, 2.0, 3.0), repeat(5.0))


def build_registry(controller: Controller, kinds: tuple[Kind, ...], known: asyncio.Event) -> kopf.OperatorRegistry:
    """Handlers for the given kinds. `known` is set when the controller has seen all that there is."""
    registry = kopf.OperatorRegistry()
    kopf.on.login(registry=registry, id="login")(_login)
    for kind in kinds:
        _watch(registry, controller, kind, known)
    return registry


def build_settings() -> kopf.OperatorSettings:
    """No posting, no scanning, and only our own among the child kinds."""
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.scanning.disabled = True
    settings.watching.server_timeout = WATCH_SECONDS
    settings.networking.error_backoffs = Backoffs()
    for kind in WATCHED_KINDS:
        if kind is not Kind.SECRET:
            settings.watching.label_selectors[kind.plural] = CHILD_SELECTOR
    return settings


def _watch(registry: kopf.OperatorRegistry, controller: Controller, kind: Kind, known: asyncio.Event) -> None:
    group, _, version = kind.api_version.rpartition("/")

    def typed(body: Any) -> Json:
        return dict(body) | {"apiVersion": kind.api_version, "kind": str(kind)}

    @kopf.index(group, version, kind.plural, registry=registry, id=f"know-{kind.plural}")
    async def know(body: kopf.Body, **_: Any) -> None:
        controller.seen(typed(body))

    @kopf.on.event(group, version, kind.plural, registry=registry, id=f"see-{kind.plural}")
    async def see(event: Any, **_: Any) -> None:
        known.set()
        if event["type"] == "DELETED":
            controller.gone(typed(event["object"]))


def _login(**kwargs: Any) -> kopf.ConnectionInfo | None:
    if not uses_service_account():
        return kopf.login_with_kubeconfig(**kwargs)
    account = kopf.login_with_service_account(**kwargs)
    # kopf's is a name: what we do must not stop where the cluster's DNS does.
    return account and replace(account, server=service_address())
