"""The demo models of the playground: small, trained on first use in about a minute each, and cached."""

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

from .model_view import INFO_KEY

CACHE_NAME = f"playground-{FORMAT}"  # models in another format stay in their own folder
# Sizes and steps are chosen by hand, so that each model is trained in about a minute on two cores.
NUM_SERIES, BATCH_SIZE, NEURAL_PROCESS_STEPS = 128, 32, 1800
NOISE = 0.02  # standard deviation of the training noise, so that inexact clicks are plausible observations
SIZES = {"l_dim": 4, "z_dim": 8, "h_dim": 32, "r_dim": 32}
SOLVER = Grid(steps=16, order=2)  # few stages, because compiling them takes most of the time
PROCESSES = {"sines": ("ndp-linear", 200), "predator-prey": ("ndp-skip", 600)}  # variants, and their training steps
BESIDE = {"Neural process": "np"}  # the title and folder of the neural process beside each model
Report = Callable[[float], Any]

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


def cache_folder() -> Path:
    """The folder of the models, inside `ODEPROCESS_CACHE` if that is set."""
    return Path(os.environ.get("ODEPROCESS_CACHE") or Path.home() / ".cache" / "odeprocess") / CACHE_NAME


def available() -> list[str]:
    """The names of the models; theophylline only where its data set is found."""
    try:
        table_path("theophylline")
    except (OSError, ValueError):
        return ["sines", "predator-prey"]
    return ["sines", "predator-prey", "theophylline"]


def is_trained(name: str, root: Path) -> bool:
    """Whether a model is in the cache."""
    return (root / name / MODEL_FILE).exists()


def train(name: str, root: Path, report: Report = lambda part: None) -> Path:
    """Trains a model unless it is in the cache, and returns its folder.

    Arguments:
        name: one of `available`.
        root: the cache.
        report: called with the share of training that is done, from 0 to 1.
    """
    folder = root / name
    if is_trained(name, root):
        return folder
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=root, prefix=".") as temporary:
        new = Path(temporary) / name
        if name == "theophylline":
            _train_theophylline(new, report)
        else:
            source, info = (sines, SINES) if name == "sines" else (lotka_volterra, PREY)
            _train_pair(source, info, *PROCESSES[name], new, report)
        with locked(root):  # another process may have trained it in the meantime
            if not is_trained(name, root):
                shutil.rmtree(folder, ignore_errors=True)
                new.rename(folder)
    return folder


def _train_pair(source: Any, info: dict[str, Any], spec: str, steps: int, folder: Path, report: Report) -> None:
    """Trains a neural ODE process, and a neural process in a folder inside its own."""
    series = source.sample(NUM_SERIES, key=jr.key(0), noise=NOISE)
    missing = series.channels > 1 or None
    options = {"epochs": round(steps * BATCH_SIZE / NUM_SERIES)}
    recipe = make_recipe(series, variant(spec, missing=missing, solver=SOLVER, **SIZES), options=options, held_out=0)
    np_epochs = NEURAL_PROCESS_STEPS * BATCH_SIZE // NUM_SERIES
    np_options = FitOptions(epochs=np_epochs, batch_size=BATCH_SIZE, learning_rate=3e-3, schedule="cosine")
    total = recipe.options.epochs + recipe.options.resolved(learned_prior=True).num_em_epochs + np_epochs
    advance = _count_epochs(total, report)
    trained = fit(series, recipe.specs[0], options=recipe.options, sampler=recipe.sampler, progress=advance)
    _save(trained.model, info, folder)
    np_spec = variant("np", missing=missing)
    neural_process = fit(series, np_spec, sampler=recipe.sampler, options=np_options, progress=advance)
    (inner_folder,) = BESIDE.values()
    _save(neural_process.model, {k: v for k, v in info.items() if k != "beside"}, folder / inner_folder)


def _train_theophylline(folder: Path, report: Report) -> None:
    epochs = 150  # in the first half; chosen by hand
    forecaster = Forecaster(model="ndp-skip", held_out=0, options={"epochs": epochs, "em_epochs": 2 * epochs})
    columns = {"series": "series", "time": "t", "values": "y1", "static": ["dose", "wt"]}
    forecaster.fit(table_path("theophylline"), **columns, progress=_count_epochs(3 * epochs, report))
    model = forecaster.model_
    forecaster.model_ = dataclasses.replace(model, info={**model.info, INFO_KEY: THEOPHYLLINE})
    forecaster.save(folder)


def _save(model: Model, info: dict[str, Any], folder: Path) -> None:
    dataclasses.replace(model, info={**model.info, INFO_KEY: info}).save(folder)


def _count_epochs(total: int, report: Report) -> Callable[[str], None]:
    """Returns a function that is called after each epoch and reports the share that is done."""
    count = iter(range(1, total + 1))
    return lambda note: report(min(1.0, next(count, total) / total))
