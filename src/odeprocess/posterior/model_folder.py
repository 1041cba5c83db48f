"""Model folders: a JSON file that says what the model is, and its weights as safetensors.

A folder holds names and numbers, never code: of a part that a user wrote, its name and its weights. Nothing is imported
because a folder says so; who loads such a model passes the part.

The weights file is named after its own checksum and written first; `model.json` names it and is replaced in one
atomic step. A kill at any moment, or a full disk, leaves the model that was there before. One process writes at a time;
readers need no lock.
"""

import functools
import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as load_weights, save as save_weights

from odeprocess.common import checks
from odeprocess.common.dataclass_json import read_fields
from odeprocess.common.storage import locked, parse_card, read_file, remove_unfinished, replace_file, version_of
from odeprocess.data.scaling import Scaling
from odeprocess.process import Process, Spec
from odeprocess.process.build import build_process
from odeprocess.process.parts import Part, find_parts
from odeprocess.version import __version__

from .calibration import Calibration

# 2: priors are mixtures, in coordinates in which their one normal distribution is standard; 3: `Spec.path`; 4: parts of one's
# own, and heads of any depth
FORMAT = 4
CARD = "model.json"
WEIGHTS = re.compile(r"weights-[0-9a-f]{16}\.safetensors")
LONGEST_CARD = 64 * 2**20  # bytes
LONGEST_HEADER = 2**20  # of a weights file, bytes
AGAIN = "Save the model again, or fetch a sound copy."


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
    card["sha256"] = card_digest(card)
    text = json.dumps(card, indent=2, allow_nan=False).encode()
    with locked(folder):
        replace_file(folder / card["weights"]["file"], weights)
        replace_file(folder / CARD, text)
        for old in folder.iterdir():
            if WEIGHTS.fullmatch(old.name) and old.name != card["weights"]["file"]:
                old.unlink(missing_ok=True)
        for name in (CARD, "weights-*.safetensors"):
            remove_unfinished(folder, name)


def read(folder: str | Path, parts: Iterable[Part] = ()) -> tuple[Process, Spec, Scaling, dict[str, Any], dict[str, Calibration]]:
    """Reads what `write` wrote, and refuses anything else with a message that says why.

    Arguments:
        folder: with a model.
        parts: of one's own, which the model has; they are found by name.
    """
    folder = Path(folder)
    parts = tuple(parts) if isinstance(parts, Iterable) else (parts,)
    card = _card(folder)
    while True:
        with damaged(folder):
            read_fields(FIELDS, card, CARD, needed=tuple(FIELDS))
            names = Spec.part_names(card["spec"])
        find_parts(names, parts)
        with damaged(folder):
            spec, scaling, calibrations = _described(card, parts)
            name, digest = _weights_of(card)
        like = _like(folder, spec)
        try:
            weights = read_file(folder / name, sum(8 * leaf.size for leaf in jax.tree.leaves(like)) + LONGEST_HEADER)
            break
        except FileNotFoundError:
            newer = _card(folder)  # another process may have saved a newer model since
            if newer == card:
                raise ValueError(f"{folder} is damaged: its weights file {name} is missing. {AGAIN}") from None
            card = newer
    if hashlib.sha256(weights).hexdigest() != digest:
        raise ValueError(f"{folder / name} is damaged: its checksum is not the one in {CARD}. {AGAIN}")
    with damaged(folder, name):
        arrays = _finite_arrays(weights)
    _check_own_weights(folder, spec, like, arrays)
    with damaged(folder, name):
        process = filled(like, arrays, "The weights do not fit the spec.")
    return process, spec, scaling, card["info"], calibrations


def _like(folder: Path, spec: Spec) -> Process:
    """What the spec of a folder builds, with shapes in place of arrays."""
    if spec.parts:  # what they return is checked later: first, whether they are the parts that were trained
        return jax.eval_shape(lambda: build_process(spec, key=jr.key(0), check=False))
    with damaged(folder):
        return built_like(spec, bool(jax.config.read("jax_enable_x64")))


def _check_own_weights(folder: Path, spec: Spec, like: Process, arrays: dict[str, np.ndarray]) -> None:
    """Raises where the arrays of a part of one's own are others than those that were saved, or where it returns other shapes."""
    for option, part in spec.parts.items():
        inside = f"{PLACES[option]}."
        expected = {name: leaf.shape for name, leaf in named(like).items() if name.startswith(inside)}
        found = {name: array.shape for name, array in arrays.items() if name.startswith(inside)}
        differ = sorted(name for name in expected | found if expected.get(name) != found.get(name))
        told = [
            f"`{name.removeprefix(inside)[:60]}` is {found.get(name, 'not there')} in the folder and "
            f"{expected.get(name, 'not there')} in the part"
            for name in differ[:3]
        ]
        checks.require(
            not differ,
            f"The model in {folder} was trained with another {option} `{part.__name__}` than the one that was passed: "
            f"{'; '.join(told)}. Pass the class that it was trained with.",
        )
    if spec.parts:
        built_like(spec, bool(jax.config.read("jax_enable_x64")))


@functools.lru_cache(maxsize=32)
def built_like(spec: Spec, x64: bool) -> Process:
    """What a spec builds, with shapes in place of arrays. Tracing that takes longer than all else about reading a folder."""
    return jax.eval_shape(lambda: spec.build(key=jr.key(0)))


