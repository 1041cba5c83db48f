"""Checkpoints: the state of a training run on disk, from which a run that was killed is resumed.

A checkpoint is one record: arrays, and a card that describes the run to which they belong. It is written to a temporary file and
moved into place in one step, and the previous one is kept. So a kill or a full disk always leaves a valid one, and a damaged one
is detected and skipped. A folder is locked by one run at a time.
"""

import contextlib
import dataclasses
import hashlib
import json
import os
import re
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from odeprocess.common import checks
from odeprocess.common.dataclass_json import read_fields
from odeprocess.common.storage import locked, read_record, remove_unfinished, write_record
from odeprocess.data.series import Series
from odeprocess.data.tasks import TaskSampler
from odeprocess.process import Spec
from odeprocess.version import __version__

from .options import FitOptions

FORMAT = 2  # 2: one checksum of card and arrays
KEPT = 2  # checkpoints in a folder: the newest, and the previous one in case the newest is damaged
NAME = re.compile(r"checkpoint-(\d{7,})\.safetensors")
OLDER_NAME = re.compile(r"checkpoint-\d+-[0-9a-f]{16}\.safetensors")  # of format 1
T = TypeVar("T")
FIELDS = {"format": int, "done": int, "finished": bool, "run": dict[str, Any], "machine": dict[str, Any]}


def description(
    spec: Spec, sampler: TaskSampler, options: FitOptions, seeds: np.ndarray, series: Series, validation: Series | None
) -> dict[str, Any]:
    """Everything on which the result of a run depends, as plain data; scaled series by their checksum."""
    run = {
        "series": fingerprint(series),
        "validation": None if validation is None else fingerprint(validation),
        "seeds": seeds.tolist(),
        "spec": spec.to_json(),
        "sampler": dataclasses.asdict(sampler),
        "options": dataclasses.asdict(options),
        "precision": str(jnp.result_type(float)),
    }
    return json.loads(json.dumps(run))


