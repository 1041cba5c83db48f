"""Room on the disk: what is kept back so that series can be deleted when it is full, and what a failed write is answered with."""

import contextlib
import os
import resource
import sqlite3
from pathlib import Path

from .errors import Refused

RESERVE = 1 << 20  # bytes; deleting a series writes much less, and so does moving the log into the file
LEAST = 512  # bytes of a page of SQLite; it takes a file that is shorter for a new one
READING = {sqlite3.SQLITE_IOERR_READ, sqlite3.SQLITE_IOERR_SHORT_READ}
FULL = "The disk of the server is full, so nothing was stored. Delete series or make room, and send it again."
UNREADABLE = "The store of the server is damaged, so this cannot be answered; its log says more."


class Damaged(Exception):
    """What the store holds is not what was written."""


def problem(error: BaseException) -> BaseException:
    """What a client is told of a failure of the store; other errors are themselves."""
    if isinstance(error, sqlite3.Error):
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)
        if code == sqlite3.SQLITE_FULL or (code & 0xFF == sqlite3.SQLITE_IOERR and code not in READING):
            return Refused(507, "full", FULL)
    if isinstance(error, (sqlite3.Error, Damaged)):
        return Refused(503, "damaged", UNREADABLE)
    return error


class Room:
    """The space around one file."""

    def __init__(self, path: Path):
        self._path, self._reserve = path, path.with_name(f"{path.name}-reserve")

    def check(self) -> None:
        """Raises if almost nothing is left of the file; whoever had only begun to make it kept nothing back."""
        size = self._path.stat().st_size if self._path.is_file() else LEAST
        if size < LEAST and (size > 0 or self._reserve.exists()):
            raise Damaged(f"it is damaged: {size} bytes are left of it")

    def keep(self) -> None:
        """Keeps some space back, if there is any."""
        with contextlib.suppress(OSError):
            if self._reserve.exists() and self._reserve.stat().st_size == RESERVE:
                return
            try:
                self._reserve.write_bytes(os.urandom(RESERVE))  # nothing that a file system could make smaller
            except OSError:
                self._reserve.unlink()

    def give(self) -> None:
        """Gives the space that was kept back."""
        self._reserve.unlink(missing_ok=True)

    def pages(self, size: int) -> int:
        """How many pages the file may have, so that what is written to its log can be moved into it."""
        space = os.statvfs(self._path.parent)
        most = self._path.stat().st_size + space.f_bavail * space.f_frsize // 2
        allowed, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
        return max(1, min(most if allowed == resource.RLIM_INFINITY else min(most, allowed), size << 31) // size)
