"""Model selection: candidates are trained, and held-out series choose by their log predictive density.

The density is that of values that the model was not given, after 1, 3 or 10 observations anywhere in a series or at its
beginning, or half of them: what users ask for. Every candidate is trained for a short time first; those that are then far
behind, or level with one that was trained in full, are trained no further.
"""

import dataclasses
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax.random as jr
import numpy as np

from odeprocess.data.scaling import Origin, Scaling
from odeprocess.data.series import Series
from odeprocess.posterior.held_out import log_predictive_densities
from odeprocess.posterior.model import Model
from odeprocess.process import Spec

from .fit_result import Fit
from .gauss_newton import can_converge, gauss_newton_fit
from .recipes import Recipe
from .train import TrainingError, train

SHORT_RUN = 5  # times shorter than a training
# Densities are in nats a value of standardised data. A normal error that becomes five times as small, which a full training
# rarely brings after a short one, is worth log 5.
HOPELESS = math.log(SHORT_RUN)
LEVEL = 0.02  # nats: closer scores after a short run mean that noise is what is left; chosen by hand
SHARP = 5.0  # nats: errors of a thousandth of the spread; no other candidate is tried


class Fold(NamedTuple):
    """Series to train on, and series that are left out; `name` tells folds apart."""

    name: str
    training: Series
    held_out: Series


class Splits(NamedTuple):
    """How the series are used.

    Attributes:
        training: the series that the model which is kept is trained on.
        held_out: those that it is not trained on, if any.
        folds: without these, the parts that models like it are trained on and leave out.
    """

    training: Series
    held_out: Series | None
    folds: tuple[Fold, ...]


