"""The process: connects, watches, and works while it leads, until it is told to stop."""

import asyncio
import logging
import os
import secrets
import signal
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from datetime import UTC, datetime
from typing import Any, TypeVar, cast

import aiohttp
import kopf
import structlog

from justitia_operator.runtime.control import Control
from justitia_operator.runtime.controller import Controller
from justitia_operator.runtime.handlers import SEEN_KINDS, build_registry, build_settings
from justitia_operator.runtime.health import build_health, serving
from justitia_operator.runtime.kube import Rejected, Unavailable, connect
from justitia_operator.runtime.lease import Lease
from justitia_operator.runtime.metrics import Fault, Metrics
from justitia_operator.runtime.queue import KeyedQueue
from justitia_operator.runtime.root import ensure_root
from justitia_operator.runtime.scope import Scope
from justitia_operator.runtime.settings import Settings
from justitia_operator.runtime.store import Store
from justitia_operator.world.installation import Installation
from justitia_operator.world.objects import Kind, Ref

LEASE = "justitia-operator"
ASK_SECONDS = 20.0
"""Between two times that pods are asked what is in force there."""
ASK_AGAIN_SECONDS = 0.25
"""Between two looks for pods that are to be asked sooner."""
KEEP_SECONDS = 3 * ASK_SECONDS
"""A connection to a pod that nobody asks any more; sidecars keep theirs for longer."""
START_RETRY_SECONDS = 2.0

T = TypeVar("T")

log = structlog.get_logger()


async def run(settings: Settings) -> None:
    """Runs until SIGTERM or SIGINT. Raises Unavailable, Rejected, LeaseLost or ScopeChanged where it cannot go on, and
    Stopped.
    """
    metrics, watching = Metrics(), Watching()
    async with _health(settings, metrics, watching), connect() as kube, _session_with_pods() as session:
        watching.listen_to_signals()
        root = await _once_available(lambda: ensure_root(kube, settings.namespace), watching.stop)
        scope = Scope(kube, settings.watch_namespaces)
        await _once_available(scope.find, watching.stop)
        store = Store(
            Installation(
                settings.namespace,
                settings.sidecar_image,
                root,
                settings.node_cache_path,
                settings.metrics_namespace,
                settings.sidecar_rollout,
                settings.inline,
            )
        )
        identity = f"{os.uname().nodename}-{secrets.token_hex(4)}"
        lease = Lease(kube, settings.namespace, LEASE, identity, _seconds)
        queue: KeyedQueue[Ref] = KeyedQueue(asyncio.get_running_loop().call_later, lane_of)
        control = Control(session, root, _now)
        controller = Controller(
            kube.fenced(lease.seconds_left),
            control,
            store,
            queue,
            clock=_now,
            key_namespace=settings.namespace,
            metrics=metrics,
            namespaces=scope.namespaces,
        )
        try:
            await _watch_and_work(controller, lease, settings, metrics, scope, watching)
        finally:
            await lease.release()
            log.info("stopped")


def lane_of(ref: Ref) -> tuple[Kind, str]:
    """Who waits for whom: neither a pool for its applications, nor a namespace for another one's."""
    return ref.kind, ref.namespace


def _session_with_pods() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(keepalive_timeout=KEEP_SECONDS))


def _now() -> datetime:
    return datetime.now(UTC)


