"""The process: connects, lists, then watches and works until it is told to stop."""

import asyncio
import logging
import signal
from collections.abc import Coroutine
from datetime import UTC, datetime
from typing import Any

import kopf
import structlog

from justitia_operator.controller import Controller
from justitia_operator.handlers import CLUSTER_KINDS, build_registry, build_settings
from justitia_operator.installation import ensure_pepper
from justitia_operator.kube import Kube, Unavailable, connect
from justitia_operator.objects import Installation, Kind
from justitia_operator.queue import KeyedQueue
from justitia_operator.settings import Settings
from justitia_operator.store import Store

log = structlog.get_logger()


async def run(settings: Settings) -> None:
    """Runs until SIGTERM or SIGINT. Raises Unavailable if the cluster cannot be reached at the start."""
    async with connect() as kube:
        pepper = await ensure_pepper(kube, settings.namespace)
        installation = Installation(settings.namespace, settings.sidecar_image, pepper)
        await _serve(kube, settings, installation)


async def _serve(kube: Kube, settings: Settings, installation: Installation) -> None:
    loop = asyncio.get_running_loop()
    controller = Controller(
        kube, Store(installation), KeyedQueue(loop.call_later), lambda: datetime.now(UTC), settings.namespace
    )
    await controller.resync()
    stop = asyncio.Event()
    watching = [asyncio.Event(), asyncio.Event()]
    informers = (
        _informer(controller, CLUSTER_KINDS, stop, watching[0], endpoint=settings.liveness_endpoint),
        _informer(controller, (Kind.SECRET,), stop, watching[1], namespace=settings.namespace),
    )
    endless = (_resync(controller, settings.resync_seconds), *(controller.work() for _ in range(settings.workers)))
    await _until_stopped(informers, endless, stop, watching)


def _informer(
    controller: Controller,
    kinds: tuple[Kind, ...],
    stop: asyncio.Event,
    ready: asyncio.Event,
    *,
    namespace: str | None = None,
    endpoint: str | None = None,
) -> Coroutine[Any, Any, None]:
    return kopf.operator(
        registry=build_registry(controller, kinds),
        settings=build_settings(),
        standalone=True,
        clusterwide=namespace is None,
        namespaces=[namespace] if namespace else [],
        liveness_endpoint=endpoint,
        stop_flag=stop,
        ready_flag=ready,
    )


async def _until_stopped(
    informers: tuple[Coroutine[Any, Any, None], ...],
    endless: tuple[Coroutine[Any, Any, None], ...],
    stop: asyncio.Event,
    watching: list[asyncio.Event],
) -> None:
    watchers = [asyncio.create_task(coroutine) for coroutine in informers]
    workers = [asyncio.create_task(coroutine) for coroutine in endless]
    stopping = asyncio.create_task(_stop_on_signals(stop, watching))
    try:
        done, _ = await asyncio.wait([*watchers, *workers, stopping], return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        stop.set()
        for task in (*workers, stopping):
            task.cancel()
        await asyncio.gather(*watchers, *workers, stopping, return_exceptions=True)
        log.info("stopped")


async def _stop_on_signals(stop: asyncio.Event, watching: list[asyncio.Event]) -> None:
    """kopf takes the signals for one informer: they are for both."""
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


def configure_logging(level: str) -> None:
    """One JSON object a line, from our modules and from the libraries."""
    shared: list[structlog.typing.Processor] = [
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
