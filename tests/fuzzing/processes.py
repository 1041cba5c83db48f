"""Pairs of real processes that write into one folder, of which some are killed: it always holds one of the two, whole."""

import multiprocessing
import random
import time
from collections import Counter
from pathlib import Path

import odeprocess as odp

from .files import place
from .outcomes import FAILURE, REFUSED, RIGHT

# Children begin as copies of a process that has imported everything, and has started nothing: real ones, in milliseconds.
CHILDREN = multiprocessing.get_context("forkserver")
CHILDREN.set_forkserver_preload(["odeprocess", "odeprocess.training.fit", "fuzzing.processes"])
SERIES = {"epochs": 6, "batch_size": 4}
LONGEST = 120  # seconds that a child may take


def pairs_saving(seed: int, count: int, saves: int = 20) -> Counter:
    """Two processes save different models into one folder while this one loads it; every second time one is killed."""
    rng, found = random.Random(seed), Counter()
    with place() as root:
        variants = ("np", "ndp")
        for name in variants:
            _model(name).save(root / name)
        for i in range(count):
            folder = root / f"both {i}"
            children = [CHILDREN.Process(target=_save, args=(root / name, folder, saves)) for name in variants]
            for child in children:
                child.start()
            time.sleep(rng.uniform(0.0, 0.4))
            if i % 2:
                children[0].kill()
            while any(child.is_alive() for child in children):
                found[_loaded(folder, variants)] += 1
            for child in children[i % 2 :]:
                child.join(LONGEST)
                found[RIGHT if child.exitcode == 0 else f"{FAILURE}: a save ended with {child.exitcode}"] += 1
            found[_loaded(folder, variants)] += 1
            left = len(list(folder.iterdir()))
            found[RIGHT if left <= (2 if i % 2 == 0 else 4) else f"{FAILURE}: {left} files are left"] += 1
    return found


def pairs_training(seed: int, count: int) -> Counter:
    """Two processes train with one checkpoint folder: one is refused or comes after the other, and one can go on from it."""
    rng, found = random.Random(seed), Counter()
    with place() as root:
        expected = _weights(odp.fit(**_run(0)).model)
        for i in range(count):
            folder = root / f"run {i}"
            children = [CHILDREN.Process(target=_train, args=(0, folder)) for _ in range(2)]
            for child in children:
                child.start()
            if i % 2:
                time.sleep(rng.uniform(0.0, 3.0))
                children[0].kill()
            for child in children:
                child.join(LONGEST)
                came = {0: RIGHT, 3: REFUSED, -9: RIGHT}.get(child.exitcode, f"{FAILURE}: a training ended with {child.exitcode}")
                found[came] += 1
            same = _weights(odp.fit(**_run(0), checkpoint=folder, resume=True).model) == expected
            found[RIGHT if same else f"{FAILURE}: the run goes on to other weights"] += 1
    return found


def _model(name: str) -> odp.Model:
    from cases import model

    return model(name)


def _save(source: Path, folder: Path, saves: int) -> None:
    model = odp.load(source)
    for _ in range(saves):
        model.save(folder)


def _loaded(folder: Path, variants: tuple[str, ...]) -> str:
    """What comes of loading a folder that others write to; it may not be there yet."""
    try:
        return RIGHT if odp.load(folder).spec.variant in variants else f"{FAILURE}: another model"
    except FileNotFoundError:
        return RIGHT if not (folder / "model.json").exists() else REFUSED
    except Exception as error:
        return f"{FAILURE}: {type(error).__name__}: {error}"


def _run(seed: int) -> dict:
    import jax.random as jr

    series = odp.data.sines.sample(8, key=jr.key(0))
    return {
        "model": odp.variant("np", r_dim=6, z_dim=4, l_dim=4, h_dim=6),
        "series": series,
        "options": odp.FitOptions(**SERIES),
        "seeds": [seed],
        "progress": False,
    }


def _train(seed: int, folder: Path) -> None:
    try:
        odp.fit(**_run(seed), checkpoint=folder, checkpoint_every=0, resume=True)
    except ValueError as error:
        raise SystemExit(3 if "Another run is training into" in str(error) else 4) from None


def _weights(model: odp.Model | None) -> bytes:
    import jax
    import numpy as np

    return b"".join(np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(model and model.process))
