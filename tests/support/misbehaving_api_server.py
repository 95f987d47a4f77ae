"""An API server that misbehaves on purpose: it knows how to list and watch, but answers lists as late as it is told to,
and refuses as many of them as it is told to.
"""

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import yaml
from aiohttp import web

from justitia_operator.world.objects import Json, Kind

CORE = (Kind.NAMESPACE, Kind.SECRET)


class MisbehavingApiServer:
    """Serves two kinds of the core group. `held` answers no list of a kind before its event is set; `refusals` counts
    the lists of a kind that are still to be refused; `requests` is what was asked.
    """

    def __init__(self) -> None:
        self.objects: defaultdict[Kind, list[Json]] = defaultdict(list)
        self.held: dict[Kind, asyncio.Event] = {}
        self.refusals: dict[Kind, int] = {}
        self.requests: list[tuple[str, str]] = []
        self.asked: defaultdict[Kind, asyncio.Event] = defaultdict(asyncio.Event)
        self._events: defaultdict[Kind, asyncio.Queue[Json]] = defaultdict(asyncio.Queue)

    def tell(self, kind: Kind, type_: str, obj: Json) -> None:
        """An event for who watches."""
        self._events[kind].put_nowait({"type": type_, "object": obj})

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append((request.method, request.path))
        match request.path.strip("/").split("/"):
            case ["api"]:
                return web.json_response({"versions": ["v1"]})
            case ["apis"]:
                return web.json_response({"groups": []})
            case ["api", "v1"]:
                resources = [
                    {"name": k.plural, "singularName": "", "namespaced": k.namespaced, "kind": str(k), "verbs": VERBS}
                    for k in CORE
                ]
                return web.json_response({"resources": resources})
            case [*_, plural]:
                kind = next(each for each in CORE if each.plural == plural)
                return await (self._watch(kind, request) if "watch" in request.query else self._list(kind))
        raise web.HTTPNotFound

    async def _list(self, kind: Kind) -> web.StreamResponse:
        self.asked[kind].set()
        if self.refusals.get(kind):
            self.refusals[kind] -= 1
            return web.json_response({"kind": "Status", "message": "no"}, status=403)
        if kind in self.held:
            await self.held[kind].wait()
        return web.json_response({"metadata": {"resourceVersion": "1"}, "items": self.objects[kind]})

    async def _watch(self, kind: Kind, request: web.Request) -> web.StreamResponse:
        stream = web.StreamResponse()
        await stream.prepare(request)
        while True:
            await stream.write(json.dumps(await self._events[kind].get()).encode() + b"\n")


VERBS = ["list", "watch", "patch"]


@asynccontextmanager
async def serving(server: MisbehavingApiServer, folder: Path) -> AsyncIterator[Path]:
    """The kubeconfig of the server, which lies in the folder."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.answer)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=1, access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        config = {
            "current-context": "it",
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
            "clusters": [{"name": "it", "cluster": {"server": f"http://{host}:{port}"}}],
            "users": [{"name": "it", "user": {}}],
        }
        path = folder / "kubeconfig"
        path.write_text(yaml.safe_dump(config))
        yield path
    finally:
        await runner.cleanup()
