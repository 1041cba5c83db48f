"""The SQLite file in which the server stores series and their observations.

A committed transaction is on the disk and survives a kill or a power cut. Each series has a checksum, the sum of the checksums of
all its rows, so damage is found when it is read.
"""

import dataclasses
import json
import re
import sqlite3
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from .disk_space import DiskSpace, StoreDamaged

FORMAT = 2  # SQLite's `user_version` of the file
UNUSABLE = "cannot be used for the state of the server"
SERIES_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")  # as in `schemas`
LOG_PAGES = 256  # of SQLite's log, 1 MiB, after which it is moved into the file; a quarter of SQLite's default, chosen by hand
TABLES = {  # by the format that added them; `seals` holds the checksum of each series, `totals` the number of series
    1: """
CREATE TABLE series (id TEXT PRIMARY KEY, model TEXT NOT NULL, static TEXT, origin REAL) STRICT;
CREATE TABLE observations (
    series TEXT NOT NULL REFERENCES series (id) ON DELETE CASCADE, number INTEGER NOT NULL, t REAL NOT NULL, y BLOB NOT NULL,
    PRIMARY KEY (series, number)
) STRICT, WITHOUT ROWID;
""",
    2: """
CREATE TABLE keys (
    series TEXT NOT NULL REFERENCES series (id) ON DELETE CASCADE, key TEXT NOT NULL, digest BLOB NOT NULL,
    count INTEGER NOT NULL, opening INTEGER NOT NULL, PRIMARY KEY (series, key)
) STRICT, WITHOUT ROWID;
CREATE TABLE seals (
    series TEXT PRIMARY KEY REFERENCES series (id) ON DELETE CASCADE, seal INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX openings ON keys (key) WHERE opening = 1;
CREATE TABLE totals (series INTEGER NOT NULL) STRICT;
""",
}


@dataclasses.dataclass(frozen=True)
class SeriesEntry:
    """A series as the client opened it."""

    id: str
    model: str
    static: list[float | str] | None
    origin: float | None


@dataclasses.dataclass(frozen=True)
class Retry:
    """A request that may be sent again: its key, its digest, and the number of observations in its response."""

    key: str
    digest: bytes
    count: int


