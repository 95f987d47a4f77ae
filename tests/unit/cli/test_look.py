"""`justitia explain` in words, and what both commands say where nobody can be asked."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from justitia_api.status import QueuedRequest
from justitia_cli.explanation import WHY, explain, matching
from justitia_vocabulary.waiting import WaitingReason


def waiting(position: int, tenant: str = "gold", **more: Any) -> QueuedRequest:
    given = {
        "rank": position,
        "order_key": {},
        "request": f"q{position}",
        "tenant": tenant,
        "application": "ns/chat",
        "run": f"run-{position}",
        "sequences": 1,
        "preemptions": 0,
        "waiting_seconds": 2.25,
        "prompt_tokens": 90,
        "expected_tokens": None,
        "reason": WaitingReason.BEHIND_OTHERS,
    }
    return QueuedRequest(position=position, **given | more)


def test_every_reason_has_words() -> None:
    assert set(WHY) == set(WaitingReason)


def test_a_request_is_explained_by_whose_it_is_why_it_waits_and_who_is_before_it() -> None:
    last = waiting(
        4, run_name="agent-7", order_key={"virtualFinish": 12.5, "arrival": 3.0}, preemptions=2, expected_tokens=160
    )
    queue = [waiting(1, "silver"), waiting(2, "silver"), waiting(3, "gold"), last, waiting(5, "bronze")]
    assert list(explain(last, queue)) == [
        "request q4 of tenant gold, application ns/chat, run agent-7",
        "  has waited for 2.2 s, place 4 of 5: others come first in the policy's order",
        "  before it: 2 of silver, 1 of gold",
        "  ordered by virtualFinish 12.5, arrival 3; the smaller goes first",
        "  was preempted 2 times, because the engine's memory was full",
        "  90 tokens of prompt; expected to take 160 tokens of the engine's memory",
    ]


def test_the_first_one_is_behind_nobody_and_what_is_not_known_is_left_out() -> None:
    first = waiting(1, tenant="", reason=WaitingReason.ENGINE_BUSY)
    lines = list(explain(first, [first]))
    assert lines[0] == "request q1 of an unknown tenant: its ticket did not reach the engine in time"
    assert "it is next" in lines[1]
    assert lines[2:] == ["  90 tokens of prompt"]


def test_of_many_tenants_before_it_the_first_are_named() -> None:
    queue = [waiting(position, f"t{position}") for position in range(1, 9)]
    assert "1 of t5, and of 2 other tenants" in list(explain(queue[-1], queue))[2]


def test_a_request_is_found_by_its_own_name_and_by_its_runs() -> None:
    queue = [waiting(1, run_name="agent"), waiting(2, run_name="agent"), waiting(3)]
    assert [each.position for each in matching(queue, "agent")] == [1, 2]
    assert [each.position for each in matching(queue, "q3")] == [3]
    assert [each.position for each in matching(queue, "run-3")] == [3]
    assert matching(queue, "other") == []


def run(*arguments: str, path: str | None = None) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "justitia_cli", *arguments]
    environment = os.environ | ({} if path is None else {"PATH": path})
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env=environment)


@pytest.mark.parametrize("command", ["top", "explain"])
def test_where_nobody_answers_it_is_one_line(command: str) -> None:
    done = run(command, "--url", "http://127.0.0.1:9")
    assert done.returncode == 1
    assert done.stderr.startswith("justitia: http://127.0.0.1:9")
    assert done.stderr.count("\n") == 1


def test_without_kubectl_it_says_what_to_do(tmp_path: Path) -> None:
    done = run("top", path=str(tmp_path))
    assert (done.returncode, done.stdout) == (1, "")
    assert "install it, or give a sidecar's --url" in done.stderr


def faking_kubectl(folder: Path, script: str) -> str:
    """The PATH with a kubectl that misbehaves."""
    program = folder / "kubectl"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


def test_what_kubectl_refuses_is_in_its_words(tmp_path: Path) -> None:
    path = faking_kubectl(tmp_path, 'echo "error: pods is forbidden" >&2; exit 1')
    done = run("explain", "--namespace=team", path=path)
    assert (done.returncode, done.stderr) == (1, "justitia: error: pods is forbidden\n")


def test_a_namespace_without_pools_is_told(tmp_path: Path) -> None:
    done = run("top", path=faking_kubectl(tmp_path, """echo '{"items": []}'"""))
    assert done.returncode == 1
    assert "name another --namespace" in done.stderr
