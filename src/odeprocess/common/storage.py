"""Storage: atomic writes, locks, and records with checksums.

All files of the library (models, streams, checkpoints, tables, results) are written here. A record is one safetensors file:
arrays, and in its header a card (plain data) and a checksum of both. Pickle is never used.
"""

import errno
import hashlib
import json
import os
import re
import secrets
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from . import checks

MOST_CARD = 256 * 2**20  # bytes of a card; enough for the ids of ten million series
DEEPEST = 100  # levels of nesting in a card; chosen by hand, far above what the library writes
LOCK = ".lock"  # name of the file by which a folder is locked
UNFINISHED = ".part"  # in the names of temporary files
# NumPy's names of types and those of safetensors; records hold no others.
TYPES = {"bool": "BOOL", "int32": "I32", "int64": "I64", "uint32": "U32", "float32": "F32", "float64": "F64"}


def read_file(path: Path, most: int | None = None, *, first: int | None = None) -> bytes:
    """The content of a regular file of at most `most` bytes, or its `first` bytes.

    Raises:
        ValueError: where it is a folder, a pipe or a device, or too large.
    """
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))  # opening a pipe without a writer would block
    try:
        status = os.fstat(descriptor)
        ordinary = stat.S_ISREG(status.st_mode)
        checks.require(ordinary, f"{path} is not an ordinary file. Put back the file that was written there.")
        if most is not None and status.st_size > most:
            raise ValueError(
                f"{path} has {status.st_size:,} bytes; expected {most:,} at most. It is damaged, or not odeprocess's."
            )
        with open(descriptor, "rb", closefd=False) as file:
            return file.read() if first is None else file.read(first)
    except MemoryError:
        raise ValueError(f"{path} does not fit into memory.") from None
    finally:
        os.close(descriptor)


def replace_file(path: Path, content: bytes) -> None:
    """Writes `content` to `path` atomically: to a temporary file, then to the disk, then into place."""
    with replacing(path) as temporary:
        temporary.write_bytes(content)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yields a temporary path beside `path`; at the end its file is synchronised and moved to `path`, after an error removed."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}{UNFINISHED}{path.suffix}")
    try:
        yield temporary
        _synchronise(temporary)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _synchronise(path.parent)


def remove_unfinished(folder: Path, pattern: str) -> None:
    """Removes temporary files that killed writers of `pattern` left behind; the caller has locked `folder`."""
    for path in folder.glob(f".{pattern}.*{UNFINISHED}*"):
        path.unlink(missing_ok=True)


@contextmanager
def locked(folder: Path, *, wait: float = 60.0, busy: str = "") -> Iterator[None]:
    """Locks a folder, which is made if it does not exist, against other processes and threads.

    The lock is the kernel's: it ends with the process that has it, even if that is killed.

    Arguments:
        folder: what is locked.
        wait: seconds to wait for another process.
        busy: advice for the error message.

    Raises:
        TimeoutError: where another process has locked the folder for longer.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(folder / LOCK, timeout=wait, poll_interval=0.01)
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):  # another process has just removed the folder
            try:
                lock.acquire()
                break
            except Timeout:
                raise TimeoutError(f"Another process is writing to {folder}. {busy or 'Try again when it is done.'}") from None
    try:
        yield
    finally:
        with suppress(OSError):  # a process that waits for this file sees that its name is gone, and tries again
            (folder / LOCK).unlink()
        lock.release()


def parse_card(text: bytes, path: Path) -> Any:
    """The plain data in a JSON text that all JSON parsers read alike.

    Raises:
        ValueError: where it is not JSON, is nested too deeply, has a field twice, or holds NaN, half a surrogate pair or a number
            beyond float64.
    """
    try:
        card = json.loads(
            text.decode(), object_pairs_hook=_refuse_duplicates, parse_constant=_refuse_constant, parse_float=_parse_finite
        )
        _check_depth(card)
        json.dumps(card, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        why = f": {error}" if isinstance(error, _Invalid) else ""
        raise ValueError(f"{path} is damaged: its card is not valid JSON{why}. Write it again, or fetch a sound copy.") from None
    return card


def write_record(path: Path, card: dict[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
    """Writes a record atomically."""
    replace_file(path, record_bytes(card, arrays))


def record_bytes(card: dict[str, Any], arrays: Mapping[str, np.ndarray]) -> bytes:
    """A record as bytes."""
    from safetensors.numpy import save

    text = json.dumps(card, allow_nan=False)
    return save(dict(arrays), {"card": text, "sha256": digest(text, arrays)})


def read_record(path: Path, program: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The card and the arrays of a record that `program` wrote.

    Raises:
        ValueError: where the file is damaged in any way, or is no record of that program.
    """
    from safetensors import SafetensorError, deserialize

    again = f"{path} is damaged, or {program} did not write it"
    try:
        header, length = _read_header(path)
        text, expected = (str(header["__metadata__"][name]) for name in ("card", "sha256"))
        parts = {str(name): _read_array(part) for name, part in deserialize(read_file(path, length))}
    except (SafetensorError, KeyError, TypeError, RecursionError, MemoryError, _Invalid):
        raise ValueError(f"{again}. Write it again, or fetch a sound copy.") from None
    checks.require(
        digest(text, parts) == expected,
        f"{again}: its checksum is wrong. Write it again, or fetch a sound copy.",
    )
    card = parse_card(text.encode(errors="surrogatepass"), path)
    checks.require(isinstance(card, dict), f"{again}: its card is a {type(card).__name__}. Write it again.")
    return card, parts


