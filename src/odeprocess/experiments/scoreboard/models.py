"""The models of the scoreboard, by name, and how each is trained."""

from collections.abc import Callable, Sequence
from pathlib import Path

from odeprocess.experiments.baselines import attentive_neural_process
from odeprocess.experiments.baselines.attentive_neural_process import AttentiveNeuralProcess
from odeprocess.experiments.paper.protocol import protocol
from odeprocess.posterior.model import Model, load
from odeprocess.training.fit import fit
from odeprocess.training.recipes import BATCH, make_recipe

from .tasks import ScoreboardTask

PAPER = {"paper-ndp": "ndp", "paper-np": "np"}  # trained as in the paper
GAUSSIAN_PROCESSES = ("gp-series", "gp-shared", "gp-oracle")
BASELINE_STEPS, QUICK_STEPS = 3000, 20  # gradient steps: of the neural baselines, chosen by hand; of a rehearsal
DRAWS = 128  # latent draws behind a prediction

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
    series, steps = task.train, QUICK_STEPS if task.quick else BASELINE_STEPS
    epochs = max(1, round(steps * min(BATCH, len(series)) / len(series)))
    if name == "default":
        # One call for each seed, so that each selects a model and calibrates it by itself.
        short = {"epochs": epochs, "em_epochs": epochs} if task.quick else None
        return [
            fit(series, "auto", effort="best", options=short, seeds=seed, draws=DRAWS, progress=progress).model for seed in seeds
        ]
    if name in PAPER:
        plan = protocol(task.name)
        plan = plan.replace(epochs=2) if task.quick else plan
        return plan.fit(PAPER[name], series, seeds=seeds, progress=progress).models
    return fit(series, name, options={"epochs": epochs, "em_epochs": 0}, held_out=0, seeds=seeds, progress=progress).models


def train_attentive(task: ScoreboardTask, seed: int) -> AttentiveNeuralProcess:
    """Trains an attentive neural process."""
    series, steps = task.train, QUICK_STEPS if task.quick else BASELINE_STEPS
    return attentive_neural_process.train(series, make_recipe(series).sampler, steps, seed)
