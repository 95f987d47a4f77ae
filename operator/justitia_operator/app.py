"""The process: connects, watches, and works while it leads, until it is told to stop."""

import asyncio
import logging
import os
import secrets
import signal
from collections.abc import Coroutine, Sequence
from datetime import UTC, datetime
from typing import Any, cast

import aiohttp
import kopf
import structlog
from aiohttp import web

from justitia_operator.control import Control
from justitia_operator.controller import Controller
from justitia_operator.handlers import SEEN_KINDS, build_registry, build_settings
from justitia_operator.health import build_health, serving
from justitia_operator.installation import ensure_pepper
from justitia_operator.kube import Unavailable, connect
from justitia_operator.lease import Lease
from justitia_operator.metrics import Metrics
from justitia_operator.objects import Kind, Ref
from justitia_operator.queue import KeyedQueue
from justitia_operator.scope import Scope
from justitia_operator.settings import Settings
from justitia_operator.snapshot import Installation
from justitia_operator.store import Store

LEASE = "justitia-operator"
ASK_SECONDS = 20.0
"""Between two times that pods are asked what is in force there."""

log = structlog.get_logger()


async def run(settings: Settings) -> None:
    """Runs until SIGTERM or SIGINT. Raises Unavailable, Rejected, LeaseLost or ScopeChanged where it cannot go on."""
    async with connect() as kube, aiohttp.ClientSession() as session:
        pepper = await ensure_pepper(kube, settings.namespace)
        scope = Scope(kube, settings.watch_namespaces)
        await scope.find()
        store = Store(
            Installation(
                settings.namespace,
                settings.sidecar_image,
                pepper,
                settings.node_cache_path,
                settings.metrics_namespace,
                settings.sidecar_rollout,
            )
        )
        loop = asyncio.get_running_loop()
        queue: KeyedQueue[Ref] = KeyedQueue(loop.call_later)
        control = Control(session, pepper, _now)
        metrics = Metrics()
        controller = Controller(
            kube,
            control,
            store,
            queue,
            clock=_now,
            key_namespace=settings.namespace,
            metrics=metrics,
            namespaces=scope.namespaces,
        )
        identity = f"{os.uname().nodename}-{secrets.token_hex(4)}"
        lease = Lease(kube, settings.namespace, LEASE, identity, loop.time)
        try:
            await _watch_and_work(controller, lease, settings, metrics, scope)
        finally:
            await lease.release()
            log.info("stopped")


def _now() -> datetime:
    return datetime.now(UTC)


async def _watch_and_work(
    controller: Controller, lease: Lease, settings: Settings, metrics: Metrics, scope: Scope
) -> None:
    """Watches at once, so that a standby knows the cluster when it comes to lead, and works once it leads."""
    stop, watching = asyncio.Event(), [asyncio.Event(), asyncio.Event()]
    resources = build_informer(controller, SEEN_KINDS, stop, watching[0], scope.namespaces)
    secrets_ = build_informer(controller, (Kind.SECRET,), stop, watching[1], [settings.namespace])
    watchers = [asyncio.create_task(informer) for informer in (resources, secrets_)]
    leading = _lead(controller, lease, settings, metrics)
    others = [asyncio.create_task(task) for task in (leading, scope.keep(), _signals(stop, watching))]
    if settings.http_port is not None:
        health = build_health(lambda: all(each.is_set() for each in watching), metrics.registry)
        others.append(asyncio.create_task(_answer(health, settings.http_port)))
    try:
        done, _ = await asyncio.wait([*watchers, *others], return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        stop.set()
        for task in others:
            task.cancel()
        await asyncio.gather(*watchers, *others, return_exceptions=True)


async def _answer(app: web.Application, port: int) -> None:
    async with serving(app, port):
        await asyncio.Event().wait()


async def _lead(controller: Controller, lease: Lease, settings: Settings, metrics: Metrics) -> None:
    await lease.acquire()
    metrics.leading.set(1)
    log.info("leading")
    await controller.resync()
    endless = [lease.keep(), _resync(controller, settings.resync_seconds), _ask_pods(controller)]
    endless += [controller.work() for _ in range(settings.workers)]
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
    ready: asyncio.Event,
    namespaces: Sequence[str] | None,
) -> Coroutine[Any, Any, None]:
    """Tells the controller of objects of these kinds until `stop` is set: of those that are in no namespace, and of the
    others in these namespaces, in all without them.
    """
    return kopf.operator(
        registry=build_registry(controller, kinds),
        settings=build_settings(),
        # Without one kopf looks for the user's name, and the user of a container need not have one.
        identity=cast("Any", LEASE),
        standalone=True,
        clusterwide=namespaces is None,
        namespaces=namespaces or [],
        stop_flag=stop,
        ready_flag=ready,
    )


async def _signals(stop: asyncio.Event, watching: list[asyncio.Event]) -> None:
    """kopf takes the signals for one informer: they are for all."""
    for informer in watching:
        await informer.wait()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    log.info("watching")
    await stop.wait()


async def _resync(controller: Controller, seconds: float) -> None:
    while True:
        await asyncio.sleep(seconds)
        try:
            await controller.resync()
        except Unavailable as error:
            log.warning("not resynchronised", error=str(error))


async def _ask_pods(controller: Controller) -> None:
    while True:
        await asyncio.sleep(ASK_SECONDS)
        await controller.ask_pods()


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
