"""Stream files: the state of a stream as one record. Its card has the fingerprint of the model to which the stream belongs."""

import json
from pathlib import Path
from typing import Any, get_args

import numpy as np

from odeprocess.common import checks
from odeprocess.common.dataclass_json import read_fields
from odeprocess.common.storage import digest, read_record, version_of, write_record
from odeprocess.posterior.latent_posterior import Inference
from odeprocess.posterior.model import Model
from odeprocess.posterior.model_folder import named
from odeprocess.version import __version__

from .series_ids import LONGEST_ID

FORMAT = 3  # 2: one checksum of card and arrays; 3: the card names the inference
KEY_SIZES = {"threefry2x32": 2, "rbg": 4, "unsafe_rbg": 4}  # how many numbers a random key has, by JAX's name of its kind
FIELDS = {"format": int, "version": str, "model": str, "ids": list[Any], "draws": int, "keep": bool, "inference": str, "key": str}


def write(path: str | Path, model: Model, card: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """Writes the arrays of a stream, and its card: plain data."""
    path = Path(path)
    checks.require(not path.is_dir(), f"{path} is a folder; expected the name of a file.")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_record(path, {"format": FORMAT, "version": __version__, "model": fingerprint(model), **card}, arrays)


def read(path: str | Path, model: Model) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Reads what `write` wrote; an error with the reason for anything else."""
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
        checks.choice("card.key", card["key"], tuple(KEY_SIZES))
        checks.choice("card.inference", card["inference"], get_args(Inference))
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
    """A checksum of everything on which the meaning of a summary depends: the encoder, the spec and the scaling."""
    known = {"spec": model.spec.to_json(), "scaling": model.scaling.to_json()}
    arrays = {name: np.asarray(x) for name, x in named(model.process.inference).items()}
    return digest(json.dumps(known, sort_keys=True), arrays)


def _check_ids(ids: list[Any]) -> None:
    for i, name in enumerate(ids):
        good = type(name) is int or (isinstance(name, str) and len(name) <= LONGEST_ID)
        expected = f"a whole number, or text of {LONGEST_ID} characters at most"
        checks.require(good, f"`card.ids[{i}]` is {name!r:.60}; expected {expected}.")
    checks.require(len(set(ids)) == len(ids), "`card.ids` names a series twice.")


def _check_arrays(card: dict[str, Any], arrays: dict[str, np.ndarray], model: Model) -> None:
    """Raises unless the arrays have the names, shapes and values of a stream of this model."""
    n, channels, sums = len(card["ids"]), model.spec.channels or 0, model.spec.sums
    rows = len(arrays["t"]) if "t" in arrays and arrays["t"].ndim == 1 else 0
    shapes: dict[str, tuple[tuple[int, ...], str]] = {
        "static": ((n, model.spec.static_dim or 0), "float64"),
        "origins": ((n,), "float64"),
        "explicit": ((n,), "bool"),
        "key": ((KEY_SIZES[card["key"]],), "uint32"),
        "summary.0": ((n, sums), "float64"),
        "summary.1": ((n,), "float64"),
        "summary.2": ((n,), "float64"),
        "summary.3": ((n, channels), "float64"),
        "summary.4": ((n, channels), "float64"),
    }
    if card["keep"]:
        shapes |= {"series": ((rows,), "int64"), "t": ((rows,), "float64"), "y": ((rows, channels), "float64")}
    for name in sorted(shapes | arrays):
        checks.require(name in shapes and name in arrays, f"`{name[:60]}` is {'missing' if name in shapes else 'unknown'}.")
        found, expected = (arrays[name].shape, str(arrays[name].dtype)), shapes[name]
        checks.require(found == expected, f"`{name}` is {found[1]} of shape {found[0]}; expected {expected[1]} of {expected[0]}.")
    # An unknown origin, a series without observations, a missing value.
    may_be = {"origins": np.isnan, "summary.2": np.isposinf, "y": np.isnan}
    for name, array in arrays.items():
        good = np.isfinite(array) | (may_be[name](array) if name in may_be else False)
        checks.require(bool(good.all()), f"`{name}` holds {array[~good][:1]}, which is not possible there.")
    counts = arrays["summary.1"]
    checks.require(
        bool(((counts >= 0) & (counts == np.round(counts))).all()), "`summary.1` holds a number that is not a count (0, 1, 2 …)."
    )
    if card["keep"]:
        of = arrays["series"]
        checks.require(bool(((of >= 0) & (of < n)).all()), "`series` names a series that is not there.")
        same = np.array_equal(np.bincount(of, minlength=n), counts)
        good = same and not np.isnan(arrays["y"]).all(-1).any()
        checks.require(good, "`series`, `y` and `summary.1` have different numbers of observations.")
