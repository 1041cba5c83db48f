"""Disk space for the store: a reserve that lets series be deleted on a full disk, and the error responses for failed writes."""

import contextlib
import os
import resource
import sqlite3
from pathlib import Path

from .errors import ApiError

RESERVE_BYTES = 1 << 20  # deleting a series, and moving SQLite's log into the file, write much less
MIN_FILE_BYTES = 512  # the smallest page of SQLite, which takes a shorter file for a new one
READ_ERRORS = {sqlite3.SQLITE_IOERR_READ, sqlite3.SQLITE_IOERR_SHORT_READ}
FULL_MESSAGE = "The disk of the server is full, so nothing was stored. Delete series or make room, and send it again."
DAMAGED_MESSAGE = "The store of the server is damaged, so this cannot be answered; its log says more."


class StoreDamaged(Exception):
    """The store holds other data than was written."""


def to_api_error(error: BaseException) -> BaseException:
    """Turns a failure of the store into the error that clients receive, and returns other errors unchanged."""
    if isinstance(error, sqlite3.Error):
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)
        if code == sqlite3.SQLITE_FULL or (code & 0xFF == sqlite3.SQLITE_IOERR and code not in READ_ERRORS):
            return ApiError(507, "full", FULL_MESSAGE)
    if isinstance(error, (sqlite3.Error, StoreDamaged)):
        return ApiError(503, "damaged", DAMAGED_MESSAGE)
    return error


class DiskSpace:
    """The disk space for one file, with a reserve in a second file beside it."""

    def __init__(self, path: Path):
        self._path, self._reserve = path, path.with_name(f"{path.name}-reserve")

    def check_file(self) -> None:
        """Raises if almost nothing is left of the file; an empty file without a reserve is a new one."""
        size = self._path.stat().st_size if self._path.is_file() else MIN_FILE_BYTES
        if size < MIN_FILE_BYTES and (size > 0 or self._reserve.exists()):
            raise StoreDamaged(f"it is damaged: {size} bytes are left of it")

    def reserve(self) -> None:
        """Writes the reserve if it is missing and there is room."""
        with contextlib.suppress(OSError):
            if self._reserve.exists() and self._reserve.stat().st_size == RESERVE_BYTES:
                return
            try:
                self._reserve.write_bytes(os.urandom(RESERVE_BYTES))  # random bytes, which no file system compresses
            except OSError:
                self._reserve.unlink()

    def release(self) -> None:
        """Deletes the reserve."""
        self._reserve.unlink(missing_ok=True)

    def max_pages(self, page_size: int) -> int:
        """How many pages the file may have, such that its log can still be moved into it."""
        space = os.statvfs(self._path.parent)
        most = self._path.stat().st_size + space.f_bavail * space.f_frsize // 2
        file_limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
        return max(1, min(most if file_limit == resource.RLIM_INFINITY else min(most, file_limit), page_size << 31) // page_size)
