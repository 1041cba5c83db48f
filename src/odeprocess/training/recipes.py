"""Recipes: which processes are trained on series of some kind, how large and for how long; the one place of these defaults.

`fit` and `Forecaster` train what `make_recipe` says. Whatever a user gives replaces a part of it.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from odeprocess.common import checks
from odeprocess.data.series import Series
from odeprocess.data.tasks import TaskSampler
from odeprocess.process import VARIANTS, Spec, variant

from .options import FitOptions
from .plan import padded_size

Effort = Literal["quick", "default", "best"]

CANDIDATES = ("ndp-linear", "ndp-state", "ndp-skip")  # of "auto", the simplest first
QUICK = ("ndp-skip",)  # the one that needs no choice: a linear path and a network beside it

# Gradient steps of the first phase, by effort; expectation–maximisation follows with `EM_PER_EPOCH` times as many epochs. 800 and
# 2000 are the steps with which tables and the scoreboard of docs/accuracy.md were measured before both became one recipe.
STEPS: dict[str, int] = {"quick": 200, "default": 800, "best": 2000}
SMALL_STEPS: dict[str, int] = {"quick": 50, "default": 100, "best": 400}  # for fewer than `SMALL` values
SEEDS: dict[str, int] = {"quick": 1, "default": 1, "best": 3}  # of the model that is kept, trained at once

SMALL = 1_000  # values: with fewer, networks are smaller and training is shorter; chosen by hand
SMALL_WIDTH = 24
BATCH = 49  # series a step; measured best of 25 to 98 on sines
LEARNING_RATE, CLIP = 3e-3, 100.0
SHORT, LONG = 12, 40  # most observations given in training, for short series and for long ones
MOST_ASKED = 28  # observations that a task asks for

FEW = 40  # series: with fewer, all are trained on, and models that each leave some out tell how good the model is
FOLDS, FEWEST_TO_FOLD = 4, 3
HELD_OUT = 60  # series at most, a fifth of them if they are fewer


@dataclasses.dataclass(frozen=True)
class Recipe:
    """What `fit` trains.

    Attributes:
        specs: the candidates, the simplest first; with several, held-out series choose.
        sampler: how tasks are drawn.
        options: of the optimisation.
        held_out: how many series are kept from training, to choose and to calibrate on.
        folds: how many models are trained for that instead, each without some of the series.
        seeds: how many of the kept model are trained.
        effort: what was asked for.
        notes: what was chosen, in sentences.
    """

    specs: tuple[Spec, ...]
    sampler: TaskSampler
    options: FitOptions
    held_out: int
    folds: int
    seeds: int
    effort: Effort
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain data; the spec is kept with the model."""
        plain = {"candidates": [spec.variant for spec in self.specs], "held_out": self.held_out, "folds": self.folds}
        plain |= {"seeds": self.seeds, "effort": self.effort}
        return {**plain, "sampler": dataclasses.asdict(self.sampler), "options": dataclasses.asdict(self.options)}


def make_recipe(
    series: Series,
    model: str | Spec = "auto",
    effort: Effort = "default",
    *,
    options: FitOptions | Mapping[str, Any] | None = None,
    sampler: TaskSampler | Mapping[str, Any] | None = None,
    sizes: Mapping[str, Any] | None = None,
    held_out: int | None = None,
) -> Recipe:
    """The recipe for training series; arguments as in `fit`."""
    checks.choice("effort", effort, ("quick", "default", "best"))
    checks.instance("series", series, Series, "a batch of series: make one with make_series(t, y)")
    checks.require(
        options is None or isinstance(options, (FitOptions, Mapping)),
        f"`options` is {checks.shown(options)}; expected FitOptions(…), or changes by name, such as {{'epochs': 100}}.",
    )
    checks.require(
        sizes is None or isinstance(sizes, Mapping),
        f"`sizes` is {checks.shown(sizes)}; expected sizes by name, such as {{'l_dim': 4, 'z_dim': 8}}.",
    )
    count = len(series)
    whole = isinstance(options, FitOptions)
    held_out, folds = _split(count, held_out, whole=whole)
    kept = count - held_out
    small = int(np.asarray(series.mask).sum()) < SMALL
    steps = round((SMALL_STEPS if small else STEPS)[effort] * kept / count)
    sizes_known = padded_size(kept, series.t.shape[1])
    optimisation = options if isinstance(options, FitOptions) else _options(sizes_known[0], steps, options or {})
    tasks = _sampler(sizes_known[1], series.channels, sampler, whole=whole)
    checks.require(
        whole or optimisation.patience is None or held_out > 0,
        f"`patience` is {checks.shown(optimisation.patience)}, but no series is held out to tell when to stop. Pass `held_out` "
        "as well.",
    )
    specs = _specs(series, model, effort, small=small, whole=whole, sizes=dict(sizes or {}))
    seeds = 1 if whole else SEEDS[effort]
    recipe = Recipe(specs, tasks, optimisation, held_out, folds, seeds, effort)
    return dataclasses.replace(recipe, notes=tuple(_notes(recipe, count)))


