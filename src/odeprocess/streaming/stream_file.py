"""Stream files: the state of a stream as one record, whose card says which model it belongs to."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from odeprocess.common import checks
from odeprocess.common.dataclass_json import read_fields
from odeprocess.common.storage import digest, read_record, version_of, write_record
from odeprocess.posterior.model import Model
from odeprocess.posterior.model_folder import named
from odeprocess.version import __version__

from .series_ids import LONGEST_NAME

FORMAT = 2  # 2: one checksum of card and arrays
KINDS = {"threefry2x32": 2, "rbg": 4, "unsafe_rbg": 4}  # of random keys, and how many numbers each has
FIELDS = {"format": int, "version": str, "model": str, "ids": list[Any], "draws": int, "keep": bool, "key": str}


def write(path: str | Path, model: Model, card: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """Writes the arrays of a stream, and its card: plain data."""
    path = Path(path)
    checks.require(not path.is_dir(), f"{path} is a folder; expected the name of a file.")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_record(path, {"format": FORMAT, "version": __version__, "model": fingerprint(model), **card}, arrays)


def read(path: str | Path, model: Model) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Reads what `write` wrote, and refuses anything else with a message that says why."""
    path = Path(path)
    try:
        card, arrays = read_record(path, "`Stream.save`")
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(f"No stream at {path}. Expected a file that `Stream.save` wrote.") from None
    made = card.get("format")
    checks.require(
        type(made) is not int or made <= FORMAT,
        f"{path} was written by odeprocess {version_of(card)}; this is {__version__}, which is older.",
    )
    try:
        read_fields(FIELDS, card, "card", needed=tuple(FIELDS))
        checks.require(made == FORMAT, f"`card.format` is {made}; expected {FORMAT}.")
        _check_ids(card["ids"])
        checks.whole("card.draws", card["draws"], 1, checks.MOST_DRAWS)
        checks.choice("card.key", card["key"], tuple(KINDS))
        if card["model"] == fingerprint(model):
            _check_arrays(card, arrays, model)
    except ValueError as error:
        raise ValueError(f"{path} is damaged: {error} Save the stream again, or fetch a sound copy.") from None
    checks.require(
        card["model"] == fingerprint(model),
        f"{path} belongs to another model: its summaries mean nothing to this one. Load the model that the stream was made with.",
    )
    return card, arrays


def fingerprint(model: Model) -> str:
    """A checksum of everything that decides what a summary means."""
    known = {"spec": model.spec.to_json(), "scaling": model.scaling.to_json()}
    arrays = {name: np.asarray(x) for name, x in named(model.process.inference).items()}
    return digest(json.dumps(known, sort_keys=True), arrays)


def _check_ids(ids: list[Any]) -> None:
    for i, name in enumerate(ids):
        good = type(name) is int or (isinstance(name, str) and len(name) <= LONGEST_NAME)
        expected = f"a whole number, or text of {LONGEST_NAME} characters at most"
        checks.require(good, f"`card.ids[{i}]` is {name!r:.60}; expected {expected}.")
    checks.require(len(set(ids)) == len(ids), "`card.ids` names a series twice.")


def _check_arrays(card: dict[str, Any], arrays: dict[str, np.ndarray], model: Model) -> None:
    """Raises unless the arrays are such as a stream of this model has."""
    n, channels, sums = len(card["ids"]), model.spec.channels or 0, model.spec.sums
    rows = len(arrays["t"]) if "t" in arrays and arrays["t"].ndim == 1 else 0
    shapes: dict[str, tuple[tuple[int, ...], str]] = {
        "static": ((n, model.spec.static_dim or 0), "float64"),
        "origins": ((n,), "float64"),
        "explicit": ((n,), "bool"),
        "key": ((KINDS[card["key"]],), "uint32"),
        "summary.0": ((n, sums), "float64"),
        "summary.1": ((n,), "float64"),
        "summary.2": ((n,), "float64"),
        "summary.3": ((n, channels), "float64"),
        "summary.4": ((n, channels), "float64"),
    }
    if card["keep"]:
        shapes |= {"who": ((rows,), "int64"), "t": ((rows,), "float64"), "y": ((rows, channels), "float64")}
    for name in sorted(shapes | arrays):
        checks.require(name in shapes and name in arrays, f"`{name[:60]}` is {'missing' if name in shapes else 'unknown'}.")
        found, expected = (arrays[name].shape, str(arrays[name].dtype)), shapes[name]
        checks.require(found == expected, f"`{name}` is {found[1]} of shape {found[0]}; expected {expected[1]} of {expected[0]}.")
    may_be = {"origins": np.isnan, "summary.2": np.isposinf, "y": np.isnan}  # open, without observations, not measured
    for name, array in arrays.items():
        good = np.isfinite(array) | (may_be[name](array) if name in may_be else False)
        checks.require(bool(good.all()), f"`{name}` holds a number that it cannot: {array[~good][:1]}.")
    counts = arrays["summary.1"]
    checks.require(bool(((counts >= 0) & (counts == np.round(counts))).all()), "`summary.1` holds a count that is none.")
    if card["keep"]:
        who = arrays["who"]
        checks.require(bool(((who >= 0) & (who < n)).all()), "`who` names a series that is not there.")
        same = np.array_equal(np.bincount(who, minlength=n), counts)
        checks.require(same and not np.isnan(arrays["y"]).all(-1).any(), "`who`, `y` and `summary.1` count other observations.")
