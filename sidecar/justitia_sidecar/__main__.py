"""`python -m justitia_sidecar`: both ports in one process and one event loop. SIGTERM and SIGINT drain, then stop."""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import structlog
import uvloop

from justitia_api.config import KeyTable, PoolConfig
from justitia_api.wire import authority
from justitia_predictor.store import Store, StoreError
from justitia_sidecar.engine.channel import EngineChannel, listen
from justitia_sidecar.engine.client import EngineClient
from justitia_sidecar.engine.hang import HangWatch
from justitia_sidecar.learning.attempts import Attempt
from justitia_sidecar.learning.learner import Learner, build_learner
from justitia_sidecar.learning.samples import Samples, SamplesError
from justitia_sidecar.metrics import SidecarMetrics
from justitia_sidecar.objectives.objectives import Objectives
from justitia_sidecar.objectives.remembered import load, save, save_forever
from justitia_sidecar.pool.passing import PeerClient, PeerCredentials
from justitia_sidecar.pool.peers import Peers
from justitia_sidecar.ports.admin import build_admin
from justitia_sidecar.ports.connections import accept_backlog, public_seats, raise_file_limit
from justitia_sidecar.ports.control import ControlCredentials, build_control
from justitia_sidecar.ports.peer import PeerApp
from justitia_sidecar.ports.picks import PickDoor
from justitia_sidecar.ports.public import PublicApp
from justitia_sidecar.ports.serving import Server, server_config
from justitia_sidecar.reload import WatchedDocument
from justitia_sidecar.request.parts import Parts
from justitia_sidecar.service import Sidecar
from justitia_sidecar.settings import SidecarSettings, read_settings

SHUTDOWN_SECONDS = 30
CLOSE_SECONDS = 10
"""For samples to reach the store."""
CREDENTIALS_SECONDS = 10.0
OBJECTIVES_FILE = "objectives.json"
"""The name of the file, beside the engine's socket."""

log = structlog.get_logger("justitia.sidecar")


def main() -> None:
    settings = read_settings(SidecarSettings)
    _configure_logging(settings.log_level)
    raise_file_limit()
    try:
        sockets = [
            _listen("JUSTITIA_PORT", settings.host, settings.port),
            _listen("JUSTITIA_ADMIN_PORT", settings.admin_host, settings.admin_port),
        ]
        credentials = None
        if settings.control_folder is not None:
            credentials = ControlCredentials(settings.control_folder)
            sockets.append(_listen("JUSTITIA_CONTROL_PORT", settings.control_host, settings.control_port))
        peer_credentials = None
        if settings.peer_folder is not None and settings.peer_address:
            peer_credentials = PeerCredentials(settings.peer_folder)
            sockets.append(_listen("JUSTITIA_PEER_PORT", settings.peer_host, settings.peer_port))
    except OSError as error:
        print(error, file=sys.stderr)  # noqa: T201
        sys.exit(1)
    if not uvloop.run(serve(settings, sockets, credentials, peer_credentials)):
        # A thread may wait for the store for ever, and the interpreter would wait for the thread.
        os._exit(0)


