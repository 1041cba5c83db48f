"""Damaged models, streams, checkpoints and stores: as a disk damages them, and as a stranger writes them, checksum and all.

What loads must be what the file says, to the last number: it is written again and compared. All else must be refused.
"""

import json
import logging
import random
import shutil
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax.random as jr
import numpy as np

import odeprocess as odp
from cases import model as case_model, untrained as untrained_model
from odeprocess.common.storage import read_record, write_record
from odeprocess.posterior.model_folder import card_digest
from odeprocess.serving.http.limits import Limits
from odeprocess.serving.http.schemas import NewObservations, NewSeries
from odeprocess.serving.http.served_model import ServedModel
from odeprocess.serving.http.service import Service
from odeprocess.serving.http.sqlite_store import SeriesStore, _checksum
from odeprocess.training.checkpoints import Checkpoints
from table_cases import untrained

from .mutations import ODD, changed, changed_arrays, damaged
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


def damaged_stores(seed: int, count: int) -> Counter:
    """Files in which a server stores its series, read as it reads them when it starts."""
    rng, found, messages = random.Random(seed), Counter(), _Messages()
    served_model = ServedModel.of("lines", untrained_model(odp.variant("np", r_dim=4, z_dim=4, l_dim=4, h_dim=4), _lines()))
    log = logging.getLogger(Service.__module__)
    log.addHandler(messages)
    log.propagate = False
    with place() as root:
        path = root / "series.sqlite"
        _fill(Service({"lines": served_model}, SeriesStore(path), Limits()))
        sound, expected = path.read_bytes(), _rows(path)
        for _ in range(count):
            for left in (path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")):
                left.unlink(missing_ok=True)
            signed = rng.random() < SIGNED
            path.write_bytes(sound if signed else damaged(rng, sound))
            rows = _change_a_row(rng, path) if signed else expected

            def attempt(rows: Any = rows) -> bool:
                messages.lines.clear()
                store = SeriesStore(path)
                try:
                    service = Service({"lines": served_model}, store, Limits())
                    for line in messages.lines:
                        raise ValueError(line)
                    answers = [service.show(name).model_dump_json() for name in service.entries]
                    others = [entry for entry in store.entries() if entry.model != "lines"]
                    return len(answers) + len(others) == len(rows["series"]) and _rows(path, store) == rows
                finally:
                    store.close()

            found[outcome(attempt)] += 1
    log.removeHandler(messages)
    return found


@contextmanager
def place() -> Iterator[Path]:
    """A folder in memory, where there is one."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as root:
        yield Path(root)


class _Messages(logging.Handler):
    """Keeps the messages of a service about series that it leaves out."""

    def __init__(self):
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def _lines() -> odp.Series:
    return odp.data.lines.sample(4, key=jr.key(0))


def _fill(service: Service) -> None:
    """Stores a few series with observations and keys."""
    rows = [{"t": i / 8, "y": [i * 0.1]} for i in range(6)]
    for name in ("one", "two", "three"):
        with service.transaction():
            service.store_once(NewSeries.model_validate({"id": name, "observations": rows[:2]}), key=f"open-{name}")
        with service.transaction():
            service.store_once(NewObservations.model_validate({"observations": rows[2:]}), key="more", name=name)
    service.store.close()


TABLES = {"series": ("id",), "observations": ("series", "number"), "keys": ("series", "key"), "seals": ("series",), "totals": ()}
LISTS = ("[]", "[1]", '["x"]', "[null]", "[NaN]", "[1e999]", "{}", "{", "[" * 5000, f"[{'9' * 5000}]", '["\\ud800"]')


def _rows(path: Path, store: SeriesStore | None = None) -> dict[str, list]:
    """All rows of the file, read by the store that has it open if there is one."""
    at = sqlite3.connect(path) if store is None else store._db
    ordered = {table: f"SELECT * FROM {table} ORDER BY {', '.join(keys) or 1}" for table, keys in TABLES.items()}
    found = {table: at.execute(query).fetchall() for table, query in ordered.items()}
    if store is None:
        at.close()
    return found


def _change_a_row(rng: random.Random, path: Path) -> dict[str, list]:
    """Changes a field of a row as SQLite allows, computes all checksums again, and returns the file's rows."""
    at = sqlite3.connect(path, isolation_level=None)
    done = False
    while not done:
        table = rng.choice(("series", "observations", "keys"))
        columns = [row[1] for row in at.execute(f"PRAGMA table_info({table})")]
        row = rng.choice(at.execute(f"SELECT {', '.join(TABLES[table])} FROM {table}").fetchall())
        plain = [value for value in (*ODD, float("inf"), 1e13) if isinstance(value, (int, float, str, type(None)))]
        value = rng.choice((rng.choice(plain), rng.choice(LISTS), rng.randbytes(rng.choice((0, 1, 7, 8, 16)))))
        where = " AND ".join(f"{key} = ?" for key in TABLES[table])
        try:
            done = at.execute(f"UPDATE {table} SET {rng.choice(columns)} = ? WHERE {where}", (value, *row)).rowcount > 0
        except (sqlite3.Error, OverflowError):
            continue
    at.execute("DELETE FROM seals")
    for (name,) in at.execute("SELECT id FROM series").fetchall():
        sealed = (f"SELECT * FROM {table} WHERE {TABLES[table][0]} = ?" for table in ("series", "observations", "keys"))
        parts = [at.execute(query, (name,)).fetchall() for query in sealed]
        at.execute("INSERT INTO seals VALUES (?, ?)", (name, sum(map(_checksum, parts))))
    at.close()
    return _rows(path)


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
