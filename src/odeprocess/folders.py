"""Model folders: a JSON file that says what the model is, and its weights as safetensors.

The weights file is named after its own checksum and written first; `model.json` names it and is replaced in one
atomic step. A kill at any moment, or a full disk, leaves the model that was there before.
"""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from safetensors.numpy import load as load_weights, save as save_weights

from . import checks
from .calibration import Calibration
from .process import Process, Spec
from .scaling import Scaling
from .version import __version__

FORMAT = 3  # 2: priors are mixtures, in coordinates in which their one normal distribution is standard; 3: `Spec.path`
CARD = "model.json"


def write(
    folder: str | Path,
    process: Process,
    spec: Spec,
    scaling: Scaling,
    info: dict[str, Any],
    calibrations: dict[str, Calibration],
) -> None:
    """Writes a model to `folder`, which is made if it is not there."""
    folder = Path(folder)
    _check_rebuildable(process, spec)
    checks.require(not folder.exists() or folder.is_dir(), f"{folder} is a file; expected a folder, or a name that is free.")
    folder.mkdir(parents=True, exist_ok=True)
    weights = save_weights({name: np.asarray(x) for name, x in named(process).items()})
    digest = hashlib.sha256(weights).hexdigest()
    card = {
        "program": "odeprocess",
        "format": FORMAT,
        "version": __version__,
        "weights": {"file": f"weights-{digest[:16]}.safetensors", "sha256": digest},
        "spec": spec.to_json(),
        "scaling": scaling.to_json(),
        "info": info,
        "calibrations": {name: each.to_json() for name, each in calibrations.items()},
    }
    card["sha256"] = _card_digest(card)
    text = json.dumps(card, indent=2, allow_nan=False).encode()
    replace_file(folder / card["weights"]["file"], weights)
    replace_file(folder / CARD, text)
    for pattern in ("weights-*.safetensors", f".{CARD}.*", ".weights-*.safetensors.*"):  # of older saves, or of killed ones
        for old in folder.glob(pattern):
            if old.name != card["weights"]["file"]:
                old.unlink(missing_ok=True)


def read(folder: str | Path) -> tuple[Process, Spec, Scaling, dict[str, Any], dict[str, Calibration]]:
    """Reads what `write` wrote, and refuses anything else with a message that says why."""
    folder = Path(folder)
    card = _card(folder)
    if not (folder / str(card.get("weights", {}).get("file"))).exists():
        card = _card(folder)  # another process may have saved a newer model since the first look
    again = f"Save the model again, or fetch a sound copy of {folder}."
    try:
        spec, scaling = Spec.from_json(card["spec"]), Scaling.from_json(card["scaling"])
        path, digest, info = folder / card["weights"]["file"], card["weights"]["sha256"], card["info"]
        calibrations = {name: Calibration.from_json(each) for name, each in card.get("calibrations", {}).items()}
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{folder / CARD} is damaged: {type(error).__name__}: {error}. {again}") from None
    try:
        weights = path.read_bytes()
    except FileNotFoundError:
        raise ValueError(f"{folder} is damaged: its weights file {path.name} is missing. {again}") from None
    if hashlib.sha256(weights).hexdigest() != digest:
        raise ValueError(f"{path} is damaged: its checksum is not the one in {CARD}. {again}")
    like = jax.eval_shape(lambda: spec.build(key=jr.key(0)))
    process = filled(like, load_weights(weights), "The weights do not fit the spec. Save the model again.")
    return process, spec, scaling, info, calibrations


def _card(folder: Path) -> dict[str, Any]:
    path = folder / CARD
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(
            f"No model at {folder}: {CARD} is not there. Expected a folder that `model.save` wrote."
        ) from None
    except UnicodeDecodeError:
        text = ""
    try:
        card = json.loads(text)
    except json.JSONDecodeError:
        raise ValueError(f"{path} is damaged: it is not JSON. Save the model again, or fetch a sound copy.") from None
    checks.require(
        isinstance(card, dict) and card.get("program") == "odeprocess",
        f"{path} was not written by odeprocess. Expected a folder that `model.save` wrote.",
    )
    made = card.get("format")
    if not isinstance(made, int):
        raise ValueError(f"{path} is damaged: its format is {made!r}. Save the model again, or fetch a sound copy.")
    checks.require(
        made > FORMAT or card.get("sha256") == _card_digest(card),
        f"{path} is damaged or was edited: its checksum is wrong. Save the model again, or fetch a sound copy.",
    )
    checks.require(
        made >= FORMAT,
        f"{folder} was written by odeprocess {card.get('version')} in format {made}; this is {__version__}, which reads "
        f"format {FORMAT} alone. Train the model anew, or use the version that wrote it.",
    )
    checks.require(
        made <= FORMAT,
        f"{folder} was written by odeprocess {card.get('version')} in format {made}; this is {__version__}, which reads "
        f"up to format {FORMAT}. Install a newer odeprocess.",
    )
    return card


def _card_digest(card: dict[str, Any]) -> str:
    content = {key: value for key, value in card.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _check_rebuildable(process: Process, spec: Spec) -> None:
    like = jax.eval_shape(lambda: spec.build(key=jr.key(0)))
    checks.require(
        jax.tree.structure(process) == jax.tree.structure(like),
        "This process is not what its spec builds, so it could not be loaded again: parts that were put in by hand cannot be "
        "saved this way. Keep its arrays with equinox.tree_serialise_leaves instead.",
    )


def named(tree: Any) -> dict[str, Any]:
    """The arrays of a process, or of any tree, by their place in it."""
    paths, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in paths}


def filled(like: Any, arrays: dict[str, np.ndarray], otherwise: str) -> Any:
    """A tree shaped and typed like `like` that holds copies of `arrays`; where they do not fit, an error says `otherwise`."""
    expected = {name: leaf.shape for name, leaf in named(like).items()}
    found = {name: array.shape for name, array in arrays.items()}
    differ = sorted(set(expected.items()) ^ set(found.items()))
    checks.require(not differ, f"{otherwise} Differing: {differ[:4]}.")
    leaves = [jnp.array(arrays[name], leaf.dtype) for name, leaf in named(like).items()]
    return jax.tree.unflatten(jax.tree.structure(like), leaves)


def replace_file(path: Path, content: bytes) -> None:
    """Writes `content` beside `path`, makes sure it is on disk, then moves it into place."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
