"""`learn`: our recipe from beginning to end.

The simplest process is trained, unless another soon leaves it far behind, and others for a short time. Where one of them may
predict series it has not seen better, it is trained in full too. The intervals of the best are put right on those series.
"""

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import jax.random as jr
import numpy as np

from odeprocess.common import checks
from odeprocess.data.series import Series
from odeprocess.data.tasks import TaskSampler
from odeprocess.posterior.held_out import WORST, errors_on
from odeprocess.posterior.model import Model

from .fit import TrainingError, fit
from .gauss_newton import can_converge, gauss_newton_fit
from .recipes import recipe

RIVALS = ("ndp-linear", "ndp-state")  # the simplest first
HEAT = 5  # times shorter than a training; as many times smaller may errors become by the rest of it
DOUBTFUL = 0.03  # typical error of the first after a heat, in scaled units, from which others may rule it out
AS_GOOD = 0.03  # differences of typical errors that tell nothing
ENOUGH = 1e-3  # typical error, in scaled units, below which nobody else is tried
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

    Some series are held out. On the others `"ndp-linear"` is trained to convergence, whose dynamics and readout are linear, and
    for a fifth of the time `"ndp-state"`, whose state moves by any law that is the same at all times. Each is asked about the
    second half of the held-out series given the first, and about values between others. If the second comes near enough that it
    might still win, or is better already, it is trained in full; where the first is off by less than a thousandth of the values'
    spread, the second is not tried, and where the second is far better after a fifth of the time, the first is not trained
    longer. The simplest that is not worse than the best, by more than a standard error, is kept: where dynamics are linear, a
    linear process is many times more accurate than a network that has learned them. At last intervals are calibrated, on the
    held-out series and on some of the others.

    Arguments:
        series: in the user's units, from `make_series`.
        steps: as in `recipe`. The default takes two to three minutes on two cores; longer where the second
            process is trained in full on hundreds of series.
        seed: of everything random.
        rivals: variants with a learned prior, the simplest first. `"ndp-skip"` may join where laws change with time.
        held_out: how many series are held out; by default a fifth of them, 60 at most.
        progress: as in `fit`.

    Returns:
        A calibrated model. `model.spec.variant` says who won, `model.info["contest"]` how: by the typical errors of all that
        were tried, in scaled units.
    """
    checks.instance("series", series, Series, "a batch of series: make one with make_series(t, y)")
    checks.require(len(rivals) > 0, "`rivals` is empty; expected the names of one variant or more, the simplest first.")
    kept, held = held_back(series, held_out)
    (model,) = winners(kept, held, steps=steps, seeds=(seed,), rivals=rivals, progress=progress)
    assert model is not None  # `winners` raises where all break down
    for refined in (True, False):
        model = model.calibrated(held, seen=kept, refined=refined, key=jr.key(seed))
    return model


def held_back(series: Series, count: int | None = None) -> tuple[Series, Series]:
    """The series to train on, and `count` others, chosen at random and always the same, which are not."""
    total = len(series)
    count = min(HELD_OUT, total // 5) if count is None else count
    checks.require(
        isinstance(count, int) and 0 < count < total - 1,
        f"{checks.shown(count)} of {total} series would be held out; expected a whole number, and two or more left to train on.",
    )
    order = np.random.default_rng(0).permutation(total)  # tables are often sorted
    return series[np.sort(order[count:])], series[np.sort(order[:count])]


def winners(
    kept: Series, held: Series, *, steps: int, seeds: Sequence[int], rivals: Sequence[str] = RIVALS, progress: Any = None
) -> list[Model | None]:
    """For each seed the process that wins the contest, trained in full; its `info` remembers how it went. As in `Fit.models`."""

    def models(rival: str, seeds: Sequence[int], steps: int) -> tuple[TaskSampler, Iterable[tuple[int, Model | None]]]:
        plan = recipe(kept, steps=steps, spec=rival)
        try:
            found = fit(series=kept, seeds=seeds, progress=progress, **plan).models if seeds else []
        except TrainingError:  # another may do better
            found = [None for _ in seeds]
        return plan["sampler"], zip(seeds, found, strict=True)

    def trained(rival: str, seeds: Sequence[int]) -> dict[int, Entry]:
        sampler, found = models(rival, seeds, steps)
        return {seed: _entry(model, kept, held, sampler, seed) for seed, model in found}

    def heat(rival: str, seeds: Sequence[int]) -> dict[int, Entry]:
        _, found = models(rival, [seed for seed in seeds if seed not in heats[rival]], max(1, steps // HEAT))
        heats[rival] |= {seed: Entry(None, _errors(model, held, seed)) for seed, model in found}
        return heats[rival]

    heats: dict[str, dict[int, Entry]] = {rival: {} for rival in rivals}
    first, *others = rivals
    early = heat(first, seeds) if others else {}
    doubtful = [seed for seed, entry in early.items() if entry.errors.mean() > np.log(DOUBTFUL)]
    beaten = {seed for rival in others for seed in doubtful if much_worse(early[seed], heat(rival, doubtful)[seed])}
    entries = {seed: [early[seed]] for seed in beaten}
    entries |= {seed: [entry] for seed, entry in trained(first, [seed for seed in seeds if seed not in beaten]).items()}
    for rival in others:
        so_far = {seed: _simplest(entries[seed]).errors for seed in seeds}
        open_ = [seed for seed in seeds if so_far[seed].mean() > np.log(ENOUGH)]
        tried = heat(rival, open_)
        full = trained(rival, [seed for seed in open_ if may_win(tried[seed].errors, so_far[seed])])
        for seed in open_:
            entries[seed].append(full.get(seed, tried[seed]))
    best = [_noted(_simplest(entries[seed]).model, rivals, entries[seed]) for seed in seeds]
    if not any(best):
        raise TrainingError(f"Every process broke down: {', '.join(rivals)}. Look for extreme values in the series.")
    return best


class Entry(NamedTuple):
    """A rival that was trained in full, or (without the model) for a heat only, and its errors on held-out series."""

    model: Model | None
    errors: np.ndarray


def _entry(model: Model | None, kept: Series, held: Series, sampler: TaskSampler, seed: int) -> Entry:
    """A trained model, or what it settles to, if that is better on held-out series."""
    entry = Entry(model, _errors(model, held, seed))
    if model is None or not can_converge(model):
        return entry
    further = gauss_newton_fit(model, kept, sampler, seed=seed)
    return entry if further is model else min(entry, Entry(further, _errors(further, held, seed)), key=lambda e: e.errors.mean())


def much_worse(one: Entry, other: Entry) -> bool:
    """Whether a process is so far behind another after a heat that more training would hardly make up for it."""
    return bool((one.errors - other.errors).mean() > np.log(HEAT))


def may_win(heat: np.ndarray, best: np.ndarray) -> bool:
    """Whether a process with such errors after a heat might be better than the best so far, if it were trained in full.

    Not if it is much worse; and not if it is as good, since what both then are left with is noise.
    """
    apart = heat - best
    level = max(AS_GOOD, apart.std() / len(apart) ** 0.5)
    return bool(apart.mean() < -level or level < apart.mean() < np.log(HEAT))


def simplest(errors: Sequence[np.ndarray]) -> int:
    """Which of several models, the simplest first, to keep, by their errors on the same series.

    The first that is not worse than the best by more than a standard error of the difference, and better than all simpler ones:
    where errors scatter, the standard error alone would prefer one that is neither simpler than another nor better.
    """
    means = [float(each.mean()) for each in errors]
    best = errors[int(np.argmin(means))]

    def as_good(each: np.ndarray) -> bool:
        off = each - best
        return bool(off.mean() <= off.std() / len(off) ** 0.5)

    return next(i for i, each in enumerate(errors) if as_good(each) and means[i] < min(means[:i], default=np.inf))


def _simplest(entries: Sequence[Entry]) -> Entry:
    full = [entry for entry in entries if entry.model is not None] or entries
    return full[simplest([entry.errors for entry in full])]


def _noted(model: Model | None, rivals: Sequence[str], entries: Sequence[Entry]) -> Model | None:
    note = {rival: float(np.exp(entry.errors.mean())) for rival, entry in zip(rivals, entries, strict=False)}
    return model and dataclasses.replace(model, info={**model.info, "contest": note})


def _errors(model: Model | None, held: Series, seed: int) -> np.ndarray:
    """Of a model that broke down: the worst there are."""
    asked = 2 * int((np.asarray(held.observed).sum(-1) > 1).sum())
    return np.full(asked, np.log(WORST)) if model is None else errors_on(model, held, key=jr.key(seed))