def _read_header(path: Path) -> tuple[dict[str, Any], int]:
    """The header of a safetensors file, and the size of the whole file according to it; reads no more than the header."""
    start = read_file(path, first=8)
    size = int.from_bytes(start, "little")
    if len(start) < 8 or size > MOST_CARD:
        raise _Invalid("its header is too long, or missing")
    text = read_file(path, first=8 + size)[8:]
    try:
        header = json.loads(text)
        ends = [part["data_offsets"][1] for name, part in header.items() if name != "__metadata__"]
        return header, 8 + size + max(ends, default=0)
    except (ValueError, AttributeError, IndexError):
        raise _Invalid("its header is not JSON") from None


def digest(card: str, arrays: Mapping[str, np.ndarray]) -> str:
    """The SHA-256 of a card and of arrays: their names, types, shapes and bytes."""
    found = hashlib.sha256(card.encode(errors="surrogatepass"))
    for name, array in sorted(arrays.items()):
        found.update(json.dumps([name, str(array.dtype), array.shape]).encode())
        found.update(np.ascontiguousarray(array).data if array.size else b"")
    return found.hexdigest()


def _read_array(part: dict[str, Any]) -> np.ndarray:
    kind = next((kind for kind, name in TYPES.items() if name == part["dtype"]), None)
    if kind is None:
        raise _Invalid(f"it holds an array of {part['dtype']}")
    return np.frombuffer(part["data"], kind).reshape(part["shape"])


def version_of(card: Mapping[str, Any]) -> str:
    """The version in a card, for messages; checked, since the file may come from anywhere."""
    found = card.get("version")
    return found if isinstance(found, str) and re.fullmatch(r"[\w.+-]{1,30}", found) else "(of no known version)"


class _Invalid(ValueError):
    """A file or card that is not valid."""


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise _Invalid(f"it has the field {name[:40]!r} twice")
        found[name] = value
    return found


def _refuse_constant(text: str) -> Any:
    raise _Invalid(f"it holds {text}")


def _parse_finite(text: str) -> float:
    value = float(text)
    if not np.isfinite(value):
        raise _Invalid(f"it holds {text[:40]}, which is too large")
    return value


def _check_depth(card: Any) -> None:
    level, depth = [card], 0
    while level:
        depth += 1
        if depth > DEEPEST:
            raise _Invalid(f"it is nested more than {DEEPEST} levels deep")
        inner = [list(x.values()) if isinstance(x, dict) else x for x in level if isinstance(x, (dict, list))]
        level = [x for part in inner for x in part if isinstance(x, (dict, list))]


def _synchronise(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some file systems do not support it for folders
            raise
    finally:
        os.close(descriptor)
