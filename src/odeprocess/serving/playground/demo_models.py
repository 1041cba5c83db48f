"""Small models to begin with: trained once, in about a minute each, and kept in a cache."""

import dataclasses
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.random as jr

from odeprocess.common.storage import locked
from odeprocess.data import lotka_volterra, sines, table_path
from odeprocess.forecasting.forecaster import Forecaster
from odeprocess.posterior.model import Model
from odeprocess.posterior.model_folder import CARD as MODEL_FILE, FORMAT
from odeprocess.process import Grid, variant
from odeprocess.training.fit import fit
from odeprocess.training.options import FitOptions
from odeprocess.training.recipes import make_recipe

from .model_view import NOTES

KEPT = f"playground-{FORMAT}"  # models in another format are left alone, and trained anew
SERIES, BATCH, STILL_STEPS = 128, 32, 1800
NOISE = 0.02  # so that the models bear with clicks that are a little off
SIZES = {"l_dim": 4, "z_dim": 8, "h_dim": 32, "r_dim": 32}
SOLVER = Grid(steps=16, order=2)  # few stages: compiling them takes most of the time
PROCESSES = {"sines": ("ndp-linear", 200), "predator-prey": ("ndp-skip", 600)}  # and steps: what is linear is learned sooner
BESIDE = {"Neural process": "np"}
Progress = Callable[[float], Any]

SINES = {
    "title": "Sines",
    "about": "Trained on 128 curves a·sin(t − b), with amplitudes up to 1, shifts up to ½ and a little noise.",
    "beside": BESIDE,
    "ranges": [[-1.5, 1.5]],
}
PREY = {
    "title": "Predators and prey",
    "about": "Trained on 128 noisy Lotka–Volterra trajectories. Click in either plot: an observation may be of one animal alone.",
    "values": ["prey", "predators"],
    "ranges": [[0.0, 3.2], [0.0, 2.2]],
    "beside": BESIDE,
}
THEOPHYLLINE = {
    "title": "Theophylline",
    "about": "Trained on the blood of twelve subjects after a dose of theophylline (R's data set Theoph).",
    "time": "hours after the dose",
    "values": ["theophylline, mg/l"],
    "static": ["dose, mg/kg", "weight, kg"],
    "ranges": [[0.0, 14.0]],
}


def cache() -> Path:
    """Where the models are kept; `ODEPROCESS_CACHE` names another place."""
    return Path(os.environ.get("ODEPROCESS_CACHE") or Path.home() / ".cache" / "odeprocess") / KEPT


def available() -> list[str]:
    """The models that can be had: theophylline only where its data set is found."""
    try:
        table_path("theophylline")
    except (OSError, ValueError):
        return ["sines", "predator-prey"]
    return ["sines", "predator-prey", "theophylline"]


def ready(name: str, root: Path) -> bool:
    """Whether a model has been trained."""
    return (root / name / MODEL_FILE).exists()


def train(name: str, root: Path, progress: Progress = lambda part: None) -> Path:
    """Trains a model unless it is there; returns its folder, which is there whole or not at all.

    Arguments:
        name: one of `available`.
        root: the folder that holds it.
        progress: is told how much is done, from 0 to 1.
    """
    folder = root / name
    if ready(name, root):
        return folder
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=root, prefix=".") as temporary:
        made = Path(temporary) / name
        if name == "theophylline":
            _theophylline(made, progress)
        else:
            source, notes = (sines, SINES) if name == "sines" else (lotka_volterra, PREY)
            _pair(source, notes, *PROCESSES[name], made, progress)
        with locked(root):  # another process may have trained it meanwhile: theirs is as good
            if not ready(name, root):
                shutil.rmtree(folder, ignore_errors=True)
                made.rename(folder)
    return folder


def _pair(source: Any, notes: dict[str, Any], spec: str, steps: int, folder: Path, progress: Progress) -> None:
    """A neural ODE process, and a neural process beside it."""
    series = source.sample(SERIES, key=jr.key(0), noise=NOISE)
    missing = series.channels > 1 or None
    options = {"epochs": round(steps * BATCH / SERIES)}
    recipe = make_recipe(series, variant(spec, missing=missing, solver=SOLVER, **SIZES), options=options, held_out=0)
    still = FitOptions(epochs=STILL_STEPS * BATCH // SERIES, batch_size=BATCH, learning_rate=3e-3, schedule="cosine")
    total = recipe.options.epochs + recipe.options.resolved(learned_prior=True).num_em_epochs + still.epochs
    done = _counter(total, progress)
    _save(fit(series, recipe.specs[0], options=recipe.options, sampler=recipe.sampler, progress=done).model, notes, folder)
    plain = fit(series, variant("np", missing=missing), sampler=recipe.sampler, options=still, progress=done).model
    (part,) = BESIDE.values()
    _save(plain, {k: v for k, v in notes.items() if k != "beside"}, folder / part)


def _theophylline(folder: Path, progress: Progress) -> None:
    epochs = 150
    forecaster = Forecaster(model="ndp-skip", held_out=0, options={"epochs": epochs, "em_epochs": 2 * epochs})
    columns = {"series": "series", "time": "t", "values": "y1", "static": ["dose", "wt"]}
    forecaster.fit(table_path("theophylline"), **columns, progress=_counter(3 * epochs, progress))
    model = forecaster.model_
    forecaster.model_ = dataclasses.replace(model, info={**model.info, NOTES: THEOPHYLLINE})
    forecaster.save(folder)


def _save(model: Model, notes: dict[str, Any], folder: Path) -> None:
    dataclasses.replace(model, info={**model.info, NOTES: notes}).save(folder)


def _counter(total: int, progress: Progress) -> Callable[[str], None]:
    done = iter(range(1, total + 1))
    return lambda note: progress(min(1.0, next(done, total) / total))
