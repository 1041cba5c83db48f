"""`learn`: our recipe from beginning to end.

Several processes are trained for a short time. The one that predicts series it has not seen best is trained in full, and its
intervals are put right on those series.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax.random as jr
import numpy as np

from . import checks
from .heldout import WORST, errors_on
from .model import Model
from .recipes import recipe
from .series import Series
from .train import fit

RIVALS = ("ndp-linear", "ndp-state")  # the simplest first
HEAT = 5  # times shorter than the training of the winner
HELD_OUT = 60  # series at most, of those that are given; a fifth of them if they are fewer


def learn(
    series: Series,
    *,
    steps: int = 2000,
    seed: int = 0,
    rivals: Sequence[str] = RIVALS,
    held_out: int | None = None,
    progress: bool | Callable[[str], None] | None = None,
) -> Model:
    """The most accurate model that we know how to make of series, in one call.

    Some series are held out. Two processes are trained on the others for a short time: `"ndp-linear"`, whose dynamics and
    readout are linear, and `"ndp-state"`, whose state moves by any law that is the same at all times. Each is asked about the
    second half of the held-out series given the first, and about values between others. The simplest that is not worse than
    the best, by more than a standard error, is trained in full: where dynamics are linear, a linear process is many times
    more accurate than a network that has learned them. At last intervals are calibrated, again on the held-out series.

    Arguments:
        series: in the user's units, from `make_series`.
        steps: as in `recipe`. The default takes under three minutes on two cores, half of them for the contest.
        seed: of everything random.
        rivals: variants with a learned prior, the simplest first. `"ndp-skip"` may join where laws change with time.
        held_out: how many series are held out; by default a fifth of them, 60 at most.
        progress: as in `fit`.

    Returns:
        A calibrated model. `model.spec.variant` says who won, `model.info["contest"]` how: by the typical errors of all, in
        scaled units.
    """
    checks.instance("series", series, Series, "a batch of series: make one with make_series(t, y)")
    kept, held = held_back(series, held_out)
    (model,) = winners(kept, held, steps=steps, seeds=(seed,), rivals=rivals, progress=progress)
    assert model is not None  # `fit` raises where every seed breaks down
    return model.calibrated(held, key=jr.key(seed)).calibrated(held, refined=False, key=jr.key(seed))


def held_back(series: Series, count: int | None = None) -> tuple[Series, Series]:
    """The series to train on, and `count` others, chosen at random and always the same, which are not."""
    total = len(series)
    count = min(HELD_OUT, total // 5) if count is None else count
    checks.require(
        isinstance(count, int) and 0 < count < total - 1,
        f"{count!r} of {total} series would be held out; expected a whole number, and two or more left to train on.",
    )
    order = np.random.default_rng(0).permutation(total)  # tables are often sorted
    return series[np.sort(order[count:])], series[np.sort(order[:count])]


def winners(
    kept: Series, held: Series, *, steps: int, seeds: Sequence[int], rivals: Sequence[str] = RIVALS, progress: Any = None
) -> list[Model | None]:
    """For each seed the process that wins the contest, trained in full; its `info` remembers how it went. As in `Fit.models`."""
    short = max(1, steps // HEAT)
    heats = [fit(series=kept, seeds=seeds, progress=progress, **recipe(kept, steps=short, spec=name)) for name in rivals]
    errors = [_errors([heat.models[i] for heat in heats], held, seed) for i, seed in enumerate(seeds)]
    best = [simplest(each) for each in errors]
    found: dict[int, Model | None] = {}
    for rival in set(best):
        mine = [seed for seed, winner in zip(seeds, best, strict=True) if winner == rival]
        plan = recipe(kept, steps=steps, spec=rivals[rival])
        found |= zip(mine, fit(series=kept, seeds=mine, progress=progress, **plan).models, strict=True)
    notes = [{name: float(np.exp(each.mean())) for name, each in zip(rivals, rows, strict=True)} for rows in errors]
    models = [(found[seed], note) for seed, note in zip(seeds, notes, strict=True)]
    return [model and dataclasses.replace(model, info={**model.info, "contest": note}) for model, note in models]


def simplest(errors: Sequence[np.ndarray]) -> int:
    """Which of several models, the simplest first, to keep, by their errors on the same series.

    The first that is not worse than the best by more than a standard error of the difference.
    """
    best = min(errors, key=lambda e: e.mean())
    apart = [each - best for each in errors]
    return next(i for i, off in enumerate(apart) if off.mean() <= off.std() / max(1, len(off)) ** 0.5)


def _errors(models: Sequence[Model | None], held: Series, seed: int) -> list[np.ndarray]:
    known = [model and errors_on(model, held, key=jr.key(seed)) for model in models]
    length = next(len(each) for each in known if each is not None)
    return [np.full(length, np.log(WORST)) if each is None else each for each in known]  # a model that broke down never wins
