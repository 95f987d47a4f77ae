"""Runs as the first process of the engine's container, with its image's Python, and runs the engine: `python3 -c SOURCE
PORT ARGUMENTS...`.

The first process of a container gets no signal that it has not asked for, and vLLM asks for none until it has started,
which may take minutes. A pool that is deleted meanwhile would keep its accelerators until the pod's grace is over. An
engine that does not listen yet has begun nothing, and is ended at once. One that listens gets the signal, and ends as
it sees fit.
"""

import os
import signal
import socket
import subprocess
import sys
from types import FrameType


def listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=2).close()
    except ConnectionRefusedError:
        return False
    except OSError:
        # It is too busy to take the connection.
        pass
    return True


def main(port: int, arguments: list[str]) -> int:
    """The exit code of what it runs."""
    signals = {signal.SIGTERM, signal.SIGINT}
    # What arrives before there is somebody to end waits.
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    engine = subprocess.Popen(
        [sys.executable, *arguments],
        start_new_session=True,
        preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_UNBLOCK, signals),  # noqa: PLW1509 - there is one thread
    )

    def stop(number: int, _: FrameType | None) -> None:
        if listens(port):
            engine.send_signal(number)
        else:
            os.killpg(engine.pid, signal.SIGKILL)

    for each in signals:
        signal.signal(each, stop)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)
    while True:
        # Whatever loses its parent becomes a child of a container's first process.
        ended, status = os.wait()
        if ended == engine.pid:
            code = os.waitstatus_to_exitcode(status)
            return 128 - code if code < 0 else code


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