def _seconds() -> float:
    """Goes on while the machine sleeps, as the loop's does not."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Stopped(Exception):
    """It was told to stop while it waited for the API server."""


class Watching:
    """Whether the informers of resources and of keys have seen everything, and whether they are to stop."""

    def __init__(self) -> None:
        self.stop, self.resources, self.keys = asyncio.Event(), asyncio.Event(), asyncio.Event()

    def complete(self) -> bool:
        return self.resources.is_set() and self.keys.is_set()

    async def until_complete(self) -> None:
        await self.resources.wait()
        await self.keys.wait()

    def listen_to_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop.set)

    async def until_stopped(self) -> None:
        """kopf takes the signals for one informer: they are for all."""
        await self.until_complete()
        self.listen_to_signals()
        log.info("watching")
        await self.stop.wait()


def _health(settings: Settings, metrics: Metrics, watching: Watching) -> AbstractAsyncContextManager[None]:
    """Answers from the start: who waits for the API server lives."""
    if settings.http_port is None:
        return nullcontext()
    return serving(build_health(watching.complete, metrics.registry), settings.http_port)


async def _once_available(step: Callable[[], Awaitable[T]], stop: asyncio.Event) -> T:
    """Tries again as long as the API server does not answer: a container that ends is started anew ever later."""
    while not stop.is_set():
        try:
            return await step()
        except Unavailable as error:
            log.warning("waiting for the API server", error=str(error), retry_seconds=START_RETRY_SECONDS)
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), START_RETRY_SECONDS)
    raise Stopped


async def _watch_and_work(  # noqa: PLR0917
    controller: Controller, lease: Lease, settings: Settings, metrics: Metrics, scope: Scope, watching: Watching
) -> None:
    """Watches at once, so that a standby knows the cluster when it comes to lead, and works once it leads."""
    resources = build_informer(controller, SEEN_KINDS, watching.stop, watching.resources, scope.namespaces)
    keys = build_informer(controller, (Kind.SECRET,), watching.stop, watching.keys, [settings.namespace])
    watchers = [asyncio.create_task(informer) for informer in (resources, keys)]
    leading = _lead(controller, lease, settings, metrics, watching)
    others = [asyncio.create_task(task) for task in (leading, scope.keep(), watching.until_stopped())]
    try:
        done, _ = await asyncio.wait([*watchers, *others], return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        watching.stop.set()
        for task in others:
            task.cancel()
        await asyncio.gather(*watchers, *others, return_exceptions=True)


async def _lead(controller: Controller, lease: Lease, settings: Settings, metrics: Metrics, watching: Watching) -> None:
    """Works as long as the Lease is kept, from the first look on."""
    await lease.acquire()
    metrics.leading.set(1)
    log.info("leading")
    await _all_until_one_ends([lease.keep(), _work(controller, settings, metrics, watching)])


async def _work(controller: Controller, settings: Settings, metrics: Metrics, watching: Watching) -> None:
    await watching.until_complete()
    await controller.begin()
    workers = [controller.work() for _ in range(settings.workers)]
    resync = _resync(controller, metrics, settings.resync_seconds)
    await _all_until_one_ends([resync, _ask_pods(controller), _ask_again(controller), *workers])


async def _all_until_one_ends(endless: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Raises what it ended with."""
    tasks = [asyncio.create_task(coroutine) for coroutine in endless]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def build_informer(
    controller: Controller,
    kinds: tuple[Kind, ...],
    stop: asyncio.Event,
    known: asyncio.Event,
    namespaces: Sequence[str] | None,
) -> Coroutine[Any, Any, None]:
    """Tells the controller of objects of these kinds until `stop` is set: of those that are in no namespace, and of the
    others in these namespaces, in all without them. `known` is set when it has been told of all that there are.
    """
    return kopf.operator(
        registry=build_registry(controller, kinds, known),
        settings=build_settings(),
        # Without one kopf looks for the user's name, and the user of a container need not have one.
        identity=cast("Any", LEASE),
        standalone=True,
        clusterwide=namespaces is None,
        namespaces=namespaces or [],
        stop_flag=stop,
    )


async def _resync(controller: Controller, metrics: Metrics, seconds: float) -> None:
    while True:
        await asyncio.sleep(seconds)
        try:
            await controller.resync()
        except (Unavailable, Rejected) as error:
            log.warning("not resynchronised", error=str(error))
        except Exception:
            # What was watched is known, and decided about, all the same.
            metrics.faults.labels("List", Fault.FAILED).inc()
            log.exception("not resynchronised")


async def _ask_pods(controller: Controller) -> None:
    while True:
        await asyncio.sleep(ASK_SECONDS)
        await controller.ask_pods()


async def _ask_again(controller: Controller) -> None:
    while True:
        await asyncio.sleep(ASK_AGAIN_SECONDS)
        await controller.ask_again()


def configure_logging(level: str) -> None:
    """One JSON object a line, from our modules and from the libraries."""
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
