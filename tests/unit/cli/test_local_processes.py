"""Processes of local mode: ended with all their children, reported with the end of their log, leftovers found."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from justitia_cli.local.errors import LocalError
from justitia_cli.local.ports import free_ports, require_free_port
from justitia_cli.local.processes import ManagedProcess
from justitia_cli.local.session import Session

PARENT = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(child.pid, flush=True)
child.wait()
"""


def start_family(directory: Path) -> tuple[ManagedProcess, int]:
    """A process with a child; the child's number."""
    process = ManagedProcess("family", [sys.executable, "-c", PARENT], {}, directory / "family.log")
    while not (text := (directory / "family.log").read_text().strip()):
        process.fail_if_ended()
    return process, int(text)


def test_stopping_ends_the_children_too(tmp_path: Path) -> None:
    process, child = start_family(tmp_path)
    process.stop()
    assert not psutil.pid_exists(child)


def test_an_ended_process_is_reported_with_the_end_of_its_log(tmp_path: Path) -> None:
    process = ManagedProcess(
        "engine", [sys.executable, "-c", "import sys; sys.exit('no such model')"], {}, tmp_path / "engine.log"
    )
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    with pytest.raises(LocalError, match=r"the engine ended with code 1[\s\S]*no such model"):
        process.fail_if_ended()


def test_a_busy_port_is_told_with_its_purpose() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(LocalError, match=rf"port {port} for the engine cannot be used .*--engine-port"):
            require_free_port(port, "engine", "--engine-port")


def test_free_ports_are_different_and_none_is_one_that_connections_get() -> None:
    first, last = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    found = free_ports(8)
    assert len(set(found)) == 8
    assert not set(found) & set(range(first, last + 1))


def test_a_port_that_somebody_listens_on_is_not_free(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        with socket.create_server(("127.0.0.1", 0)) as closed:
            taken, free = (each.getsockname()[1] for each in (listening, closed))
        ports = range(min(taken, free), max(taken, free) + 1, abs(taken - free))
        monkeypatch.setattr("justitia_cli.local.ports.PORTS", ports)
        assert free_ports(1) == [free]
        with pytest.raises(LocalError, match="fewer than 2 ports are free"):
            free_ports(2)


def test_a_port_that_another_process_was_given_is_left_to_its_server(monkeypatch: pytest.MonkeyPatch) -> None:
    find = "from justitia_cli.local.ports import free_ports; print(free_ports(1)[0])"
    port = int(subprocess.run([sys.executable, "-c", find], check=True, capture_output=True, text=True).stdout)
    monkeypatch.setattr("justitia_cli.local.ports.PORTS", range(port, port + 1))
    with pytest.raises(LocalError, match="fewer than 1 ports are free"):
        free_ports(1)
    require_free_port(port, "engine", "--engine-port")
    with socket.create_server(("127.0.0.1", port)):
        pass


def test_only_one_session_at_a_time(tmp_path: Path) -> None:
    with Session(tmp_path).exclusive(), pytest.raises(LocalError, match="up already"), Session(tmp_path).exclusive():
        pass


def test_a_folder_whose_path_is_too_long_for_a_socket_is_refused_with_what_to_do(tmp_path: Path) -> None:
    deep = tmp_path / "much" / ("deeper" * 20)
    with (
        pytest.raises(LocalError, match="bytes too long for this system: set XDG_STATE_HOME"),
        Session(deep).exclusive(),
    ):
        pass
    assert not deep.exists()


def test_what_a_killed_supervisor_left_is_ended(tmp_path: Path) -> None:
    process, child = start_family(tmp_path)
    session = Session(tmp_path)
    session.write([process.pid], ready=True)
    assert session.end()
    process.stop()
    assert not psutil.pid_exists(child)
    assert not session.end()


def test_a_later_process_with_a_recorded_number_is_left_alone(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True) as innocent:
        session = Session(tmp_path)
        session.write([innocent.pid], ready=True)
        note = (tmp_path / "session.json").read_text()
        created = psutil.Process(innocent.pid).create_time()
        (tmp_path / "session.json").write_text(note.replace(str(created), str(created - 100)))
        session.end()
        assert innocent.poll() is None
        innocent.send_signal(signal.SIGKILL)


def test_who_reads_the_note_while_it_is_written_finds_one_that_is_whole(tmp_path: Path) -> None:
    session = Session(tmp_path)
    session.write([], ready=False)
    with (tmp_path / "session.json").open() as begun:
        session.write([], ready=True)
        assert json.load(begun)["ready"] is False
    assert (note := session.read()) is not None
    assert note.ready