class SeriesStore:
    """The SQLite file; used by one thread. Without a path it is in memory, and lost when the server stops."""

    def __init__(self, path: str | Path | None):
        self._disk_space = None if path is None else DiskSpace(Path(path))
        try:
            if self._disk_space is not None:
                self._disk_space.check_file()
            self._db = sqlite3.connect(":memory:" if path is None else path, isolation_level=None, check_same_thread=False)
        except (sqlite3.Error, StoreDamaged) as error:
            raise ValueError(f"{path} {UNUSABLE}: {error}. Name another file.") from None
        try:
            for pragma in (
                *("locking_mode = EXCLUSIVE", "journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"),
                *("temp_store = MEMORY", "secure_delete = OFF", f"wal_autocheckpoint = {LOG_PAGES}", "trusted_schema = OFF"),
            ):
                self._db.execute(f"PRAGMA {pragma}").fetchall()
            (version,) = self._db.execute("PRAGMA user_version").fetchone()
            if version > FORMAT:
                raise StoreDamaged("it was written by a newer odeprocess, which can read it")
            self._check_pages(version)
            if version < FORMAT:
                self._migrate(version)
            self._check_rows()
            (self._page_size,) = self._db.execute("PRAGMA page_size").fetchone()
        except (sqlite3.Error, StoreDamaged, UnicodeError) as error:
            self._db.close()
            why = " ".join(str(error).split())[:200]
            if isinstance(error, UnicodeError):  # SQLite's own messages quote what they have read
                why = "it is damaged: some of its text is not UTF-8"
            elif isinstance(error, sqlite3.OperationalError) and "locked" in why:
                why = "another server has it open"
            raise ValueError(f"{path} {UNUSABLE}: {why}. Name another file.") from None
        if self._disk_space is not None:
            self._disk_space.reserve()

    def close(self) -> None:
        """Closes the file."""
        self._db.close()

    @contextmanager
    def transaction(self, frees_space: bool = False) -> Iterator[None]:
        """Stores all changes inside on the disk, or none. With `frees_space`, the reserve of disk space is used."""
        if self._disk_space is not None:
            if frees_space:
                self._disk_space.release()
            self._db.execute(f"PRAGMA max_page_count = {self._disk_space.max_pages(self._page_size)}").fetchall()
        try:
            self._db.execute("BEGIN")
            yield
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise
        finally:
            if frees_space:
                self.tidy()

    def tidy(self) -> None:
        """Moves the log into the file as far as there is room, and makes the reserve again."""
        with suppress(sqlite3.Error):
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        if self._disk_space is not None:
            self._disk_space.reserve()

    def __contains__(self, name: str) -> bool:
        return self._db.execute("SELECT 1 FROM series WHERE id = ?", (name,)).fetchone() is not None

    def open(self, entry: SeriesEntry) -> None:
        """Adds a series."""
        static = None if entry.static is None else json.dumps(entry.static)
        row = (entry.id, entry.model, static, None if entry.origin is None else entry.origin + 0.0)
        self._db.execute("INSERT INTO series VALUES (?, ?, ?, ?)", row)
        self._db.execute("INSERT INTO seals VALUES (?, ?)", (entry.id, _row_checksum(row)))
        self._db.execute("UPDATE totals SET series = series + 1")

    def add(self, name: str, start: int, t: list[float], y: list[list[float | None]]) -> None:
        """Adds observations to a series that has `start` already, with the client's values."""
        blobs = (np.array(row, "<f8").tobytes() for row in y)
        rows = [(name, start + i, time + 0.0, blob) for i, (time, blob) in enumerate(zip(t, blobs, strict=True))]
        self._db.executemany("INSERT INTO observations VALUES (?, ?, ?, ?)", rows)
        self._add_to_checksum(name, rows)

    def add_retry(self, name: str, retry: Retry, opening: bool = False) -> None:
        """Stores the key of the request that opened a series, or added to it."""
        row = (name, retry.key, retry.digest, retry.count, int(opening))
        self._db.execute("INSERT INTO keys VALUES (?, ?, ?, ?, ?)", row)
        self._add_to_checksum(name, [row])

    def retry(self, name: str, key: str) -> Retry | None:
        """The stored request to a series with this key, or `None`."""
        row = self._db.execute("SELECT key, digest, count FROM keys WHERE series = ? AND key = ?", (name, key)).fetchone()
        return None if row is None else Retry(*row)

    def opened_with(self, key: str) -> str | None:
        """The series that a request with this key opened, or `None`."""
        row = self._db.execute("SELECT series FROM keys WHERE key = ? AND opening = 1", (key,)).fetchone()
        return None if row is None else row[0]

    def delete(self, name: str) -> None:
        """Deletes a series and its observations."""
        self._db.execute("DELETE FROM series WHERE id = ?", (name,))
        self._db.execute("UPDATE totals SET series = series - 1")

    def entries(self, name: str | None = None) -> list[SeriesEntry]:
        """All series, or the one of this name if there is one."""
        where, parameters = ("", ()) if name is None else ("WHERE id = ?", (name,))
        rows = self._db.execute(f"SELECT id, model, static, origin FROM series {where} ORDER BY id", parameters).fetchall()
        return [_parse_entry(*row) for row in rows]

    def observations(self, name: str) -> tuple[list[float], list[list[float | None]]]:
        """Times and values of a series, in the order in which they were added."""
        rows = self._rows(name)
        values = (np.frombuffer(blob, "<f8").tolist() for *_, blob in rows)
        return [t for _, _, t, _ in rows], [[None if v != v else v for v in row] for row in values]

    def _add_to_checksum(self, name: str, rows: list[tuple]) -> None:
        more = sum(map(_row_checksum, rows))
        self._db.execute("UPDATE seals SET seal = seal + ? WHERE series = ?", (more, name))

    def _rows(self, name: str) -> list[tuple]:
        """The rows of a series' observations; raises if they do not match the checksum."""
        rows = self._db.execute("SELECT * FROM observations WHERE series = ? ORDER BY number", (name,)).fetchall()
        others = self._db.execute("SELECT * FROM series WHERE id = ?", (name,)).fetchall()
        others += self._db.execute("SELECT * FROM keys WHERE series = ?", (name,)).fetchall()
        seal = self._db.execute("SELECT seal FROM seals WHERE series = ?", (name,)).fetchone()
        if seal is None or seal[0] != _checksum(rows) + _checksum(others) or any(row[1] != i for i, row in enumerate(rows)):
            raise StoreDamaged(f"it is damaged: series {name!r} is not as it was written")
        if any(len(blob) % 8 or not blob for *_, blob in rows):
            raise StoreDamaged(f"it is damaged: an observation of series {name!r} is not a list of numbers")
        return rows

    def _check_pages(self, version: int) -> None:
        """Raises unless SQLite finds no damage and the tables are those of the format."""
        (found,) = self._db.execute("PRAGMA integrity_check(1)").fetchone()
        if found != "ok":
            raise StoreDamaged(f"it is damaged: {' '.join(str(found).split())}")
        reference = sqlite3.connect(":memory:")
        reference.executescript("".join(text for number, text in TABLES.items() if number <= version))
        listing = "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY name"
        expected = reference.execute(listing).fetchall()
        reference.close()
        if self._db.execute(listing).fetchall() != expected:
            raise StoreDamaged("its tables are not those of a server's store")

    def _check_rows(self) -> None:
        """Raises unless every series matches its checksum, and all are there."""
        names = [entry.id for entry in self.entries()]
        for name in names:
            self._rows(name)
        for table in ("observations", "keys", "seals"):  # rows of series that do not exist
            left = self._db.execute(f"SELECT series FROM {table} WHERE series NOT IN (SELECT id FROM series) LIMIT 1").fetchone()
            if left is not None:
                raise StoreDamaged(f"it is damaged: it holds rows of a series {left[0]!r} that is not there")
        if self._db.execute("SELECT series FROM totals").fetchall() != [(len(names),)]:
            raise StoreDamaged("it is damaged: series are missing")

    def _migrate(self, version: int) -> None:
        """Converts an older file, or an empty one, to this format."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            for number in range(version + 1, FORMAT + 1):
                for statement in TABLES[number].split(";")[:-1]:
                    self._db.execute(statement)
            names = [name for (name,) in self._db.execute("SELECT id FROM series").fetchall()]
            for name in names:
                rows = self._db.execute("SELECT * FROM observations WHERE series = ?", (name,)).fetchall()
                rows += self._db.execute("SELECT * FROM series WHERE id = ?", (name,)).fetchall()
                self._db.execute("INSERT INTO seals VALUES (?, ?)", (name, _checksum(rows)))
            self._db.execute("INSERT INTO totals VALUES (?)", (len(names),))
            self._db.execute(f"PRAGMA user_version = {FORMAT}")
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise


def _parse_entry(name: str, model: str, static: str | None, origin: float | None) -> SeriesEntry:
    """The series of a row; raises if no server writes such a row, since a damaged row can have a valid checksum."""
    if not SERIES_ID.fullmatch(name):
        raise StoreDamaged(f"it is damaged: a series is called {name[:80]!r}")
    try:
        values = None if static is None else json.loads(static)
    except (ValueError, RecursionError):
        values = False
    if values is not None and not (isinstance(values, list) and all(type(value) in (int, float, str) for value in values)):
        raise StoreDamaged(f"it is damaged: the covariates of series {name!r} are not a list of numbers and names")
    return SeriesEntry(name, model, values, origin)


def _row_checksum(row: tuple[Any, ...]) -> int:
    """The checksum of a row: of its text, numbers and bytes, each with its length."""
    parts = (part if isinstance(part, bytes) else repr(part).encode("utf-8", "surrogatepass") for part in row)
    return zlib.crc32(b"".join(b"%d:%s" % (len(part), part) for part in parts))


def _checksum(rows: Iterable[tuple[Any, ...]]) -> int:
    return sum(map(_row_checksum, rows))
