"""`fit`: the one path from series to a calibrated model."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax.random as jr

from odeprocess.common.compilation import return_memory
from odeprocess.data.scaling import Origin, Scaling
from odeprocess.data.series import Series
from odeprocess.data.tasks import TaskSampler
from odeprocess.posterior.calibration import HeldOutErrors
from odeprocess.posterior.latent_posterior import Inference, choose_inference
from odeprocess.posterior.model import Model
from odeprocess.posterior.posterior import DRAWS
from odeprocess.process import Spec

from .fit_result import Fit
from .model_selection import Splits, Trainer, best_on_held_out, scorable, select, split_series
from .options import FitOptions
from .plan import check_seeds
from .recipes import Effort, make_recipe


def fit(
    series: Series,
    model: str | Spec = "auto",
    *,
    effort: Effort = "default",
    options: FitOptions | Mapping[str, Any] | None = None,
    sampler: TaskSampler | Mapping[str, Any] | None = None,
    sizes: Mapping[str, Any] | None = None,
    held_out: int | None = None,
    validation: Series | None = None,
    scaling: Scaling | None = None,
    origin: Origin = "absolute",
    seeds: int | Sequence[int] | None = None,
    draws: int = DRAWS,
    progress: bool | Callable[[str], None] | None = None,
    checkpoint: str | Path | None = None,
    checkpoint_every: float = 10.0,
    resume: bool = False,
) -> Fit:
    """Trains a model on series, chooses between candidates and calibrates it, as far as nothing else is asked for.

    With few series (under 40) all are trained on, and models that each leave a quarter of them out tell how good the model is;
    of more, a fifth (60 at most) are held out. `"auto"` trains several processes and keeps the one with the highest log
    predictive density on series that it was not trained on, given 0 to 10 observations of each. Calibration then sets the
    spread of its predictions right on the same series.

    Arguments:
        series: the training series, in the user's units: from `make_series`, or drawn from `odeprocess.data`.
        model: `"auto"`, a variant's name, or a spec from `variant`, which may hold parts of your own.
        effort: `"quick"`, a usable model soon; `"default"`; `"best"`, longer training and several seeds.
        options: changes to what the recipe chooses, such as `{"epochs": 100}`; or `FitOptions(…)`, which say everything about
            the optimisation: then no series are held out, and nothing is calibrated, unless `held_out` is given too.
        sampler: how tasks are drawn; or changes to what the recipe chooses, such as `{"context": (0, 5)}`.
        sizes: changes to the process, such as `{"l_dim": 4, "z_dim": 8}`; see `Spec`.
        held_out: how many series are kept from training, to choose and to calibrate on; 0 for none.
        validation: series to evaluate on in training; each seed then keeps its best epoch instead of its last.
        scaling: fitted to `series` if not given. `Scaling.identity(channels)` for none, as in the paper.
        origin: whether all series share one clock, `"absolute"`, or each counts time from its `"first"` observation: for
            subjects, batches or events that begin at different times. For the scaling that is fitted here.
        seeds: one seed, or several to train at once; 0 by default, and three seeds with `effort="best"`.
        draws: that describe a posterior when the model is calibrated: best as many as will be asked for.
        progress: whether to show a progress bar; by default on a terminal. Or a function to call after each epoch with a note.
        checkpoint: a folder in which to keep how far training has come. It stays when training is done: a call with
            `resume` then gives the same `Fit` again without training. `odeprocess.training.checkpoints.discard` removes it.
        checkpoint_every: the least number of seconds between two checkpoints; 0 for one after each epoch.
        resume: whether to go on from the checkpoint, if there is one. On the same machine, with as many threads, training
            ends as if it had never been stopped: with the same weights and history, bit by bit. All else must be given
            as it was.

    Returns:
        A `Fit`: `fit(…).model` is the model, `fit(…).notes` say what was chosen.

    Raises:
        ValueError: where the series or options do not fit together, the checkpoint is of another run, or another run is
            training into its folder.
        TrainingError: where training broke down for every seed and candidate.

    Examples:
        >>> import jax, odeprocess as odp
        >>> series = odp.data.lines.sample(20, key=jax.random.key(0))
        >>> odp.fit(series, "np", options=odp.FitOptions(epochs=1)).model
        Model(np, 1 channel(s), 25982 parameters)
    """
    recipe = make_recipe(series, model, effort, options=options, sampler=sampler, sizes=sizes, held_out=held_out)
    seed_array = check_seeds(list(range(recipe.seeds)) if seeds is None else seeds)
    seed, splits = int(seed_array[0]), split_series(series, recipe, 0 if seeds is None else int(seed_array[0]))
    trainer = Trainer(
        recipe, scaling=scaling, origin=origin, validation=validation, progress=progress, folder=checkpoint,
        save_every=checkpoint_every, resume=resume,
    )  # fmt: skip
    (spec, *others), scores = recipe.specs, {}
    if others:
        spec, scores = select(trainer, splits, seed)
    training = series if not (recipe.held_out or recipe.folds) else splits.training
    found = trainer.train(spec, training, seed_array, held_out=splits.held_out)
    if scores and splits.held_out is not None:
        found = best_on_held_out(found, splits.held_out, seed)
    models = tuple(each and calibrate(each, trainer, splits, seed=seed, draws=draws) for each in found.models)
    return_memory()
    return dataclasses.replace(found, models=models, recipe=recipe, scores=scores)


def calibrate(model: Model, trainer: Trainer, splits: Splits, *, seed: int, draws: int) -> Model:
    """The model calibrated for every kind of inference it can do, on series that it, or models like it, were not trained on."""
    recipe = trainer.recipe
    if (splits.held_out is None and not splits.folds) or not model.can_be_calibrated:
        return model
    kinds: list[Inference] = ["exact", "amortised"] if choose_inference(model.process, "auto") == "exact" else ["amortised"]
    for kind in kinds:
        options: dict[str, Any] = {"inference": kind, "key": jr.key(seed), "draws": draws}
        if splits.held_out is not None:
            # An encoder knows its training series by heart, so they tell little about what it does not know.
            seen = splits.training if recipe.effort == "best" and kind == "exact" else None
            errors = model.held_out_errors(splits.held_out, seen=seen, **options) if scorable(splits.held_out) else None
        else:
            parts = [(trainer.train_fold(model.spec, fold, seed), fold.held_out) for fold in splits.folds]
            found = [each.held_out_errors(held, **options) for each, held in parts if each is not None and scorable(held)]
            errors = HeldOutErrors.joined(found).anywhere() if found else None
        if errors is not None:
            model = model.with_calibration(errors, inference=kind)
    return model
