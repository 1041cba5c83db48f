"""Checks of everything that `fit` is given, and the plan of an epoch, which is what the compiled functions depend on."""

import dataclasses
import warnings
from collections.abc import Sequence
from typing import Any

import jax.random as jr
import numpy as np

from odeprocess.common import checks
from odeprocess.common.compilation import compiled
from odeprocess.data.scaling import Scaling
from odeprocess.data.series import Series, bucket, filled_up
from odeprocess.data.tasks import Task, TaskSampler
from odeprocess.process import AbstractFlow, Spec

from .epoch import Plan
from .options import FitOptions

SCATTERED_SHARE = 0.05  # of the time that all series cover: a warning follows where typical series are shorter; chosen by hand


def check_seeds(seeds: int | Sequence[int]) -> np.ndarray:
    """The seeds as an array, checked."""
    try:
        array = np.atleast_1d(np.asarray(seeds))
    except TypeError:  # for example a random key
        array = np.zeros(0)
    good = array.ndim == 1 and array.size > 0 and array.dtype.kind in "iu" and 0 <= array.min() and array.max() < 2**31
    checks.require(bool(good), f"`seeds` is {checks.shown(seeds)}; expected a whole number from 0 to 2³¹ − 1, or a list of them.")
    checks.require(
        len(set(array.tolist())) == array.size,
        f"`seeds` is {checks.shown(seeds)}; the same seed twice trains the same model twice.",
    )
    return array


def adapt_spec(spec: Spec, sampler: TaskSampler, series: Any) -> Spec:
    """The spec with what the tasks require: `missing=True` where tasks hide a channel."""
    checks.require(
        spec.initial == "context" or sampler.first_point,
        "initial='first' takes l(t0) from each series' first observation: use TaskSampler(first_point=True), so that it is "
        "always there.",
    )
    if sampler.split != "channel":
        return spec
    checks.require(
        isinstance(series, Series) and series.channels > 1,
        "split='channel' hides one channel of several, but the series have one.",
    )
    checks.require(
        spec.missing is not False,
        "split='channel' hides a channel from the context, but the spec says missing=False. Leave `missing` open.",
    )
    return spec.replace(missing=True)


def check_series(series: Any, name: str, spec: Spec) -> None:
    """Raises unless a process of this spec can be trained on `series`."""
    checks.require(
        isinstance(series, Series) and series.t.ndim == 2,
        f"`{name}` is a {type(series).__name__}; expected a batch of series: make one with make_series(t, y).",
    )
    checks.finite_times("t", np.asarray(series.t), f" of `{name}`")
    y, mask = np.asarray(series.y), np.asarray(series.mask)
    checks.require(bool(np.isfinite(y[mask]).all()), f"`y` of `{name}` holds NaN or infinite values that are not masked.")
    checks.require(
        spec.likelihood != "bernoulli" or bool(((y[mask] >= 0) & (y[mask] <= 1)).all()),
        f"`y` of `{name}` goes from {y[mask].min(initial=0)} to {y[mask].max(initial=0)}; a Bernoulli likelihood needs values "
        "from 0 to 1.",
    )
    empty = np.flatnonzero(~mask.any((1, 2)))
    checks.require(
        len(empty) == 0,
        f"{len(empty)} of {len(series)} series in `{name}` have no observation at all, first series {min(empty, default=0)}. "
        "Leave them out.",
    )


def warn_of_scattered_series(series: Series, scaling: Scaling) -> None:
    """Warns where series are much shorter than the time that they cover together: each may begin at a time of its own."""
    t, observed = np.asarray(series.t, np.float64), np.asarray(series.observed)
    whole = t[observed].max() - t[observed].min()
    spans = np.where(observed, t, -np.inf).max(-1) - np.where(observed, t, np.inf).min(-1)
    if scaling.origin == "absolute" and len(series) > 1 and 0 < np.median(spans) < SCATTERED_SHARE * whole:
        warnings.warn(
            f"A typical series spans {np.median(spans):.3g} of the {whole:.3g} units of time that all series cover. "
            "If each begins at a time of its own, use fit(…, origin='first').",
            stacklevel=checks.depth_of_user(),
        )


def padded_size(count: int, length: int) -> tuple[int, int]:
    """The numbers of series and points to which trainings are padded, so that they share compiled programs.

    Padding series take time in the E-step alone, so the sizes may be far apart: two for each doubling, beyond 16.
    """
    return bucket(count, powers=16, parts=2), bucket(length, 8)


def make_plan(
    spec: Spec,
    flow: AbstractFlow,
    scaled: Series,
    validation: Series | None,
    scaling: Scaling,
    sampler: TaskSampler,
    options: FitOptions,
) -> tuple[Plan, Task | None]:
    """The plan of an epoch, and the validation tasks if there are validation series."""
    count = len(scaled)
    steps = max(1, round(count / options.batch_size))
    extents, tasks = [flow.extent(float(scaled.t.min()), float(scaled.t.max()))], None
    checks.require(
        options.patience is None or validation is not None,
        "`patience` needs `validation` series, whose scores it watches.",
    )
    if validation is not None:
        check_series(validation, "validation", spec)
        checks.require(
            options.evaluate_every <= options.epochs,
            f"`evaluate_every` is {options.evaluate_every} but there are {options.epochs} epochs: nothing would be evaluated.",
        )
        held_out = scaling.apply_to_new(validation)
        held_out = filled_up(held_out, *padded_size(*held_out.t.shape)) if options.bucketed else held_out
        mask = np.asarray(validation.mask)
        checks.require(
            bool(spec.missing) or bool((mask.any(-1) == mask.all(-1)).all()),
            "Some validation points lack a channel, but no training point does. Use variant(…, missing=True).",
        )
        extents.append(flow.extent(float(held_out.t.min()), float(held_out.t.max())))
        size = sampler.context if options.validation_context is None else (options.validation_context,) * 2
        predictor = dataclasses.replace(sampler, context=size, extra=None, shared="nothing", empty=0.0)
        tasks = _validation_tasks(predictor, held_out)
        checks.require(
            options.validation_context_scored or bool((tasks.target & ~tasks.context).any()),
            "The validation series have nothing left to score: all their points went into the context. Use a smaller "
            "`validation_context`, or longer series.",
        )
    options = dataclasses.replace(options, epochs=1, em_epochs=None)  # arguments of the compiled epoch
    return Plan(options, sampler, steps, count // steps, extents[0], extents[-1]), tasks


@compiled(static_argnums=0)
def _validation_tasks(sampler: TaskSampler, series: Series) -> Task:
    return sampler.draw(series, key=jr.key(0))
