"""What a node is refused for, before anything is changed."""

import os
import platform
import re
from pathlib import Path

import pytest

from justitia_e2e import machine
from justitia_e2e.machine import ClusterError, check_machine


@pytest.mark.parametrize(
    ("user", "system", "said"),
    [
        pytest.param(1000, {"ID": "debian"}, "run this as root", id="not root"),
        pytest.param(
            0, {"ID": "fedora", "PRETTY_NAME": "Fedora 42"}, "Debian's packages, but this is Fedora 42", id="not Debian"
        ),
    ],
)
def test_where_a_node_cannot_run_there_is_a_reason(
    monkeypatch: pytest.MonkeyPatch, user: int, system: dict[str, str], said: str
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setattr(platform, "freedesktop_os_release", lambda: system)
    with pytest.raises(ClusterError, match=re.escape(said)):
        check_machine()


@pytest.fixture
def root_on_debian(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(platform, "freedesktop_os_release", lambda: {"ID": "debian"})


@pytest.mark.usefixtures("root_on_debian")
def test_root_on_debian_is_let_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = tmp_path / "tried"
    monkeypatch.setattr(machine, "NEEDED_RIGHTS", {"look": f"touch {tried}"})
    check_machine()
    assert tried.exists()


@pytest.mark.usefixtures("root_on_debian")
def test_root_who_is_kept_from_what_a_node_takes_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "NEEDED_RIGHTS", {"look": "true", "fly": "echo no; exit 1"})
    with pytest.raises(ClusterError, match="root may not fly here"):
        check_machine()