def _described(card: dict[str, Any], parts: Iterable[Part]) -> tuple[Spec, Scaling, dict[str, Calibration]]:
    """What a card says of the model, each field checked."""
    spec = Spec.from_json(card["spec"], parts)
    for field in ("channels", "static_dim", "missing", "t0", "horizon"):
        checks.require(getattr(spec, field) is not None, f"`spec.{field}` is null; expected what the training data made it.")
    scaling = Scaling.from_json(card["scaling"], spec.channels or 0, spec.static_dim or 0)
    for kind in card["calibrations"]:
        checks.choice("calibrations", kind, ("exact", "amortised"))
    calibrations = {kind: Calibration.from_json(each, f"calibrations.{kind}") for kind, each in card["calibrations"].items()}
    return spec, scaling, calibrations


def _weights_of(card: dict[str, Any]) -> tuple[str, str]:
    """The name and the checksum of the weights file: a name of ours, so never a place elsewhere."""
    known = read_fields({"file": str, "sha256": str}, card["weights"], "weights", needed=("file", "sha256"))
    good = WEIGHTS.fullmatch(known["file"]) is not None
    checks.require(good, f"`weights.file` is {known['file'][:60]!r}; expected weights-….safetensors, in the same folder.")
    return known["file"], known["sha256"]


def _finite_arrays(weights: bytes) -> dict[str, np.ndarray]:
    try:
        arrays = load_weights(weights)
    except (SafetensorError, KeyError, ValueError, TypeError):
        raise ValueError("It is not a file of safetensors.") from None
    broken = sorted(name for name, x in arrays.items() if not np.isfinite(x).all())
    checks.require(not broken, f"The weights hold NaN or infinite numbers: {', '.join(broken[:4])[:200]}.")
    return arrays


# Where a process holds the part that an option of its spec names.
PLACES = {
    "encoder": "inference.encoder",
    "field": "flow.field",
    "flow": "flow",
    "decoder": "decoder",
    "likelihood": "likelihood",
}
FIELDS = {
    "program": str,
    "format": int,
    "version": str,
    "weights": dict[str, Any],
    "spec": dict[str, Any],
    "scaling": dict[str, Any],
    "info": dict[str, Any],
    "calibrations": dict[str, Any],
    "sha256": str,
}


@contextmanager
def damaged(folder: str | Path, name: str = CARD) -> Iterator[None]:
    """Says of a `ValueError` in which file of a model folder the fault is."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{Path(folder) / name} is damaged: {error} {AGAIN}") from None


def _card(folder: Path) -> dict[str, Any]:
    path = folder / CARD
    try:
        text = read_file(path, LONGEST_CARD)
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(
            f"No model at {folder}: {CARD} is not there. Expected a folder that `model.save` wrote."
        ) from None
    card = parse_card(text, path)
    checks.require(
        isinstance(card, dict) and card.get("program") == "odeprocess",
        f"{path} was not written by odeprocess. Expected a folder that `model.save` wrote.",
    )
    made = card.get("format")
    if type(made) is not int:
        raise ValueError(f"{path} is damaged: its format is {made!r:.60}. {AGAIN}")
    checks.require(
        made > FORMAT or card.get("sha256") == card_digest(card),
        f"{path} is damaged or was edited: its checksum is wrong. {AGAIN}",
    )
    written = f"{folder} was written by odeprocess {version_of(card)} in format {str(made)[:20]}; this is {__version__}"
    checks.require(
        made >= FORMAT, f"{written}, which reads format {FORMAT} alone. Train the model anew, or use the version that wrote it."
    )
    checks.require(made <= FORMAT, f"{written}, which reads up to format {FORMAT}. Install a newer odeprocess.")
    return card


def card_digest(card: dict[str, Any]) -> str:
    """The checksum of all fields of a card but that one."""
    content = {key: value for key, value in card.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _check_rebuildable(process: Process, spec: Spec) -> None:
    like = built_like(spec, bool(jax.config.read("jax_enable_x64")))
    checks.require(
        jax.tree.structure(process) == jax.tree.structure(like),
        "This process is not what its spec builds, so it could not be loaded again. Give a part of your own to the spec, such as "
        "variant(…, field=Pendulum), in place of putting it into the process by hand; a function that a part holds, such as an "
        "activation, must be the same one each time the part is made.",
    )
    broken = sorted(name for name, x in named(process).items() if not bool(np.isfinite(np.asarray(x)).all()))
    checks.require(
        not broken, f"The weights hold NaN or infinite numbers ({broken[:4]}): training broke down. The model is not saved."
    )


def named(tree: Any) -> dict[str, Any]:
    """The arrays of a process, or of any tree, by their place in it."""
    paths, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in paths}


def filled(like: Any, arrays: dict[str, np.ndarray], otherwise: str) -> Any:
    """A tree shaped and typed like `like` that holds copies of `arrays`; where they do not fit, an error says `otherwise`.

    Only the precision may differ: float64 fills float32.
    """
    expected = {name: (leaf.shape, np.dtype(leaf.dtype).kind) for name, leaf in named(like).items()}
    found = {name: (array.shape, array.dtype.kind) for name, array in arrays.items()}
    differ = sorted(name for name in expected | found if expected.get(name) != found.get(name))
    checks.require(not differ, f"{otherwise} Differing: {', '.join(differ[:4])[:200]}.")
    leaves = [jnp.array(arrays[name], leaf.dtype) for name, leaf in named(like).items()]
    return jax.tree.unflatten(jax.tree.structure(like), leaves)
