"""Damaged model folders, streams and checkpoints: as a disk damages them, and as a stranger writes them, checksum and all.

What loads must be what the file says, to the last number: it is written again and compared. All else must be refused.
"""

import json
import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax.random as jr
import numpy as np

import odeprocess as odp
from cases import model as case_model
from odeprocess.common.storage import read_record, write_record
from odeprocess.posterior.model_folder import card_digest
from odeprocess.serving.http.served_model import ServedModel
from odeprocess.training.checkpoints import Checkpoints
from table_cases import untrained

from .mutations import changed, changed_arrays, damaged
from .outcomes import outcome

SIGNED = 0.1  # the share of files with faults that a checksum vouches for: they take longer to look at


def damaged_models(seed: int, count: int) -> Counter:
    """Folders of `Model.save`."""
    with place() as root:
        case_model("ndp").save(root / "model")
        return _damaged_folders(seed, count, root, lambda folder, copy: odp.load(folder).save(copy))


def damaged_forecasters(seed: int, count: int) -> Counter:
    """Folders of `Forecaster.save`, as the library and as the server read them."""

    def copy(folder: Path, other: Path) -> None:
        ServedModel.load(folder)
        odp.Forecaster.load(folder).save(other)

    with place() as root:
        untrained().save(root / "model")
        return _damaged_folders(seed, count, root, copy)


def damaged_streams(seed: int, count: int) -> Counter:
    """Files of `Stream.save`."""
    with place() as root:
        model = case_model("ndp")
        path, again = root / "stream", root / "again"
        stream = odp.Stream(model, key=jr.key(0), draws=8)
        stream.open(["a", "b", 3], static=np.array([[0.0], [1.0], [-1.0]]))
        stream.observe(["a", "b", "a", 3], [0.1, 0.2, 0.3, 0.4], np.arange(8.0).reshape(4, 2))
        stream.save(path)

        def attempt(rng: random.Random, signed: bool) -> bool:
            odp.Stream.load(path, model).save(again)
            return _same_record(again, path if signed else sound)

        sound = root / "sound"
        shutil.copy(path, sound)
        return _damaged_record(seed, count, path, sound, attempt)


def damaged_checkpoints(seed: int, count: int) -> Counter:
    """Files that a training goes on from: the one before it, or none, takes the place of a damaged one."""
    with place() as root:
        keeper = Checkpoints(root / "run", {"seeds": [0, 1]}, 0.0)
        keeper.save(1, lambda: {"states.x": np.arange(6.0).reshape(2, 3), "history.loss": np.ones((1, 2))}, finished=False)
        (path,) = (root / "run").iterdir()
        sound = root / "sound"
        shutil.copy(path, sound)

        def attempt(rng: random.Random, signed: bool) -> bool:
            arrays = keeper.restored(lambda arrays: arrays, otherwise={}, resume=True)
            expected = read_record(path if signed else sound, "`fit`")[1]
            return _same_arrays(arrays, expected)

        return _damaged_record(seed, count, path, sound, attempt)


@contextmanager
def place() -> Iterator[Path]:
    """A folder in memory, where there is one."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as root:
        yield Path(root)


def _damaged_folders(seed: int, count: int, root: Path, copy: Callable[[Path, Path], None]) -> Counter:
    """Counts what comes of loading `root / "model"` and saving what was loaded, which is what `copy` does."""
    rng, found = random.Random(seed), Counter()
    folder, other = root / "model", root / "other"
    sound = {path.name: path.read_bytes() for path in folder.iterdir()}
    card = json.loads(sound["model.json"])
    for _ in range(count):
        for path in folder.iterdir():
            if path.name not in sound:
                path.unlink()
        signed = rng.random() < SIGNED
        if signed:
            odd = changed(rng, card)
            if isinstance(odd, dict):
                odd["sha256"] = card_digest(odd)
            name, content = "model.json", json.dumps(odd).encode()
        else:
            odd, name = card, rng.choice(sorted(sound))
            content = damaged(rng, sound[name])
        (folder / name).write_bytes(content)

        def attempt(odd: Any = odd) -> bool:
            copy(folder, other)
            kept = json.loads((other / "model.json").read_text())
            ours = [(_plain(kept[part]), _plain(odd[part])) for part in ("spec", "scaling", "info", "calibrations")]
            return all(_agree(mine, theirs) for mine, theirs in ours) and kept["weights"] == odd["weights"]

        found[outcome(attempt)] += 1
        (folder / name).write_bytes(sound[name])
    return found


def _damaged_record(seed: int, count: int, path: Path, sound: Path, attempt: Callable[[random.Random, bool], bool]) -> Counter:
    rng, found = random.Random(seed), Counter()
    content = sound.read_bytes()
    card, arrays = read_record(sound, "odeprocess")
    for _ in range(count):
        signed = rng.random() < SIGNED
        if not signed:
            path.write_bytes(damaged(rng, content))
        elif rng.random() < 0.5:
            odd = changed(rng, card)
            write_record(path, odd, arrays)
        else:
            write_record(path, card, changed_arrays(rng, arrays))
        found[outcome(lambda signed=signed: attempt(rng, signed))] += 1
    return found


def _same_record(one: Path, other: Path) -> bool:
    (card, arrays), (expected, others) = (read_record(path, "odeprocess") for path in (one, other))
    said = [{key: value for key, value in each.items() if key != "version"} for each in (card, expected)]  # ours, when we save
    return said[0] == said[1] and _same_arrays(arrays, others)


def _same_arrays(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> bool:
    return set(one) == set(other) and all(
        one[name].dtype == other[name].dtype and np.array_equal(one[name], other[name], equal_nan=other[name].dtype.kind == "f")
        for name in other
    )


def _plain(data: Any) -> Any:
    return json.loads(json.dumps(data))


def _agree(kept: Any, written: Any) -> bool:
    """Whether what was loaded holds all that was written; what was left out has its default."""
    if isinstance(written, dict):
        return isinstance(kept, dict) and all(key in kept and _agree(kept[key], value) for key, value in written.items())
    if isinstance(written, list):
        return isinstance(kept, list) and len(kept) == len(written) and all(map(_agree, kept, written))
    numbers = [isinstance(x, (int, float)) and not isinstance(x, bool) for x in (kept, written)]
    return float(kept) == float(written) if all(numbers) else numbers == [False, False] and kept == written
