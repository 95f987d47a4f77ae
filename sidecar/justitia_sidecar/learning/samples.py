"""The samples file: finished runs on this pod's disk, in SQLite, until they are in the store that outlives the pod.

Bounded: the newest `MOST_RUNS` of each application are kept, nothing longer than `RETENTION`, and the file does not
grow beyond `MOST_BYTES`. Aborted runs are kept and counted, and never go to the store.

Calls block for milliseconds and belong to one thread. A file that is no database any more is put aside, and a new one
begun, since what is here can be lost without anybody being served worse.
"""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import msgspec
import structlog

from justitia_predictor.features import FEATURES_VERSION, Features
from justitia_predictor.sample import MOST_SAMPLES, Sample
from justitia_sidecar.learning.finished import FinishedRun
from justitia_vocabulary.units import KVTokenTime, Seconds

MOST_RUNS = MOST_SAMPLES
"""The most finished runs of one application."""
RETENTION: Seconds = 30 * 86_400.0
MOST_BYTES = 256 * 2**20
BUSY_SECONDS: Seconds = 1.0
"""How long to wait while another process has the file locked."""
_PAGE = 4096

_SCHEMA = """
CREATE TABLE IF NOT EXISTS samples (
    id INTEGER PRIMARY KEY,
    application TEXT NOT NULL,
    finished REAL NOT NULL,
    aborted INTEGER NOT NULL,
    flushed INTEGER NOT NULL DEFAULT 0,
    cost REAL NOT NULL,
    stages BLOB NOT NULL,
    features BLOB NOT NULL,
    text BLOB
);
CREATE INDEX IF NOT EXISTS of_application ON samples (application, id);
CREATE INDEX IF NOT EXISTS unflushed ON samples (application, id) WHERE NOT flushed AND NOT aborted;
"""

_INSERT = (
    "INSERT INTO samples (application, finished, aborted, cost, stages, features, text) VALUES (?, ?, ?, ?, ?, ?, ?)"
)

log = structlog.get_logger("justitia.sidecar")

_stages = msgspec.msgpack.Decoder(tuple[KVTokenTime, ...])


class SamplesError(Exception):
    """The samples file was not opened, read or changed: its disk is full, or it is locked or damaged."""


class Samples:
    """The file at `path`. Raises SamplesError, as all methods do."""

    def __init__(self, path: Path, most_bytes: int = MOST_BYTES, busy_seconds: Seconds = BUSY_SECONDS) -> None:
        self._path = path
        try:
            self._database = _opened(path, most_bytes, busy_seconds)
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                raise SamplesError(f"cannot open {path}: {error}") from error
            log.warning(
                "samples file is damaged: it is put aside, and a new one begun", path=str(path), reason=str(error)
            )
            path.replace(path.with_name(path.name + ".damaged"))
            self._database = _opened(path, most_bytes, busy_seconds)

    def add(self, runs: Sequence[FinishedRun]) -> None:
        """Keep all of these runs or none. Where the file is full, the oldest make room."""
        rows = [
            (r.application, r.finished, r.aborted, r.cost, msgspec.msgpack.encode(r.stages), r.features, r.text)
            for r in runs
        ]
        try:
            self._change(_INSERT, rows)
        except SamplesError as error:
            if getattr(error.__cause__, "sqlite_errorcode", None) != sqlite3.SQLITE_FULL:
                raise
            self._change("DELETE FROM samples WHERE id <= (SELECT (MIN(id) + MAX(id)) / 2 FROM samples)", [()])
            self._change(_INSERT, rows)

    def unflushed(self, application: str, most: int) -> list[tuple[int, Sample]]:
        """The oldest samples that are not in the store yet, with their numbers."""
        try:
            with closing(
                self._database.execute(
                    "SELECT id, features, cost, stages, finished, text FROM samples "
                    "WHERE application = ? AND NOT flushed AND NOT aborted ORDER BY id LIMIT ?",
                    (application, most),
                )
            ) as rows:
                return [
                    (number, Sample(Features.checked(features), cost, _stages.decode(stages), finished, text))
                    for number, features, cost, stages, finished, text in rows
                ]
        except (sqlite3.Error, ValueError) as error:
            raise SamplesError(f"cannot read {self._path}: {error}") from error

    def flushed(self, numbers: Sequence[int]) -> None:
        """Note that the samples with these numbers are in the store."""
        self._change("UPDATE samples SET flushed = 1 WHERE id = ?", [(number,) for number in numbers])

    def counts(self) -> dict[str, tuple[int, int]]:
        """How many runs of each application are kept, and how many of those were aborted."""
        try:
            with closing(
                self._database.execute("SELECT application, COUNT(*), SUM(aborted) FROM samples GROUP BY application")
            ) as rows:
                return {application: (count, aborted) for application, count, aborted in rows}
        except sqlite3.Error as error:
            raise SamplesError(f"cannot read {self._path}: {error}") from error

    def prune(self, now: Seconds) -> None:
        """Erase samples that are too old or too many. `now` is the time of day."""
        self._change("DELETE FROM samples WHERE finished < ?", [(now - RETENTION,)])
        self._change(
            "DELETE FROM samples WHERE application = ? AND id <= "
            "(SELECT id FROM samples WHERE application = ? ORDER BY id DESC LIMIT 1 OFFSET ?)",
            [(application, application, MOST_RUNS) for application in self.counts()],
        )

    def erase(self, application: str) -> None:
        self._change("DELETE FROM samples WHERE application = ?", [(application,)])

    def close(self) -> None:
        self._database.close()

    def _change(self, statement: str, rows: Sequence[tuple[object, ...]]) -> None:
        try:
            with self._database:
                self._database.executemany(statement, rows)
        except sqlite3.Error as error:
            raise SamplesError(f"cannot change {self._path}: {error}") from error


def _opened(path: Path, most_bytes: int, busy_seconds: Seconds) -> sqlite3.Connection:
    """Open the file. Samples with another version of the features are erased: nothing can be learned from them."""
    database = sqlite3.connect(path, timeout=busy_seconds, check_same_thread=False)
    try:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = NORMAL")
        database.execute("PRAGMA secure_delete = ON")
        database.execute(f"PRAGMA max_page_count = {most_bytes // _PAGE}")
        if database.execute("PRAGMA user_version").fetchone()[0] != FEATURES_VERSION:
            database.execute("DROP TABLE IF EXISTS samples")
            database.execute(f"PRAGMA user_version = {FEATURES_VERSION}")
        database.executescript(_SCHEMA)
    except sqlite3.Error:
        database.close()
        raise
    return database
