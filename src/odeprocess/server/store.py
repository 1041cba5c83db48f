"""The store: series and their observations in an SQLite file, so that they outlive the server.

What was committed is on the disk: neither a kill nor a power cut takes it back. Every series has a seal, the sum of the
checksums of all its rows, so that what is read is what was written, or an error.
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

from .room import Damaged, Room

FORMAT = 2
UNUSABLE = "cannot be used for the state of the server"
NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")  # as `schemas` has it
LOG = 256  # pages of SQLite's log that are moved into the file together
TABLES = {  # by the format that they came with
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
class Entry:
    """What is known of a series from the beginning, as it was said."""

    id: str
    model: str
    static: list[float | str] | None
    origin: float | None


@dataclasses.dataclass(frozen=True)
class Retry:
    """A request that may come again: its key, a digest of it, and the number of observations that it was answered with."""

    key: str
    digest: bytes
    count: int


class Store:
    """The file; used by one thread. Without a path everything stays in memory, and ends with the server."""

    def __init__(self, path: str | Path | None):
        self._room = None if path is None else Room(Path(path))
        try:
            if self._room is not None:
                self._room.check()
            self._db = sqlite3.connect(":memory:" if path is None else path, isolation_level=None, check_same_thread=False)
        except (sqlite3.Error, Damaged) as error:
            raise ValueError(f"{path} {UNUSABLE}: {error}. Name another file.") from None
        try:
            for pragma in (
                *("locking_mode = EXCLUSIVE", "journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"),
                *("temp_store = MEMORY", "secure_delete = OFF", f"wal_autocheckpoint = {LOG}", "trusted_schema = OFF"),
            ):
                self._db.execute(f"PRAGMA {pragma}").fetchall()
            (made,) = self._db.execute("PRAGMA user_version").fetchone()
            if made > FORMAT:
                raise Damaged("it was written by a newer odeprocess, which can read it")
            self._check_pages(made)
            if made < FORMAT:
                self._migrate(made)
            self._check_rows()
            (self._page,) = self._db.execute("PRAGMA page_size").fetchone()
        except (sqlite3.Error, Damaged, UnicodeError) as error:
            self._db.close()
            why = " ".join(str(error).split())[:200]
            if isinstance(error, UnicodeError):  # SQLite's own messages quote what they have read
                why = "it is damaged: it holds text that is none"
            elif isinstance(error, sqlite3.OperationalError) and "locked" in why:
                why = "another server has it open"
            raise ValueError(f"{path} {UNUSABLE}: {why}. Name another file.") from None
        if self._room is not None:
            self._room.keep()

    def close(self) -> None:
        """Closes the file."""
        self._db.close()

    @contextmanager
    def transaction(self, frees: bool = False) -> Iterator[None]:
        """Everything inside is on the disk at the end, or nothing is. If it `frees` space, what was kept back is given."""
        if self._room is not None:
            if frees:
                self._room.give()
            self._db.execute(f"PRAGMA max_page_count = {self._room.pages(self._page)}").fetchall()
        try:
            self._db.execute("BEGIN")
            yield
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise
        finally:
            if frees:
                self.tidy()

    def tidy(self) -> None:
        """Moves the log into the file as far as there is room, and keeps space back again."""
        with suppress(sqlite3.Error):
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        if self._room is not None:
            self._room.keep()

    def __contains__(self, name: str) -> bool:
        return self._db.execute("SELECT 1 FROM series WHERE id = ?", (name,)).fetchone() is not None

    def open(self, entry: Entry) -> None:
        """Adds a series."""
        static = None if entry.static is None else json.dumps(entry.static)
        row = (entry.id, entry.model, static, None if entry.origin is None else entry.origin + 0.0)
        self._db.execute("INSERT INTO series VALUES (?, ?, ?, ?)", row)
        self._db.execute("INSERT INTO seals VALUES (?, ?)", (entry.id, _checksum(row)))
        self._db.execute("UPDATE totals SET series = series + 1")

    def add(self, name: str, start: int, t: list[float], y: list[list[float | None]]) -> None:
        """Adds observations of a series that has `start` already, with values as they came."""
        blobs = (np.array(row, "<f8").tobytes() for row in y)
        rows = [(name, start + i, time + 0.0, blob) for i, (time, blob) in enumerate(zip(t, blobs, strict=True))]
        self._db.executemany("INSERT INTO observations VALUES (?, ?, ?, ?)", rows)
        self._seal(name, rows)

    def remember(self, name: str, retry: Retry, opening: bool = False) -> None:
        """Keeps the key of the request that has just opened a series, or added to it."""
        row = (name, retry.key, retry.digest, retry.count, int(opening))
        self._db.execute("INSERT INTO keys VALUES (?, ?, ?, ?, ?)", row)
        self._seal(name, [row])

    def retry(self, name: str, key: str) -> Retry | None:
        """What is remembered of a request to a series."""
        row = self._db.execute("SELECT key, digest, count FROM keys WHERE series = ? AND key = ?", (name, key)).fetchone()
        return None if row is None else Retry(*row)

    def opened(self, key: str) -> str | None:
        """The series that a request with this key has opened."""
        row = self._db.execute("SELECT series FROM keys WHERE key = ? AND opening = 1", (key,)).fetchone()
        return None if row is None else row[0]

    def delete(self, name: str) -> None:
        """Removes a series and its observations."""
        self._db.execute("DELETE FROM series WHERE id = ?", (name,))
        self._db.execute("UPDATE totals SET series = series - 1")

    def entries(self, name: str | None = None) -> list[Entry]:
        """All series, or one if it is there."""
        where, of = ("", ()) if name is None else ("WHERE id = ?", (name,))
        rows = self._db.execute(f"SELECT id, model, static, origin FROM series {where} ORDER BY id", of).fetchall()
        return [_entry(*row) for row in rows]

    def observations(self, name: str) -> tuple[list[float], list[list[float | None]]]:
        """Times and values of a series, in the order in which they came."""
        rows = self._rows(name)
        values = (np.frombuffer(blob, "<f8").tolist() for *_, blob in rows)
        return [t for _, _, t, _ in rows], [[None if v != v else v for v in row] for row in values]

    def _seal(self, name: str, rows: list[tuple]) -> None:
        more = sum(map(_checksum, rows))
        self._db.execute("UPDATE seals SET seal = seal + ? WHERE series = ?", (more, name))

    def _rows(self, name: str) -> list[tuple]:
        """The rows of a series' observations, if they are what was written."""
        rows = self._db.execute("SELECT * FROM observations WHERE series = ? ORDER BY number", (name,)).fetchall()
        others = self._db.execute("SELECT * FROM series WHERE id = ?", (name,)).fetchall()
        others += self._db.execute("SELECT * FROM keys WHERE series = ?", (name,)).fetchall()
        seal = self._db.execute("SELECT seal FROM seals WHERE series = ?", (name,)).fetchone()
        if seal is None or seal[0] != _sum(rows) + _sum(others) or any(row[1] != i for i, row in enumerate(rows)):
            raise Damaged(f"it is damaged: series {name!r} is not as it was written")
        if any(len(blob) % 8 or not blob for *_, blob in rows):
            raise Damaged(f"it is damaged: an observation of series {name!r} is no list of numbers")
        return rows

    def _check_pages(self, made: int) -> None:
        """Raises unless SQLite finds its pages sound and the tables are those of the format."""
        (found,) = self._db.execute("PRAGMA integrity_check(1)").fetchone()
        if found != "ok":
            raise Damaged(f"it is damaged: {' '.join(str(found).split())}")
        plain = sqlite3.connect(":memory:")
        plain.executescript("".join(text for number, text in TABLES.items() if number <= made))
        listing = "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY name"
        expected = plain.execute(listing).fetchall()
        plain.close()
        if self._db.execute(listing).fetchall() != expected:
            raise Damaged("its tables are not those of a server's store")

    def _check_rows(self) -> None:
        """Raises unless every series is what was written."""
        names = [entry.id for entry in self.entries()]
        for name in names:
            self._rows(name)
        for table in ("observations", "keys", "seals"):  # of series that are not there
            left = self._db.execute(f"SELECT series FROM {table} WHERE series NOT IN (SELECT id FROM series) LIMIT 1").fetchone()
            if left is not None:
                raise Damaged(f"it is damaged: it holds rows of a series {left[0]!r} that is not there")
        if self._db.execute("SELECT series FROM totals").fetchall() != [(len(names),)]:
            raise Damaged("it is damaged: series are missing")

    def _migrate(self, made: int) -> None:
        """Brings an older file, or an empty one, to this format."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            for number in range(made + 1, FORMAT + 1):
                for statement in TABLES[number].split(";")[:-1]:
                    self._db.execute(statement)
            names = [name for (name,) in self._db.execute("SELECT id FROM series").fetchall()]
            for name in names:
                rows = self._db.execute("SELECT * FROM observations WHERE series = ?", (name,)).fetchall()
                rows += self._db.execute("SELECT * FROM series WHERE id = ?", (name,)).fetchall()
                self._db.execute("INSERT INTO seals VALUES (?, ?)", (name, _sum(rows)))
            self._db.execute("INSERT INTO totals VALUES (?)", (len(names),))
            self._db.execute(f"PRAGMA user_version = {FORMAT}")
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise


def _entry(name: str, model: str, static: str | None, origin: float | None) -> Entry:
    """A series, if that is what the row can be: whoever writes a file can seal it, too."""
    if not NAME.fullmatch(name):
        raise Damaged(f"it is damaged: a series is called {name[:80]!r}")
    try:
        found = None if static is None else json.loads(static)
    except (ValueError, RecursionError):
        found = False
    if found is not None and not (isinstance(found, list) and all(type(value) in (int, float, str) for value in found)):
        raise Damaged(f"it is damaged: the covariates of series {name!r} are no list of numbers and names")
    return Entry(name, model, found, origin)


def _checksum(row: tuple[Any, ...]) -> int:
    """Of a row: text, numbers and bytes, each with its length."""
    parts = (part if isinstance(part, bytes) else repr(part).encode("utf-8", "surrogatepass") for part in row)
    return zlib.crc32(b"".join(b"%d:%s" % (len(part), part) for part in parts))


def _sum(rows: Iterable[tuple[Any, ...]]) -> int:
    return sum(map(_checksum, rows))
