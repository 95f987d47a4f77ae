"""The process: it connects, watches, and works while it leads, until a signal ends it."""

import asyncio
import logging
import os
import secrets
import signal
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, TypeVar

import aiohttp
import structlog

from justitia_operator.build.shared_valkey import users_prefix
from justitia_operator.runtime.cache import ObjectCache
from justitia_operator.runtime.clock import SystemClock
from justitia_operator.runtime.control import Control
from justitia_operator.runtime.controller import Controller
from justitia_operator.runtime.health import build_health, serving
from justitia_operator.runtime.kube import Kube, Rejected, Unavailable, connect
from justitia_operator.runtime.lease import Lease
from justitia_operator.runtime.metrics import Fault, Metrics
from justitia_operator.runtime.queue import KeyedQueue
from justitia_operator.runtime.root import ensure_root
from justitia_operator.runtime.scope import find_namespaces, until_changed
from justitia_operator.runtime.settings import Settings
from justitia_operator.runtime.valkey import LOOK_SECONDS, UserKeeper, find_login
from justitia_operator.runtime.watch import watch
from justitia_operator.world.installation import Installation, InstalledValkey
from justitia_operator.world.objects import SEEN_KINDS, Kind, Ref
from justitia_valkey.connection import Login
from justitia_valkey.users import PoolUsers

LEASE = "justitia-operator"
ASK_SECONDS = 20.0
"""Seconds between two rounds in which all pods are asked for their status."""
ASK_AGAIN_SECONDS = 0.25
"""Seconds between two looks for pods that should be asked sooner."""
KEEP_SECONDS = 3 * ASK_SECONDS
"""How long an idle connection to a pod is kept. Sidecars keep theirs longer."""
START_RETRY_SECONDS = 2.0
SETTLE_SECONDS = 10.0

CLOCK = SystemClock()

T = TypeVar("T")

log = structlog.get_logger()


@dataclass(frozen=True)
class Milestones:
    """Milestones: the cluster is known, this operator leads."""

    known: asyncio.Event = field(default_factory=asyncio.Event)
    leading: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(frozen=True)
class Process:
    """What all parts of the process share. `users` are those of the installation's Valkey, if it has one."""

    settings: Settings
    metrics: Metrics
    milestones: Milestones
    users: PoolUsers | None


async def run(settings: Settings) -> None:
    """Runs until it is cancelled, as by SIGTERM or SIGINT. Raises Unavailable, Rejected or LeaseLost if it cannot go
    on.
    """
    _be_cancelled_by_signals()
    metrics, milestones = Metrics(), Milestones()
    async with _health(settings, metrics, milestones), connect() as kube, _session_with_pods() as session:
        root = await _once_available(lambda: ensure_root(kube, settings.namespace))
        server, login = settings.valkey, Login()
        if server is not None:
            login = await _once_available(lambda: find_login(kube, settings))
        valkey = None if server is None else InstalledValkey(server, login.authority)
        users = None if server is None else PoolUsers(server, login, users_prefix(root))
        installation, process = _installation(settings, root, valkey), Process(settings, metrics, milestones, users)
        identity = f"{os.uname().nodename}-{secrets.token_hex(4)}"
        lease = Lease(kube, settings.namespace, LEASE, identity, CLOCK)

        def controller_of(namespaces: Sequence[str] | None) -> Controller:
            """A controller that knows nothing yet."""
            return Controller(
                kube.fenced(lease.seconds_left),
                Control(session, root, CLOCK.now),
                ObjectCache(installation),
                KeyedQueue(asyncio.get_running_loop().call_later, lane_of),
                clock=CLOCK.now,
                key_namespace=settings.namespace,
                metrics=metrics,
                namespaces=namespaces,
            )

        try:
            await _all_until_one_ends([_lead(lease, metrics, milestones), _serve(kube, process, controller_of)])
        finally:
            await lease.release()
            log.info("stopped")


def _be_cancelled_by_signals() -> None:
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)


async def _lead(lease: Lease, metrics: Metrics, milestones: Milestones) -> None:
    """Acquires the Lease, and renews it from then on, however long the first listing takes."""
    await lease.acquire()
    metrics.leading.set(1)
    milestones.leading.set()
    log.info("leading")
    await lease.keep()