async def serve(
    settings: SidecarSettings,
    sockets: Sequence[socket.socket],
    credentials: ControlCredentials | None = None,
    peer_credentials: PeerCredentials | None = None,
) -> bool:
    """Serve until a signal has come and the requests that have begun are over. `sockets` are those of the public and
    the admin port, and of the control port and the peers' port where there are credentials for them. Returns False if
    what was learned did not reach the store in time.
    """
    loop = asyncio.get_running_loop()
    async with EngineClient.session() as session, contextlib.AsyncExitStack() as stack:
        peer_client = None
        if peer_credentials is not None:
            peer_client = PeerClient(await stack.enter_async_context(PeerClient.session(peer_credentials.client)))
        channel = None if settings.engine_socket is None else EngineChannel()
        hang_watch = HangWatch(settings.hang_seconds, settings.hang_file)
        metrics = SidecarMetrics()
        learner = _learner(settings, metrics)
        engine = EngineClient(settings.engine_url, session)
        objectives = Objectives(time.time() - time.monotonic())
        memory = None if settings.engine_socket is None else settings.engine_socket.with_name(OBJECTIVES_FILE)
        if memory is not None:
            load(memory, objectives)
        sidecar = Sidecar(
            engine,
            metrics,
            time.monotonic,
            channel,
            hang_watch,
            learner=learner,
            objectives=objectives,
            peers=Peers(
                "" if peer_credentials is None else authority(settings.peer_address, settings.peer_port),
                time.monotonic,
                authority(settings.public_address, settings.port) if settings.public_address else "",
            ),
            peer_client=peer_client,
        )
        config = WatchedDocument(settings.config_file, PoolConfig)
        keys = WatchedDocument(settings.keys_file, KeyTable)
        sidecar.parts.current.poll(config, keys)
        seats = public_seats()
        servers = [
            Server(server_config(PublicApp(sidecar.parts), seats=seats)),
            Server(server_config(build_admin(sidecar.report))),
        ]
        if credentials is not None:
            servers.append(
                Server(
                    server_config(
                        build_control(sidecar.parts.current, sidecar.report, credentials), credentials.context
                    )
                )
            )
        if peer_credentials is not None:
            servers.append(Server(server_config(PeerApp(sidecar.parts), peer_credentials.server, seats)))
        stopping = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stopping.set)
        async with asyncio.TaskGroup() as group:
            background = [
                group.create_task(sidecar.watch_engine()),
                group.create_task(sidecar.watch_documents(config, keys)),
                group.create_task(sidecar.tick_forever()),
                group.create_task(sidecar.share_forever(settings.valkey_folder)),
                group.create_task(learner.background.work_forever()),
                group.create_task(_answer_picker(sidecar.parts, settings.picker_socket)),
            ]
            if memory is not None:
                background.append(group.create_task(save_forever(memory, objectives)))
            background += [
                group.create_task(_keep_fresh(each)) for each in (credentials, peer_credentials) if each is not None
            ]
            if channel is not None and settings.engine_socket is not None:
                background.append(group.create_task(channel.serve(listen(settings.engine_socket))))
            serving = [
                group.create_task(server.serve(sockets=[sock])) for server, sock in zip(servers, sockets, strict=True)
            ]
            await stopping.wait()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SHUTDOWN_SECONDS):
                    await sidecar.parts.open.drain()
            for server in servers:
                server.should_exit = True
            await asyncio.wait(serving)
            for task in background:
                task.cancel()
        if memory is not None:
            await save(memory, objectives)
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await learner.close()
        except TimeoutError:
            log.warning("newest samples not brought to the store: no answer in time", waited_seconds=CLOSE_SECONDS)
            return False
        return True


def _learner(settings: SidecarSettings, metrics: SidecarMetrics) -> Learner:
    """Build what learns. Requests are served even if the disk or the store cannot be used."""
    samples, store = None, None
    try:
        if settings.store_url is not None:
            store = Store(settings.store_url)
        if settings.samples_file is not None:
            samples = Samples(settings.samples_file)
    except (SamplesError, StoreError) as error:
        metrics.learning_failures.labels(Attempt.OPEN.value).inc()
        log.error("samples file or store not opened: nothing is learned until a restart", reason=str(error))
    return build_learner(
        samples,
        store,
        metrics,
        time.monotonic,
        time.time,
        pod=os.uname().nodename,
        shipped=settings.artifacts_folder,
    )


async def _answer_picker(parts: Parts, path: Path | None) -> None:
    if path is not None:
        await PickDoor(parts).serve(listen(path))


async def _keep_fresh(credentials: ControlCredentials | PeerCredentials) -> None:
    """Load the credentials again and again: the kubelet replaces their files from time to time."""
    while True:
        await asyncio.sleep(CREDENTIALS_SECONDS)
        try:
            credentials.refresh()
        except OSError as error:
            log.error("credentials not read: the old ones stay in effect", reason=str(error))


def _listen(variable: str, host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port), backlog=accept_backlog())
    except OSError as error:
        raise OSError(f"cannot listen on {host}:{port}: {error.strerror}: free the port or set {variable}") from None


def _configure_logging(level: str) -> None:
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper(), logging.INFO)),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


if __name__ == "__main__":
    main()