def split_series(series: Series, recipe: Recipe, seed: int) -> Splits:
    """The splits that a recipe asks for, at random: tables are often sorted.

    In folds some series come twice, in place of those that are left out: so all models share one compilation, which takes
    longer than their training.
    """
    order = np.random.default_rng(seed).permutation(len(series))
    size = -(-len(order) // recipe.folds) if recipe.folds else 0
    rolled = [np.roll(order, -size * i) for i in range(recipe.folds)]
    folds = tuple(
        Fold(f"fold-{i}", series[np.resize(each[size:], len(each))], series[each[:size]]) for i, each in enumerate(rolled)
    )
    held_out = series[order[: recipe.held_out]] if recipe.held_out else None
    return Splits(series[order[recipe.held_out :]], held_out, folds)


class Trainer:
    """Trains processes by one recipe and keeps what it has trained.

    Arguments:
        recipe: how.
        scaling, origin, progress, resume: as in `fit`.
        validation: as in `fit`.
        folder: that of checkpoints; where there are several trainings, each has a folder in it.
        save_every: the least number of seconds between two checkpoints.
    """

    def __init__(
        self,
        recipe: Recipe,
        *,
        scaling: Scaling | None = None,
        origin: Origin = "absolute",
        validation: Series | None = None,
        progress: bool | Callable[[str], None] | None = None,
        folder: str | Path | None = None,
        save_every: float = 10.0,
        resume: bool = False,
    ):
        self.recipe, self._validation = recipe, validation
        self._options = {"scaling": scaling, "origin": origin, "progress": progress}
        self._checkpoint = {"checkpoint_every": save_every, "resume": resume}
        self._folder = None if folder is None else Path(folder)
        self._single = len(recipe.specs) == 1 and not recipe.folds
        self._trained: dict[tuple[Any, ...], Fit] = {}
        self._converging: dict[Spec, list[bool]] = {}  # whether Gauss–Newton steps improved each model of a spec

    def train(
        self,
        spec: Spec,
        series: Series,
        seeds: Sequence[int] | np.ndarray,
        *,
        held_out: Series | None = None,
        name: str | None = None,
    ) -> Fit:
        """Trains in full; a linear process to convergence, where held-out series agree.

        `name` is that of the training, and of its folder of checkpoints; by default the variant's, with the number of seeds.
        """
        name = name or (spec.variant if len(seeds) == 1 else f"{spec.variant}-{len(seeds)}-seeds")
        known = (name, spec, tuple(np.asarray(seeds).tolist()))
        if known not in self._trained:
            found = self._run(spec, series, seeds, name, held_out=held_out)
            models = tuple(each and self._converge(each, series, held_out) for each in found.models)
            self._trained[known] = dataclasses.replace(found, models=models)
        return self._trained[known]

    def train_briefly(self, spec: Spec, series: Series, seed: int) -> Model | None:
        """A short training; `None` where it broke down."""
        try:
            return self._run(spec, series, [seed], f"{spec.variant}-short", epochs=SHORT_RUN).model
        except TrainingError:
            return None

    def train_fold(self, spec: Spec, fold: Fold, seed: int) -> Model | None:
        """A model of one fold; `None` where its training broke down."""
        try:
            return self.train(spec, fold.training, [seed], held_out=fold.held_out, name=f"{fold.name}-{spec.variant}").model
        except TrainingError:
            return None

    def _run(self, spec: Spec, series: Series, seeds: Any, name: str, *, held_out: Series | None = None, epochs: int = 1) -> Fit:
        """Trains for a part of the recipe's epochs, one in `epochs`."""
        options = self.recipe.options
        if epochs > 1:
            em = options.resolved(learned_prior=spec.prior == "learned").num_em_epochs
            fewer = {"epochs": max(1, options.epochs // epochs), "em_epochs": em // epochs, "patience": None}
            options = dataclasses.replace(options, **fewer)
        validation = self._validation
        if validation is None and options.patience is not None:
            validation = held_out
        folder = self._folder if self._folder is None or self._single else self._folder / name
        return train(
            spec, series, validation=validation, sampler=self.recipe.sampler, options=options, seeds=seeds, checkpoint=folder,
            **self._options, **self._checkpoint,
        )  # fmt: skip

    def _converge(self, model: Model, series: Series, held_out: Series | None) -> Model:
        """The model taken to convergence by Gauss–Newton, where that predicts held-out series better.

        Without such series, where it did so for most models of the folds.
        """
        votes = self._converging.setdefault(model.spec, [])
        known = held_out is not None and scorable(held_out)
        if not can_converge(model) or not (known or (votes and np.mean(votes) > 0.5)):
            return model
        seed = int(model.info["seed"])
        further = gauss_newton_fit(model, series, self.recipe.sampler, seed=seed)
        if further is model or not known:
            return further
        assert held_out is not None
        before, after = (score_model(each, held_out, seed).mean() for each in (model, further))
        votes.append(bool(after > before))
        return further if after > before else model


def select(trainer: Trainer, splits: Splits, seed: int) -> tuple[Spec, dict[str, float]]:
    """The candidate to keep, and each one's held-out log predictive density, in nats a value of standardised data."""
    specs = trainer.recipe.specs
    if any(scorable(fold.held_out) for fold in splits.folds):
        scores = [_score_folds(trainer, splits.folds, spec, seed) for spec in specs]
        full = list(range(len(specs)))
    elif splits.held_out is not None and scorable(splits.held_out):
        scores, full = _score_candidates(trainer, specs, splits.training, splits.held_out, seed)
    else:  # nothing tells them apart
        return specs[-1], {}
    full = [i for i in full if np.isfinite(scores[i]).all()]
    if not full:
        names = ", ".join(spec.variant for spec in specs)
        raise TrainingError(f"Training broke down for every candidate: {names}. Look for extreme values in the series.")
    best = full[simplest([scores[i] for i in full])]
    return specs[best], {spec.variant: float(each.mean()) for spec, each in zip(specs, scores, strict=True)}


def _score_candidates(
    trainer: Trainer, specs: tuple[Spec, ...], series: Series, held_out: Series, seed: int
) -> tuple[list[np.ndarray], list[int]]:
    """Scores after short runs, or after full ones for those that may win; also which those are."""
    scores = [score_model(trainer.train_briefly(spec, series, seed), held_out, seed) for spec in specs]
    ahead, full = max(each.mean() for each in scores), []
    for i, spec in enumerate(specs):
        best = max((scores[j].mean() for j in full), default=-np.inf)
        level = math.isfinite(best) and abs(scores[i].mean() - best) < LEVEL
        if best > SHARP or scores[i].mean() < max(ahead, best) - HOPELESS or level:
            continue
        try:
            model = trainer.train(spec, series, [seed], held_out=held_out).model
        except TrainingError:
            continue
        scores[i] = score_model(model, held_out, seed)
        full.append(i)
    return scores, full


def _score_folds(trainer: Trainer, folds: tuple[Fold, ...], spec: Spec, seed: int) -> np.ndarray:
    parts = [fold for fold in folds if scorable(fold.held_out)]
    return np.concatenate([score_model(trainer.train_fold(spec, fold, seed), fold.held_out, seed) for fold in parts])


def score_model(model: Model | None, held_out: Series, seed: int) -> np.ndarray:
    """Held-out log predictive densities, one for each question and series; −∞ for a model whose training broke down."""
    if model is None:
        return np.full(1, -np.inf)
    return log_predictive_densities(model, held_out, key=jr.key(seed))


def scorable(series: Series) -> bool:
    """Whether any series has a value left to predict once another is given."""
    return bool((np.asarray(series.observed).sum(-1) > 1).any())


def simplest(scores: Sequence[np.ndarray]) -> int:
    """Which of several models, the simplest first, to keep, by their densities of the same values.

    The first that is not worse than the best by more than a standard error of the difference, and better than all simpler ones:
    where densities scatter, the standard error alone would prefer one that is neither simpler than another nor better.
    """
    means = [float(each.mean()) for each in scores]
    best = scores[int(np.argmax(means))]

    def as_good(each: np.ndarray) -> bool:
        behind = best - each
        return bool(behind.mean() <= behind.std() / len(behind) ** 0.5)

    return next(i for i, each in enumerate(scores) if as_good(each) and means[i] > max(means[:i], default=-np.inf))


def best_on_held_out(found: Fit, held_out: Series, seed: int) -> Fit:
    """The fit whose best seed is that with the highest held-out density."""
    if len(found.models) == 1 or not scorable(held_out):
        return found
    return dataclasses.replace(found, best=int(np.argmax([score_model(each, held_out, seed).mean() for each in found.models])))