async def _serve(kube: Kube, process: Process, controller_of: Callable[[Sequence[str] | None], Controller]) -> None:
    """Serves the namespaces that may be read, and starts over when these change."""
    settings = process.settings
    while True:
        namespaces = await _once_available(lambda: find_namespaces(kube, settings.watch_namespaces))
        controller = controller_of(namespaces)
        process.milestones.known.clear()
        await _all_until_one_ends(
            [
                watch(controller, SEEN_KINDS, namespaces),
                watch(controller, (Kind.SECRET,), [settings.namespace]),
                _work(controller, process),
                _settle(controller, process.metrics),
                until_changed(kube, settings.watch_namespaces, namespaces, CLOCK),
            ]
        )


async def _work(controller: Controller, process: Process) -> None:
    """Works once everything is known and this operator leads. A standby watches too, so that it knows the cluster when
    it takes over.
    """
    settings, metrics, milestones, users = process.settings, process.metrics, process.milestones, process.users
    await _once_available(controller.relist)
    milestones.known.set()
    log.info("watching")
    await milestones.leading.wait()
    await controller.begin()
    keepers = [] if users is None else [UserKeeper(users, controller.valkey_users, metrics)]
    await _all_until_one_ends(
        [
            *(_every(LOOK_SECONDS, keeper.look) for keeper in keepers),
            _every(settings.resync_seconds, lambda: _attempt(controller.resync, metrics)),
            _every(ASK_SECONDS, controller.ask_pods),
            _every(ASK_AGAIN_SECONDS, controller.ask_again),
            *(controller.work() for _ in range(settings.workers)),
        ]
    )


def lane_of(ref: Ref) -> tuple[Kind, str]:
    """The lane of a resource in the queue: pools do not wait for applications, nor one namespace for another."""
    return ref.kind, ref.namespace


def _installation(settings: Settings, root: str, valkey: InstalledValkey | None) -> Installation:
    return Installation(
        settings.namespace,
        settings.sidecar_image,
        root,
        settings.node_cache_path,
        settings.metrics_namespace,
        settings.sidecar_rollout,
        settings.inline,
        valkey,
    )


def _health(settings: Settings, metrics: Metrics, milestones: Milestones) -> AbstractAsyncContextManager[None]:
    """Serves health checks from the start: an operator that waits for the API server is alive."""
    if settings.http_port is None:
        return nullcontext()
    return serving(build_health(milestones.known.is_set, metrics.registry), settings.http_port)


def _session_with_pods() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(keepalive_timeout=KEEP_SECONDS))


async def _once_available(step: Callable[[], Awaitable[T]]) -> T:
    """Retries while the API server does not answer. A process that ended instead would be restarted ever later."""
    while True:
        try:
            return await step()
        except Unavailable as error:
            log.warning("waiting for the API server", error=str(error), retry_seconds=START_RETRY_SECONDS)
        await CLOCK.sleep(START_RETRY_SECONDS)


async def _all_until_one_ends(coroutines: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Runs until one of them ends, and cancels the others. Raises the error that it ended with."""
    tasks = [asyncio.create_task(coroutine) for coroutine in coroutines]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _every(seconds: float, step: Callable[[], Awaitable[None]]) -> None:
    while True:
        await CLOCK.sleep(seconds)
        await step()


async def _settle(controller: Controller, metrics: Metrics) -> None:
    """Lists once more when kopf certainly watches: it does not report what was deleted between two lists."""
    await CLOCK.sleep(SETTLE_SECONDS)
    await _attempt(controller.relist, metrics)
    await asyncio.Event().wait()


async def _attempt(listing: Callable[[], Awaitable[None]], metrics: Metrics) -> None:
    try:
        await listing()
    except (Unavailable, Rejected) as error:
        log.warning("not resynchronised", error=str(error))
    except Exception:
        # The operator still decides by what it watches.
        metrics.faults.labels("List", Fault.FAILED).inc()
        log.exception("not resynchronised")


def configure_logging(level: str) -> None:
    """Logs one JSON object a line, from our modules and from the libraries."""
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler()
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(),
            ],
        )
    )
    logging.basicConfig(level=level, handlers=[handler], force=True)
    logging.getLogger("kopf").setLevel(logging.WARNING)
    # It warns that it does not handle signals. We do.
    logging.getLogger("kopf._core.reactor.running").setLevel(logging.ERROR)
