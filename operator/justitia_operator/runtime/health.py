"""Serves `/healthz` (the event loop runs), `/readyz` (the cluster is watched, also by a standby) and `/metrics`."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest


def build_health(ready: Callable[[], bool], registry: CollectorRegistry) -> web.Application:
    async def healthz(request: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    async def readyz(request: web.Request) -> web.Response:
        watching = ready()
        return web.json_response({"watching": watching}, status=200 if watching else 503)

    async def metrics(request: web.Request) -> web.Response:
        return web.Response(body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    app = web.Application()
    app.add_routes([web.get("/healthz", healthz), web.get("/readyz", readyz), web.get("/metrics", metrics)])
    return app


@asynccontextmanager
async def serving(app: web.Application, port: int) -> AsyncIterator[None]:
    """Serves on all addresses. Raises OSError if the port is taken."""
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, port=port).start()
        yield
    finally:
        await runner.cleanup()
