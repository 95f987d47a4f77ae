"""Whose the cluster on this machine is."""

import json
import os
from pathlib import Path

import pytest

from justitia_e2e.cluster import check_owner, take_down
from justitia_e2e.daemons import Daemons, started_at
from justitia_e2e.images import ROOT
from justitia_e2e.machine import ClusterError, State


def state_of(root: Path, owner: str, started: str | None) -> State:
    (root / "daemons").mkdir()
    (root / "daemons" / "00-etcd.json").write_text(json.dumps({"pid": os.getpid(), "started": started}))
    (root / "owner").write_text(owner)
    return State(root)


def test_the_running_cluster_of_another_checkout_is_left_alone(tmp_path: Path) -> None:
    state = state_of(tmp_path, "/elsewhere", started_at(os.getpid()))
    with pytest.raises(ClusterError, match="/elsewhere/e2e/cluster down"):
        take_down(state, pytest.fail)
    assert state.root.exists()


def test_what_another_checkout_left_is_in_nobodys_way(tmp_path: Path) -> None:
    state = state_of(tmp_path, "/elsewhere", "1")
    check_owner(state)
    assert Daemons(state).running() == {}


def test_ones_own_cluster_may_be_changed(tmp_path: Path) -> None:
    state = state_of(tmp_path, str(ROOT), started_at(os.getpid()))
    check_owner(state)
    assert Daemons(state).running() == {"etcd": os.getpid()}