def fingerprint(series: Series) -> str:
    """A checksum of all arrays of a batch of series."""
    digest = hashlib.sha256()
    for array in map(np.asarray, (series.t, series.y, series.mask, series.static)):
        digest.update(f"{array.shape} {array.dtype} ".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


@dataclasses.dataclass
class Checkpoints:
    """The checkpoints of one run, in a folder.

    Attributes:
        folder: where they are; it is made if it does not exist. Other files in it are left alone.
        run: the run, from `description`.
        every: the least number of seconds between two checkpoints.
    """

    folder: Path
    run: dict[str, Any]
    every: float

    def __post_init__(self):
        checks.require(
            not self.folder.exists() or self.folder.is_dir(),
            f"`checkpoint` is {self.folder}, which is a file; expected a folder.",
        )
        self._last = time.monotonic()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Locks the folder against other runs, and removes it in the end if it is empty.

        Raises:
            ValueError: where another run has locked it.
        """
        try:
            with _lock(self.folder):
                yield
        finally:
            with contextlib.suppress(OSError):
                self.folder.rmdir()

    def restored(self, rebuild: Callable[[dict[str, np.ndarray]], T], *, otherwise: T, resume: bool) -> T:
        """The state that `rebuild` makes of the newest valid checkpoint, or `otherwise` where there is none or `resume` is false.

        Raises:
            ValueError: where there is an unfinished run and `resume` is false, the run is another one, or every checkpoint is
                damaged.
        """
        older = [path.name for path in self.folder.glob("checkpoint-*") if OLDER_NAME.fullmatch(path.name)]
        checks.require(
            not older,
            f"{self.folder} holds checkpoints of an older odeprocess, such as {''.join(older[:1])}. Go on with that version; to "
            "begin anew remove the folder, or name another one.",
        )
        files = _files(self.folder)
        path, card, arrays, damaged = _newest_valid(files)
        if not resume:
            checks.require(
                path is None or card["finished"],
                f"{self.folder} holds a run that was stopped after {card.get('done')} epoch(s). Go on with resume=True; to begin "
                "anew remove the folder, or name another one.",
            )
            _remove(self.folder)
            return otherwise
        if path is None:
            checks.require(
                not files,
                f"Every checkpoint in {self.folder} is damaged. Remove the folder to begin anew, or fetch a sound copy.",
            )
            return otherwise
        self._check_run(card)
        for broken, why in damaged.items():
            warnings.warn(f"{why} It is left out.", stacklevel=3)
            broken.unlink(missing_ok=True)
        try:
            return rebuild(arrays)
        except ValueError as error:
            raise ValueError(f"{path} does not fit this run: {error} Remove the folder to begin anew.") from None

    def remove(self) -> None:
        """Removes all checkpoints, for a run that would break down again if it were resumed."""
        _remove(self.folder)

    def save(self, done: int, arrays: Callable[[], dict[str, np.ndarray]], *, finished: bool) -> None:
        """Saves what `arrays` gives, if the last checkpoint is old enough or the run is `finished`; `done` counts epochs.

        An error of the disk is a warning, since training can go on without its checkpoint.
        """
        if not finished and time.monotonic() - self._last < self.every:
            return
        card = {"format": FORMAT, "done": done, "finished": finished, "run": self.run, "machine": machine()}
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_record(self.folder / _name(done), card, arrays())
            for old in _files(self.folder)[KEPT:]:
                old.unlink(missing_ok=True)
            remove_unfinished(self.folder, "checkpoint-*")
        except OSError as error:
            warnings.warn(
                f"The checkpoint after epoch {done} could not be written: {error}. The previous one is kept; training goes on.",
                stacklevel=3,
            )
        self._last = time.monotonic()

    def _check_run(self, card: dict[str, Any]) -> None:
        differ = list(_differences(card["run"], self.run))
        checks.require(
            not differ,
            f"{self.folder} holds a checkpoint of another run: {'; '.join(differ[:5])}{'; …' if len(differ) > 5 else ''}. Resume "
            "with what that run was given. To begin anew remove the folder, or name another one.",
        )
        differ = list(_differences(card["machine"], machine()))
        if differ:
            warnings.warn(
                f"{self.folder} was written on another machine or with other versions: {'; '.join(differ)}. Training goes on "
                "from it, but may not end with the same weights to the last bit.",
                stacklevel=4,
            )


def discard(folder: str | Path) -> None:
    """Removes all checkpoints from a folder and its subfolders, and each of these folders that is then empty.

    Raises:
        ValueError: where a run has locked one of them.
    """
    folder = Path(folder)
    if folder.is_dir():
        for inner in folder.iterdir():
            if inner.is_dir() and not inner.is_symlink():
                discard(inner)
        with _lock(folder):
            _remove(folder)
        with contextlib.suppress(OSError):  # a folder with other files stays
            folder.rmdir()


def machine() -> dict[str, Any]:
    """Versions and hardware, on which the last bits of weights may depend."""
    threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {"odeprocess": __version__, "jax": jax.__version__, "device": jax.devices()[0].device_kind, "threads": threads}


class _Damaged(ValueError):
    """A checkpoint that differs from what was written."""


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(locked(folder, wait=0.0))
        except TimeoutError:
            raise ValueError(
                f"Another run is training into {folder}. Wait until it ends, or name another folder with `checkpoint`."
            ) from None
        yield


def _remove(folder: Path) -> None:
    """Removes all checkpoints; the caller has locked the folder."""
    for path in folder.glob("checkpoint-*"):
        if NAME.fullmatch(path.name) or OLDER_NAME.fullmatch(path.name):
            path.unlink(missing_ok=True)
    remove_unfinished(folder, "checkpoint-*")


def _files(folder: Path) -> list[Path]:
    """The checkpoints in a folder, the newest first."""
    found = [path for path in folder.glob("checkpoint-*") if NAME.fullmatch(path.name)]
    return sorted(found, key=lambda path: int(NAME.fullmatch(path.name)[1]), reverse=True)  # type: ignore[index]


def _newest_valid(files: list[Path]) -> tuple[Path | None, dict[str, Any], dict[str, np.ndarray], dict[Path, str]]:
    """The first of these files that is not damaged, its card and arrays, and for each file before it why it is damaged."""
    damaged: dict[Path, str] = {}
    for path in files:
        try:
            return path, *_read(path), damaged
        except _Damaged as error:
            damaged[path] = str(error)
    return None, {}, {}, damaged


def _read(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The card and the arrays of a checkpoint.

    Raises:
        _Damaged: where the file differs from what was written.
        ValueError: where a newer version of this library wrote it.
    """
    try:
        card, arrays = read_record(path, "`fit`")
    except (ValueError, OSError) as error:
        raise _Damaged(str(error)) from None
    made = card.get("format")
    if type(made) is int and made > FORMAT:
        raise ValueError(
            f"{path} was written by an odeprocess newer than this one ({__version__}). Go on with that, or remove the folder to "
            "begin anew."
        )
    try:
        read_fields(FIELDS, card, "card", needed=tuple(FIELDS))
        checks.require(made == FORMAT, f"`card.format` is {made}; expected {FORMAT}.")
        checks.require(path.name == _name(card["done"]), f"`card.done` is {card['done']}, which differs from its name.")
    except ValueError as error:
        raise _Damaged(f"{path} is damaged: {error}") from None
    return card, arrays


def _name(done: int) -> str:
    return f"checkpoint-{done:07d}.safetensors"


def _differences(there: Any, here: Any, name: str = "") -> Iterator[str]:
    """What differs between two descriptions, one sentence for each field."""
    if isinstance(there, dict) and isinstance(here, dict):
        for key in {**there, **here}:
            yield from _differences(there.get(key), here.get(key), f"{name}.{key}" if name else key)
    elif there != here:
        data = name in ("series", "validation") and there and here
        yield (
            f"`{name}` holds other data, or scaled otherwise" if data else f"`{name}` is {_short(here)}, and was {_short(there)}"
        )


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:39]}…"
