"""Checkpoints: how far a training run has come, on disk, so that a kill costs seconds and not the run.

A checkpoint is one safetensors file: arrays, and in its header the run that they belong to. It is written beside its
place and moved there in one step, its name holds its own checksum, and the one before it stays. So a kill or a full
disk always leaves a sound one, and a damaged one is noticed and passed over. No pickle.
"""

import dataclasses
import hashlib
import json
import os
import re
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from safetensors import safe_open
from safetensors.numpy import save as as_safetensors

from . import checks
from .folders import replace_file
from .optimise import FitOptions
from .process import Spec
from .series import Series
from .tasks import TaskSampler
from .version import __version__

FORMAT = 1
KEPT = 2  # the newest, and the one before it in case the newest is damaged
NAME = re.compile(r"checkpoint-(\d+)-([0-9a-f]{16})\.safetensors")


def description(
    spec: Spec, sampler: TaskSampler, options: FitOptions, seeds: np.ndarray, series: Series, validation: Series | None
) -> dict[str, Any]:
    """Everything that decides about a run's outcome, as plain data; the series as the model sees them, by their checksum."""
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
    """A checksum of all arrays of some series."""
    digest = hashlib.sha256()
    for array in map(np.asarray, (series.t, series.y, series.mask, series.static)):
        digest.update(f"{array.shape} {array.dtype} ".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


@dataclasses.dataclass
class Checkpoints:
    """The checkpoints of one run, in a folder.

    Attributes:
        folder: where they are; made if it is not there. Other files in it are left alone.
        run: what the run is, from `description`.
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

    def begin(self, *, resume: bool) -> dict[str, np.ndarray] | None:
        """The arrays to go on from, or `None` to begin at the beginning.

        Raises:
            ValueError: where there is an unfinished run and `resume` is false; where the run is another one; where every
                checkpoint is damaged.
        """
        files = _files(self.folder)
        sound = [path for path in files if _is_sound(path)]
        card, arrays = _read(sound[0]) if sound else ({"finished": True}, None)
        if not resume:
            checks.require(
                card["finished"],
                f"{self.folder} holds a run that was stopped after {card.get('done')} epoch(s). Go on with resume=True; to begin "
                "anew remove the folder, or name another one.",
            )
            discard(self.folder)
        elif files:
            checks.require(
                bool(sound),
                f"Every checkpoint in {self.folder} is damaged. Remove the folder to begin anew, or fetch a sound copy.",
            )
            self._check_run(card)
            for path in set(files) - set(sound):
                warnings.warn(f"{path} is damaged: its checksum is not the one in its name. It is left out.", stacklevel=3)
                path.unlink()
        self.folder.mkdir(parents=True, exist_ok=True)
        return arrays if resume else None

    def save(self, done: int, arrays: Callable[[], dict[str, np.ndarray]], *, finished: bool) -> None:
        """Saves what `arrays` gives if it is time to; `done` counts epochs. A run that is `finished` is always saved.

        A disk that is full is told in a warning: the run in memory is worth more than its checkpoint.
        """
        if not finished and time.monotonic() - self._last < self.every:
            return
        card = {"format": FORMAT, "done": done, "finished": finished, "run": self.run, "machine": machine()}
        content = as_safetensors(arrays(), {"program": "odeprocess", "card": json.dumps(card)})
        path = self.folder / f"checkpoint-{done:07d}-{hashlib.sha256(content).hexdigest()[:16]}.safetensors"
        try:
            replace_file(path, content)
            for old in [*_files(self.folder)[KEPT:], *_unfinished_writes(self.folder)]:
                old.unlink(missing_ok=True)
        except OSError as error:
            warnings.warn(
                f"The checkpoint after epoch {done} could not be written: {error}. The one before it stays; training goes on.",
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
                f"{self.folder} was written elsewhere: {'; '.join(differ)}. Training goes on from it, but may not end with the "
                "same weights to the last bit.",
                stacklevel=4,
            )


def discard(folder: str | Path) -> None:
    """Removes all checkpoints from a folder, and the folder if it is then empty."""
    folder = Path(folder)
    for path in [*_files(folder), *_unfinished_writes(folder)]:
        path.unlink(missing_ok=True)
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


def machine() -> dict[str, Any]:
    """What else the last bit of a weight may depend on."""
    threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {"odeprocess": __version__, "jax": jax.__version__, "device": jax.devices()[0].device_kind, "threads": threads}


def _files(folder: Path) -> list[Path]:
    """The checkpoints of a folder, the newest first."""
    return sorted((path for path in folder.glob("checkpoint-*") if NAME.fullmatch(path.name)), reverse=True)


def _unfinished_writes(folder: Path) -> Iterator[Path]:
    """What killed writes left behind."""
    return folder.glob(".checkpoint-*.safetensors.*")


def _is_sound(path: Path) -> bool:
    return hashlib.sha256(path.read_bytes()).hexdigest().startswith(path.stem.rpartition("-")[2])


def _read(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What the run was, and the arrays."""
    with safe_open(path, "numpy") as file:
        card = json.loads(file.metadata()["card"])
        checks.require(
            card["format"] <= FORMAT,
            f"{path} was written by odeprocess {card['machine']['odeprocess']}, which is newer than this one ({__version__}). "
            "Go on with that, or remove the folder to begin anew.",
        )
        return card, {name: file.get_tensor(name) for name in file.keys()}


def _differences(there: Any, here: Any, name: str = "") -> Iterator[str]:
    """What differs between two descriptions, in words."""
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
