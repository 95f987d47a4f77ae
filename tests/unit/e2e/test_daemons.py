"""Whether a recorded process is still the one that was started."""

import json
import os
from pathlib import Path

from justitia_e2e.daemons import Daemons, started_at
from justitia_e2e.machine import State


def recorded(root: Path, name: str, started: str | None) -> None:
    (root / "daemons").mkdir(exist_ok=True)
    (root / "daemons" / f"00-{name}.json").write_text(json.dumps({"pid": os.getpid(), "started": started}))


def test_a_process_that_was_started_then_runs(tmp_path: Path) -> None:
    recorded(tmp_path, "kube-proxy", started_at(os.getpid()))
    assert Daemons(State(tmp_path)).running() == {"kube-proxy": os.getpid()}


def test_another_process_with_its_number_is_not_taken_for_it(tmp_path: Path) -> None:
    recorded(tmp_path, "etcd", "1")
    daemons = Daemons(State(tmp_path))
    assert daemons.running() == {}
    assert daemons.known() == ["etcd"]
    daemons.stop("etcd")  # would end this very process


def test_without_state_nothing_runs(tmp_path: Path) -> None:
    assert Daemons(State(tmp_path / "none")).running() == {}
