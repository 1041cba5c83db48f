"""The models of the scoreboard, by name, and how each is trained."""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path

from odeprocess.experiments.baselines import attentive_neural_process
from odeprocess.experiments.baselines.attentive_neural_process import AttentiveNeuralProcess
from odeprocess.experiments.paper.protocol import protocol
from odeprocess.posterior.model import Model, load
from odeprocess.training.fit import fit
from odeprocess.training.model_selection import held_back, winners
from odeprocess.training.recipes import recipe

from .tasks import ScoreboardTask

PAPER = {"paper-ndp": "ndp", "paper-np": "np"}  # trained as in the paper
GAUSSIAN_PROCESSES = ("gp-series", "gp-shared", "gp-oracle")
STEPS, BASELINE_STEPS, QUICK_STEPS = 2000, 3000, 20  # gradient steps: of the default model, of baselines, of a rehearsal

Progress = Callable[[str], None]


def load_or_train(task: ScoreboardTask, name: str, seeds: tuple[int, ...], folder: Path, progress: Progress) -> list[Model]:
    """The models of all seeds whose training did not diverge: loaded from `folder` if all are there, else trained and saved.

    So they can be trained on one machine and scored on another, and interrupted scoring does not train again.
    """
    places = [folder / f"model-{i}" for i in range(len(seeds))]
    if all(place.exists() for place in places):
        return [load(place) for place in places]
    models = train(task, name, seeds, progress)
    for place, model in zip(places, models, strict=True):
        if model is not None:
            model.save(place)
    return [model for model in models if model is not None]


def train(task: ScoreboardTask, name: str, seeds: tuple[int, ...], progress: Progress) -> Sequence[Model | None]:
    """Trains a model, once for each seed; `None` where training diverged."""
    series = task.train
    if name == "default":
        kept, held = held_back(series)
        return winners(kept, held, steps=QUICK_STEPS if task.quick else STEPS, seeds=seeds, progress=progress)
    if name in PAPER:
        plan = protocol(task.name)
        plan = plan.replace(epochs=2) if task.quick else plan
        return plan.fit(PAPER[name], series, seeds=seeds, progress=progress).models
    plan = recipe(series, spec=name, steps=QUICK_STEPS if task.quick else BASELINE_STEPS)
    plan = {**plan, "options": dataclasses.replace(plan["options"], em_epochs=0)}
    return fit(series=series, seeds=seeds, progress=progress, **plan).models


def calibrate(model: Model, task: ScoreboardTask, *, refined: bool, draws: int) -> Model:
    """The default model, calibrated on the series that were held out of its training and on some of the others."""
    kept, held = held_back(task.train)
    return model.calibrated(held, seen=kept, refined=refined, draws=draws)


def train_attentive(task: ScoreboardTask, seed: int) -> AttentiveNeuralProcess:
    """An attentive neural process."""
    series, steps = task.train, QUICK_STEPS if task.quick else BASELINE_STEPS
    return attentive_neural_process.train(series, recipe(series)["sampler"], steps, seed)
