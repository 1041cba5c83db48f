"""Stream files: the state of a stream as one safetensors file, its header saying which model it belongs to.

It is written beside its place and moved there in one step: a kill or a full disk leaves the one that was there before.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as as_safetensors

from . import checks
from .folders import named, replace_file
from .model import Model
from .version import __version__

FORMAT = 1


def write(path: str | Path, model: Model, card: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """Writes the arrays of a stream, and its card: plain data."""
    path = Path(path)
    checks.require(not path.is_dir(), f"{path} is a folder; expected the name of a file.")
    known = {"program": "odeprocess", "format": FORMAT, "version": __version__, "model": fingerprint(model)}
    whole = {**known, **card, "sha256": _digest(arrays)}
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, as_safetensors(arrays, {"card": json.dumps(whole)}))


def read(path: str | Path, model: Model) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Reads what `write` wrote, and refuses anything else with a message that says why."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"No stream at {path}. Expected a file that `Stream.save` wrote.")
    try:
        with safe_open(path, "numpy") as file:
            card = json.loads((file.metadata() or {})["card"])
            arrays = {name: file.get_tensor(name) for name in file.keys()}
    except (SafetensorError, KeyError, ValueError):
        raise ValueError(f"{path} is damaged, or `Stream.save` did not write it. Fetch a sound copy.") from None
    checks.require(
        card["format"] <= FORMAT, f"{path} was written by odeprocess {card['version']}; this is {__version__}, which is older."
    )
    checks.require(card["sha256"] == _digest(arrays), f"{path} is damaged: its checksum is wrong. Fetch a sound copy.")
    checks.require(
        card["model"] == fingerprint(model),
        f"{path} belongs to another model: its summaries mean nothing to this one. Load the model that the stream was made with.",
    )
    return card, arrays


def fingerprint(model: Model) -> str:
    """A checksum of everything that decides what a summary means."""
    known = {"spec": model.spec.to_json(), "scaling": model.scaling.to_json()}
    digest = hashlib.sha256(json.dumps(known, sort_keys=True).encode())
    digest.update(_digest({name: np.asarray(x) for name, x in named(model.process.inference).items()}).encode())
    return digest.hexdigest()


def _digest(arrays: dict[str, np.ndarray]) -> str:
    digest = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.shape} {array.dtype} ".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
