"""From a checked table to a calibrated model."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.random as jr
import numpy as np

from odeprocess.common.compilation import return_memory
from odeprocess.common.progress import progress_bar
from odeprocess.posterior.calibration import HeldOutErrors
from odeprocess.posterior.model import Model
from odeprocess.training.fit import fit

from .choices import Choices
from .rows import TableRows


def train(
    long: TableRows,
    choices: Choices,
    *,
    seed: int,
    draws: int,
    progress: bool | Callable[[str], None] | None = None,
    checkpoint: str | Path | None = None,
    resume: bool = False,
) -> Model:
    """Trains a model, and puts its intervals right on series that it, or its like, has not seen.

    Arguments:
        long: the training table.
        choices: how.
        seed: of everything random.
        draws: that describe a posterior.
        progress: as in `fit`; the bar counts the epochs of all models.
        checkpoint: as in `fit`, with a folder inside for each model.
        resume: as in `fit`.
    """
    # The names decide about the order, so that the order of the rows does not matter.
    order = np.random.default_rng(seed).permutation(len(long))
    kept, held = order[choices.held_out :], order[: choices.held_out]
    epochs = choices.options.epochs + choices.options.num_em_epochs
    watched = None if choices.options.patience is None else long.series(held)
    with progress_bar(epochs * (1 + choices.folds), "training", show=progress) as advance:

        def fitted(name: str, index: np.ndarray) -> Model:
            parts: dict[str, Any] = {"spec": choices.spec, "sampler": choices.sampler, "options": choices.options}
            folder = None if checkpoint is None else Path(checkpoint) / name
            parts["series"], parts["validation"] = long.series(index), watched
            return fit(seeds=seed, progress=advance, checkpoint=folder, resume=resume, **parts).model

        model = fitted("model", kept)
        checked = [(model, held)] if len(held) else []
        for i, (left_out, others) in enumerate(folds_of(order, choices.folds)):
            checked.append((fitted(f"fold-{i}", others), left_out))
    model = _calibrated(model, checked, long, seed, draws) if checked else model
    return_memory()
    return model


def folds_of(order: np.ndarray, folds: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Series that each model leaves out, and those that it is trained on.

    Some of the latter are there twice, in place of those that are left out: so all models share one compilation, which takes
    longer than their training.
    """
    size = -(-len(order) // folds) if folds else 0
    rolled = [np.roll(order, -size * i) for i in range(folds)]
    return [(each[:size], np.resize(each[size:], len(each))) for each in rolled]


def _calibrated(model: Model, checked: list[tuple[Model, np.ndarray]], long: TableRows, seed: int, draws: int) -> Model:
    for refined in (True, False):
        found = []
        for each, index in checked:
            series = long.series(index)
            if (np.asarray(series.observed).sum(-1) > 1).any():
                found.append(each.held_out_errors(series, refined=refined, key=jr.key(seed), draws=draws))
        if found:
            misses = HeldOutErrors.joined(found)
            model = model.with_calibration(misses if len(checked) == 1 else misses.anywhere(), refined=refined)
    return model