def _split(count: int, held_out: int | None, *, whole: bool) -> tuple[int, int]:
    """How many series are held out, and how many folds take their place."""
    folds = min(FOLDS, count) if held_out is None and FEWEST_TO_FOLD <= count < FEW and not whole else 0
    if held_out is None:
        held_out = 0 if count < FEW or whole else min(HELD_OUT, count // 5)
    checks.require(
        isinstance(held_out, int) and 0 <= held_out < max(count - 1, 1),
        f"`held_out` is {checks.shown(held_out)}; expected a whole number of series, and two or more of the {count} left "
        "to train on.",
    )
    return held_out, folds


def _options(count: int, steps: int, given: Mapping[str, Any]) -> FitOptions:
    known = {field.name for field in dataclasses.fields(FitOptions)}
    unknown = sorted(set(given) - known)
    checks.require(not unknown, f"`options` holds {', '.join(map(repr, unknown))}; expected names among {sorted(known)}.")
    batch = min(count, BATCH)
    base = FitOptions(
        epochs=max(1, round(steps * batch / count)),
        batch_size=batch,
        learning_rate=LEARNING_RATE,
        schedule="cosine",
        clip=CLIP,
        bucketed=True,  # tables come in many sizes
    )
    return dataclasses.replace(base, **{name: value for name, value in given.items() if value is not None})


def _sampler(length: int, channels: int, given: TaskSampler | Mapping[str, Any] | None, *, whole: bool) -> TaskSampler:
    if isinstance(given, TaskSampler):
        return given
    known = [field.name for field in dataclasses.fields(TaskSampler)]
    checks.require(
        given is None or (isinstance(given, Mapping) and set(given) <= set(known)),
        f"`sampler` is {checks.shown(given)}; expected a TaskSampler(…), or changes by name: {', '.join(known)}.",
    )
    if whole:
        return TaskSampler(**(given or {}))
    most = max(1, min(length // 2, SHORT if length * channels <= 128 else LONG))
    rest = max(1, min(length - most, MOST_ASKED))
    base = TaskSampler(context=(0, most), extra=(rest, rest), split="mixed", shared="nothing")
    return dataclasses.replace(base, **(given or {}))


def _specs(
    series: Series, model: str | Spec, effort: str, *, small: bool, whole: bool, sizes: dict[str, Any]
) -> tuple[Spec, ...]:
    if isinstance(model, Spec):
        return (model.replace(**sizes),)
    checks.require(
        isinstance(model, str) and (model == "auto" or model in VARIANTS),
        f"`model` is {checks.shown(model)}; expected 'auto', the name of a variant ({', '.join(VARIANTS)}), or a spec from "
        "variant(…).",
    )
    if model != "auto" and whole:  # everything is said
        return (variant(model, **sizes),)
    names = (QUICK if effort == "quick" else CANDIDATES) if model == "auto" else (model,)
    if model == "auto" or VARIANTS[model].prior == "learned":
        states = 2 if small and series.channels == 1 else max(4, series.channels + 2)
        width = {"h_dim": SMALL_WIDTH, "r_dim": SMALL_WIDTH} if small else {}
        sizes = {"l_dim": states, "z_dim": 2 * states, **width, "missing": series.channels > 1 or None, **sizes}
    return tuple(variant(name).replace(**sizes) for name in names)


def _notes(recipe: Recipe, count: int) -> list[str]:
    options, spec, sampler = recipe.options, recipe.specs[0], recipe.sampler
    if recipe.held_out:
        data = f"{recipe.held_out} of {count} series are held out, to choose and to calibrate on."
    elif recipe.folds:
        data = f"All {count} series are trained on; {recipe.folds} models that each leave some of them out calibrate intervals."
    else:
        data = f"All {count} series are trained on, and none is left to calibrate on: intervals are the model's own."
    learned = spec.prior == "learned"
    more = f", then {options.resolved(learned_prior=True).num_em_epochs} of expectation–maximisation" if learned else ""
    sooner = "" if options.patience is None else f" (fewer, when {options.patience} of them do not improve held-out series)"
    batch = min(options.batch_size, count - recipe.held_out)
    choice = "Candidates: " + ", ".join(spec.variant for spec in recipe.specs) + "." if len(recipe.specs) > 1 else ""
    return [
        data,
        *([choice] if choice else []),
        f"Training: {options.epochs} epochs{sooner}{more}, {batch} series a step.",
        f"Tasks give {sampler.context[0]} to {sampler.context[1]} observations of a series and ask for others.",
        f"Networks of width {spec.h_dim}; {spec.l_dim} latent states, {spec.z_dim - spec.l_dim} constant latents.",
    ]
