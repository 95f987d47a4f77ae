"""Runs on the pod's disk: kept within bounds, given out once, and put aside when they cannot be read."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from justitia_predictor.sample import Sample
from justitia_sidecar.learning import samples as module
from justitia_sidecar.learning.finished import FinishedRun
from justitia_sidecar.learning.samples import RETENTION, Samples, SamplesError
from support.written_runs import written_runs

NOW = 1.8e9
WRITTEN = written_runs(30, noise=0.3, seed=1)


def finished(number: int, application: str = "a", *, aborted: bool = False, at: float = NOW) -> FinishedRun:
    sample = WRITTEN[number]
    return FinishedRun(application, at, aborted, sample.cost, (1.0, 2.0), sample.features.packed, b"text")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "samples.db"


@pytest.fixture
def samples(path: Path) -> Iterator[Samples]:
    opened = Samples(path)
    yield opened
    opened.close()


def of(samples: Samples, application: str = "a") -> list[Sample]:
    return [sample for _, sample in samples.unflushed(application, 1000)]


def test_what_is_kept_comes_back_in_order_until_it_is_flushed(samples: Samples) -> None:
    samples.add([finished(0), finished(1, "b"), finished(2)])
    wanted = [replace(WRITTEN[i], stages=(1.0, 2.0), finished=NOW, text=b"text") for i in (0, 2)]
    assert of(samples) == wanted
    samples.flushed([number for number, _ in samples.unflushed("a", 1)])
    assert of(samples) == wanted[1:]
    assert len(of(samples, "b")) == 1


def test_aborted_runs_are_marked_and_not_learned_from(samples: Samples) -> None:
    samples.add([finished(0), finished(1, aborted=True)])
    assert len(of(samples)) == 1
    assert samples.counts() == {"a": (2, 1)}


def test_the_next_process_finds_what_was_kept(samples: Samples, path: Path) -> None:
    samples.add([finished(0)])
    samples.close()
    with closing(Samples(path)) as following:
        assert len(of(following)) == 1


def test_the_oldest_and_the_too_many_are_forgotten(samples: Samples, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_RUNS", 5)
    samples.add([finished(0, at=NOW - RETENTION - 1), *(finished(i) for i in range(1, 9)), finished(9, "b")])
    samples.prune(NOW)
    assert [s.cost for s in of(samples)] == [WRITTEN[i].cost for i in range(4, 9)]
    assert samples.counts() == {"a": (5, 0), "b": (1, 0)}


def test_what_is_erased_is_nowhere_in_the_file(samples: Samples, path: Path) -> None:
    secret = b"nobody else's business"
    samples.add([replace(finished(0), text=secret), finished(1, "b")])
    samples.erase("a")
    assert samples.counts() == {"b": (1, 0)}
    samples.close()
    assert secret not in path.read_bytes()


def test_a_full_file_makes_room_by_forgetting_the_oldest(path: Path) -> None:
    with closing(Samples(path, most_bytes=2**17)) as samples:
        for number in range(100):
            samples.add([replace(finished(number % 30), text=b"t" * 10_000, cost=float(number))])
        costs = [s.cost for s in of(samples)]
        assert costs == sorted(costs)
        assert costs[-1] == 99
        assert 3 <= len(costs) < 12
    assert path.stat().st_size <= 2**17


def test_a_locked_file_says_so_and_keeps_nothing_by_halves(path: Path) -> None:
    with closing(Samples(path, busy_seconds=0)) as samples:
        samples.add([finished(0)])
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN EXCLUSIVE")
            with pytest.raises(SamplesError, match="locked"):
                samples.add([finished(1), finished(2)])
            other.execute("ROLLBACK")
        assert len(of(samples)) == 1
        samples.add([finished(1)])
        assert len(of(samples)) == 2


def test_a_file_that_is_no_database_is_put_aside(path: Path) -> None:
    path.write_bytes(b"something else" * 1000)
    with closing(Samples(path)) as samples:
        samples.add([finished(0)])
        assert len(of(samples)) == 1
    assert path.with_name("samples.db.damaged").read_bytes().startswith(b"something else")


def test_a_folder_that_is_not_there_says_so(tmp_path: Path) -> None:
    with pytest.raises(SamplesError, match="nowhere"):
        Samples(tmp_path / "nowhere/samples.db")


def test_features_of_another_version_are_forgotten(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(Samples(path)) as samples:
        samples.add([finished(0)])
    monkeypatch.setattr(module, "FEATURES_VERSION", 99)
    with closing(Samples(path)) as samples:
        assert samples.counts() == {}


def test_another_process_forgets_an_application_while_the_sidecar_has_the_file(samples: Samples, path: Path) -> None:
    samples.add([finished(0), finished(1, "b")])
    command = [sys.executable, "-m", "justitia_sidecar.forget", "a"]
    subprocess.run(command, check=True, timeout=60, env=os.environ | {"JUSTITIA_SAMPLES_FILE": str(path)})
    assert samples.counts() == {"b": (1, 0)}
    samples.add([finished(2)])
    assert samples.counts() == {"a": (1, 0), "b": (1, 0)}
