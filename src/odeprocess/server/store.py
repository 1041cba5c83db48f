"""The store: series and their observations in an SQLite file, so that they outlive the server.

What was committed is on the disk: neither a kill nor a power cut takes it back.
"""

import dataclasses
import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

FORMAT = 1
UNUSABLE = "cannot be used for the state of the server"
TABLES = """
CREATE TABLE IF NOT EXISTS series (id TEXT PRIMARY KEY, model TEXT NOT NULL, static TEXT, origin REAL) STRICT;
CREATE TABLE IF NOT EXISTS observations (
    series TEXT NOT NULL REFERENCES series (id) ON DELETE CASCADE, number INTEGER NOT NULL, t REAL NOT NULL, y BLOB NOT NULL,
    PRIMARY KEY (series, number)
) STRICT, WITHOUT ROWID;
"""


@dataclasses.dataclass(frozen=True)
class Entry:
    """What is known of a series from the beginning, as it was said."""

    id: str
    model: str
    static: list[float | str] | None
    origin: float | None


class Store:
    """The file; used by one thread. Without a path everything stays in memory, and ends with the server."""

    def __init__(self, path: str | Path | None):
        try:
            self._db = sqlite3.connect(":memory:" if path is None else path, isolation_level=None, check_same_thread=False)
        except sqlite3.Error as error:
            raise ValueError(f"{path} {UNUSABLE}: {error}. Name another file.") from None
        try:
            for pragma in ("locking_mode = EXCLUSIVE", "journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
                self._db.execute(f"PRAGMA {pragma}")
            (made,) = self._db.execute("PRAGMA user_version").fetchone()
            if made > FORMAT:
                raise ValueError(f"{path} was written by a newer odeprocess. Install that, or name another file.")
            self._db.executescript(f"BEGIN IMMEDIATE; {TABLES} PRAGMA user_version = {FORMAT}; COMMIT;")
        except BaseException as error:
            self._db.close()
            if not isinstance(error, sqlite3.Error):
                raise
            why = "another server has it open" if "locked" in str(error) else str(error)
            raise ValueError(f"{path} {UNUSABLE}: {why}. Name another file.") from None

    def close(self) -> None:
        """Closes the file."""
        self._db.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Everything inside is on the disk at the end, or nothing of it is."""
        self._db.execute("BEGIN")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    def __contains__(self, name: str) -> bool:
        return self._db.execute("SELECT 1 FROM series WHERE id = ?", (name,)).fetchone() is not None

    def open(self, entry: Entry) -> None:
        """Adds a series."""
        static = None if entry.static is None else json.dumps(entry.static)
        self._db.execute("INSERT INTO series VALUES (?, ?, ?, ?)", (entry.id, entry.model, static, entry.origin))

    def add(self, name: str, start: int, t: list[float], y: list[list[float | None]]) -> None:
        """Adds observations of a series that has `start` already, with values as they came."""
        blobs = (np.array(row, "<f8").tobytes() for row in y)
        rows = ((name, start + i, time, blob) for i, (time, blob) in enumerate(zip(t, blobs, strict=True)))
        self._db.executemany("INSERT INTO observations VALUES (?, ?, ?, ?)", rows)

    def delete(self, name: str) -> None:
        """Removes a series and its observations."""
        self._db.execute("DELETE FROM series WHERE id = ?", (name,))

    def entries(self) -> list[Entry]:
        """All series."""
        rows = self._db.execute("SELECT id, model, static, origin FROM series ORDER BY id").fetchall()
        return [Entry(name, model, static and json.loads(static), origin) for name, model, static, origin in rows]

    def observations(self, name: str) -> tuple[list[float], list[list[float | None]]]:
        """Times and values of a series, in the order in which they came."""
        rows = self._db.execute("SELECT t, y FROM observations WHERE series = ? ORDER BY number", (name,)).fetchall()
        values = (np.frombuffer(blob, "<f8").tolist() for _, blob in rows)
        return [t for t, _ in rows], [[None if v != v else v for v in row] for row in values]
