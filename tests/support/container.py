"""Runs a container's command on this machine, with stand-ins for what a container has of its own: the image's Python,
the time, and the pod's ports.
"""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

STAND_IN_TIME_AND_NETWORK = '''
import json, os, socket, time

ports, log = json.loads(os.environ["STAND_IN_PORTS"]), os.environ["STAND_IN_LOG"]
passed, monotonic, connect = 0.0, time.monotonic, socket.socket.connect


def note(**what):
    with open(log, "a") as file:
        print(json.dumps(what), file=file)


def sleep(seconds):
    """Takes no time, and lets it pass."""
    global passed
    passed += seconds
    note(slept=seconds)


def connect_elsewhere(self, address):
    """A port of the pod is another here. One that is "busy" takes no connection in time."""
    note(port=address[1], timeout=self.gettimeout())
    port = ports[str(address[1])]
    if port == "busy":
        raise TimeoutError
    connect(self, ("127.0.0.1", port))


time.sleep, time.monotonic, socket.socket.connect = sleep, lambda: monotonic() + passed, connect_elsewhere
'''
STAND_IN_PYTHON = f'#!/bin/sh\nexec "{sys.executable}" "$@"\n'
"""For the image's: its name is all that commands know of it."""

Note = dict[str, Any]


class Container:
    """Where commands run. `notes` is what they slept, and which ports they connected to with which time limit."""

    def __init__(self, folder: Path, ports: Mapping[int, int | str] | None = None) -> None:
        self.folder = folder
        self._log = folder / "notes"
        self._log.touch()
        (folder / "sitecustomize.py").write_text(STAND_IN_TIME_AND_NETWORK)
        (folder / "bin").mkdir()
        python = folder / "bin" / "python3"
        python.write_text(STAND_IN_PYTHON)
        python.chmod(0o755)
        self._environment = {
            "PATH": f"{folder / 'bin'}:{os.defpath}",
            "PYTHONPATH": str(folder),
            "STAND_IN_PORTS": json.dumps(ports or {}),
            "STAND_IN_LOG": str(self._log),
        }

    def start(self, command: Sequence[str], **environment: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            command, env=self._environment | environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )

    def run(self, command: Sequence[str], **environment: str) -> tuple[int, str]:
        """The exit code and what was printed."""
        with self.start(command, **environment) as process:
            output, _ = process.communicate(timeout=60)
            return process.returncode, output

    @property
    def notes(self) -> list[Note]:
        return [json.loads(line) for line in self._log.read_text().splitlines()]

    @property
    def slept(self) -> list[float]:
        return [note["slept"] for note in self.notes if "slept" in note]

    def limits_of(self, port: int) -> list[float | None]:
        """Time limits of the connections to a port of the pod."""
        return [note["timeout"] for note in self.notes if note.get("port") == port]


class StandInSidecar:
    """Answers requests once it may, and refuses connections after as many as `answers`."""

    def __init__(self, answers: int | None = None) -> None:
        self.asked: list[tuple[str, str]] = []
        self.was_asked, self.may_answer = threading.Event(), threading.Event()
        stand_in = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                stand_in.asked.append((self.command, self.path))
                stand_in.was_asked.set()
                stand_in.may_answer.wait()
                if len(stand_in.asked) == answers:
                    stand_in.server.socket.close()
                self.send_response(200)
                self.end_headers()

            do_POST = do_GET

            def log_message(self, *_: object) -> None:
                """Nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_port


@contextmanager
def serving(sidecar: StandInSidecar) -> Iterator[StandInSidecar]:
    thread = threading.Thread(target=sidecar.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield sidecar
    finally:
        sidecar.may_answer.set()
        sidecar.server.shutdown()
        thread.join()
        sidecar.server.server_close()
