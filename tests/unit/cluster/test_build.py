"""How the control plane's programs are found. That they build is shown by every test on a real API server."""

import re
import subprocess
from pathlib import Path

import pytest

from cluster.build import (
    DEFINITIONS,
    MODULES,
    PROGRAMS,
    BuildError,
    ensure_definitions,
    ensure_programs,
    find_go,
    recipe_digest,
)


def test_given_programs_are_used_and_nothing_is_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PROGRAMS:
        (tmp_path / name).touch(mode=0o755)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    said: list[str] = []
    assert ensure_programs(said.append) == tmp_path
    assert said == []


def test_a_given_folder_without_a_program_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PROGRAMS[:-2]:
        (tmp_path / name).touch(mode=0o755)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    with pytest.raises(BuildError, match=r"lacks kubectl, helm; add them, or unset it"):
        ensure_programs(lambda line: None)


def test_without_a_working_compiler_there_is_a_reason_and_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "bin" / "go"
    broken.parent.mkdir()
    broken.write_text(
        '#!/bin/sh\n[ "$1" = version ] && echo go version go1.99.0 linux/amd64 && exit\necho broken; exit 1\n'
    )
    broken.chmod(0o755)
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setenv("PATH", str(broken.parent), prepend=":")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(BuildError, match=r"etcd: .*go ended with 1:\nbroken"):
        ensure_programs(lambda line: None)
    assert not (tmp_path / "cache" / "justitia" / f"cluster-{recipe_digest()}").exists()


def test_a_machine_without_go_brings_a_toolchain_that_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    go = find_go(tmp_path, lambda line: None)
    assert "go1.26" in subprocess.run([go, "version"], capture_output=True, text=True, check=True).stdout
    assert find_go(tmp_path, pytest.fail) == go


@pytest.mark.parametrize("module", ["etcd", "kubernetes", "helm", "containerd"])
def test_a_module_is_pinned_with_its_checksums(module: str) -> None:
    assert (MODULES / module / "go.sum").read_text().count("h1:") > 100
    assert "./staging" not in (MODULES / module / "go.mod").read_text()


PROMETHEUS = "github.com/prometheus-operator/prometheus-operator", "example/prometheus-operator-crd"


def test_definitions_of_others_come_from_their_module_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = ensure_definitions(*PROMETHEUS, lambda line: None)
    assert "kind: CustomResourceDefinition" in (folder / "monitoring.coreos.com_podmonitors.yaml").read_text()
    assert ensure_definitions(*PROMETHEUS, pytest.fail) == folder


def test_definitions_of_a_module_that_is_not_pinned_are_not_brought(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(BuildError, match=r"example\.com/other is not pinned: `go mod edit -require=example"):
        ensure_definitions("example.com/other", "crds", lambda line: None)


def test_every_module_with_definitions_is_pinned_with_its_checksums() -> None:
    pins = re.findall(r"^(?:require )?\s*(\S+) (v\S+)", (DEFINITIONS / "go.mod").read_text(), re.MULTILINE)
    sums = (DEFINITIONS / "go.sum").read_text()
    assert PROMETHEUS[0] in dict(pins)
    assert [pin for pin in pins if f"{pin[0]} {pin[1]} h1:" not in sums] == []
