"""A pod's control port that says what a test has it say: stands in for a sidecar that has served thousands of
requests, which would take an engine and an hour.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from justitia_api.config import PoolDocuments
from justitia_api.status import BoostStatus, ObjectiveCounts
from justitia_sidecar.ports.control import ControlCredentials
from support.objectives import pool_status


@dataclass
class TellingPod:
    """`asked` counts its answers; the generation is that of the documents that it got last."""

    port: int = 0
    namespace: str = "apps"
    objectives: tuple[ObjectiveCounts, ...] = ()
    boost: BoostStatus | None = None
    asked: int = 0
    generation: int = field(default=0, init=False)

    def answer(self, documents: bytes) -> bytes:
        if documents:
            self.generation = PoolDocuments.model_validate_json(documents).configuration.generation
        status = pool_status(self.objectives, namespace=self.namespace, generation=self.generation, boost=self.boost)
        self.asked += 1
        return status.model_dump_json(by_alias=True).encode()


@contextmanager
def reporting_pod(folder: Path, pod: TellingPod, address: str = "127.0.0.1", port: int = 0) -> Iterator[TellingPod]:
    """Listens with the certificate of the folder; a free port if none is given."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = pod.answer(self.rfile.read(int(self.headers.get("Content-Length", 0))))
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_PUT = do_GET

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer((address, port), Handler) as server:
        server.socket = ControlCredentials(folder).context.wrap_socket(server.socket, server_side=True)
        pod.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield pod
        finally:
            server.shutdown()
            thread.join()
