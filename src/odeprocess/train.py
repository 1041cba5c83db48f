"""`fit`: from series to a model."""

import dataclasses
import functools
import math
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from . import checks
from .epoch import Plan, TrainState, run_epoch, start
from .model import Model
from .optimise import FitOptions
from .polish import begin, run_polish
from .prepare import check_series, checked_seeds, planned, suited, warn_of_scattered_series
from .process import Process, Spec, variant
from .progress import progress_bar
from .scaling import Origin, Scaling
from .series import Series
from .tasks import TaskSampler


class TrainingError(RuntimeError):
    """Training broke down for every seed."""


@dataclasses.dataclass(frozen=True, eq=False)
class History:
    """What happened, `[epochs, seeds]` each.

    Attributes:
        loss: mean training loss a step (the negative objective a series, so larger tasks count for more), over the steps that
            were finite; NaN after a seed has stopped.
        mse_one: validation error of one latent draw; NaN where not evaluated. All scores are in scaled units.
        mse: validation error of the mean over draws.
        nll: validation negative log density a value.
        polish: mean loss a step in the second half of training, where there is one, `[epochs, seeds]`.
        seconds: wall time of each epoch of both halves, `[epochs]`.
    """

    loss: np.ndarray
    mse_one: np.ndarray
    mse: np.ndarray
    nll: np.ndarray
    polish: np.ndarray
    seconds: np.ndarray


@dataclasses.dataclass(frozen=True, eq=False)
class Fit:
    """The outcome of `fit`.

    Attributes:
        models: one model a seed; `None` for a seed that broke down.
        history: losses and scores by epoch and seed.
        best: which seed scored best on validation (without it: had the lowest training loss over the last tenth).
        skipped: steps that were skipped because they were not finite, by seed.
        compile_seconds: the time until the end of the first epoch, less that of an ordinary (median) epoch.
        train_seconds: the time of all epochs, that apart.
    """

    models: tuple[Model | None, ...]
    history: History
    best: int
    skipped: np.ndarray
    compile_seconds: float
    train_seconds: float

    def __repr__(self) -> str:
        return f"Fit({self.models[self.best]!r}, best of {len(self.models)} seed(s), {len(self.history.seconds)} epochs)"

    @property
    def model(self) -> Model:
        """The model of the best seed."""
        found = self.models[self.best]
        assert found is not None
        return found


def fit(
    spec: Spec | str,
    series: Series,
    *,
    validation: Series | None = None,
    sampler: TaskSampler = TaskSampler(),
    options: FitOptions = FitOptions(),
    scaling: Scaling | None = None,
    origin: Origin = "absolute",
    seeds: int | Sequence[int] = 0,
    progress: bool | Callable[[str], None] | None = None,
) -> Fit:
    """Trains a process on series.

    Whole epochs are compiled, tasks are drawn inside, and several seeds train at once. Steps that are not finite are
    skipped and counted.

    Arguments:
        spec: a variant's name, or a spec from `variant`.
        series: the training series, in the user's units: from `make_series`, or drawn from `odeprocess.data`.
        validation: series to evaluate on; each seed then keeps its best epoch instead of its last.
        sampler: how tasks are drawn.
        options: everything about the optimisation.
        scaling: fitted to `series` if not given. `Scaling.identity(channels)` for none, as in the paper.
        origin: whether all series share one clock, `"absolute"`, or each counts time from its `"first"` observation: for
            subjects, batches or events that begin at different times. For the scaling that is fitted here.
        seeds: one seed, or several to train at once.
        progress: whether to show a progress bar; by default on a terminal. Or a function to call after each epoch with a note.

    Returns:
        A `Fit`: `fit(...).model` is the model.

    Raises:
        ValueError: where the series or options do not fit together.
        TrainingError: where every seed broke down.

    Example:
        >>> import jax, odeprocess as odp
        >>> series = odp.data.lines.sample(20, key=jax.random.key(0))
        >>> odp.fit("np", series, options=odp.FitOptions(epochs=1)).model
        Model(np, 1 channel(s), 25982 parameters)
    """
    began = time.perf_counter()
    seed_array = checked_seeds(seeds)
    checks.instance("sampler", sampler, TaskSampler, "a TaskSampler(…)")
    checks.instance("options", options, FitOptions, "FitOptions(…)")
    spec = variant(spec) if isinstance(spec, str) else spec
    checks.instance("spec", spec, Spec, "the name of a variant, or a spec from variant(…)")
    spec = suited(spec, sampler, series)
    check_series(series, "series", spec)
    if scaling is None:
        scaling = Scaling.fit(series, origin=origin, values=spec.likelihood == "gaussian")
        warn_of_scattered_series(series, scaling)
    checks.instance("scaling", scaling, Scaling, "a Scaling, or None to fit one (see also `origin`)")
    scaled = scaling.apply(series)
    spec = spec.resolve(scaled)
    options = options.suited(learned_prior=spec.prior == "learned")
    processes = _initial(spec, seed_array)
    plan, tasks = planned(spec, processes.flow, scaled, validation, scaling, sampler, options)
    states = _start(processes, plan)
    keys, data = _keys(seed_array), jax.tree.map(jnp.asarray, scaled)

    reports, ends, broken = [], [], np.zeros(len(seed_array), bool)
    validated = tasks is not None and options.keep == "best"
    with progress_bar(options.epochs + options.polish_epochs, "training", show=progress) as advance:
        for epoch in range(options.epochs):
            states, report = run_epoch(plan, states, keys, jnp.asarray(epoch), data, tasks)
            reports.append(jax.device_get(report))
            ends.append(time.perf_counter())
            advance(f"loss {np.nanmean(reports[-1].loss) if np.isfinite(reports[-1].loss).any() else math.nan:.4g}")
            broken, stopped = jax.device_get((states.bad_in_a_row >= options.max_bad_steps, states.stopped))
            if broken.all():
                raise TrainingError(_breakdown(epoch, options.max_bad_steps, len(broken)))
            if (stopped | broken).all():
                break
        losses = []
        if options.polish_epochs:
            polished = begin(plan, _kept(states, validated), data)
            for epoch in range(options.polish_epochs):
                polished, loss = run_polish(plan, polished, keys, jnp.asarray(epoch), data)
                losses.append(jax.device_get(loss))
                ends.append(time.perf_counter())
                advance(f"polishing, loss {np.nanmean(losses[-1]) if np.isfinite(losses[-1]).any() else math.nan:.4g}")
            states = dataclasses.replace(states, process=polished.process, best=polished.process)
    seconds = np.diff([began, *ends])
    return _finished(states, spec, scaling, seed_array, broken, reports, losses, seconds, validated=validated)


def _kept(states: TrainState, validated: bool) -> Process:
    """The processes that each seed goes on with: of its best epoch where one was found, else of the last."""
    if not validated:
        return states.process
    found = jnp.isfinite(states.best_score)
    return jax.vmap(lambda f, a, b: jax.tree.map(lambda a, b: jnp.where(f, a, b), a, b))(found, states.best, states.process)


def _breakdown(epoch: int, bad_steps: int, num_seeds: int) -> str:
    who = "the seed" if num_seeds == 1 else f"all {num_seeds} seeds"
    return (
        f"Training broke down in epoch {epoch + 1}: {bad_steps} steps in a row had a loss or gradient that was not finite, for "
        f"{who}. Look for extreme values in the series; then try a lower learning_rate, clip=1.0, or a larger noise_floor."
    )


@functools.partial(jax.jit, static_argnums=0)
def _initial(spec: Spec, seeds: Any) -> Process:
    # Weights and training draws come from different streams of the same seed.
    return jax.vmap(lambda seed: spec.build(key=jr.fold_in(jr.key(seed), 2**31 - 1)))(seeds)


@functools.partial(jax.jit, static_argnums=1)
def _start(processes: Process, plan: Plan) -> TrainState:
    return jax.vmap(lambda process: start(process, plan))(processes)


@jax.jit
def _keys(seeds: Any) -> Any:
    return jax.vmap(jr.key)(seeds)


def _finished(states, spec, scaling, seeds, broken, reports, losses, seconds, *, validated) -> Fit:
    loss, mse_one, mse, nll = (
        np.stack(x) for x in zip(*((r.loss, *dataclasses.astuple(r.validation)) for r in reports), strict=True)
    )
    polish = np.stack(losses) if losses else np.zeros((0, len(seeds)))
    history = History(loss, mse_one, mse, nll, polish, seconds)
    states = jax.device_get(states)
    keep_best = validated & np.isfinite(states.best_score)
    models = []
    for i, seed in enumerate(seeds):
        process = jax.tree.map(lambda x, i=i: jnp.asarray(x[i]), states.best if keep_best[i] else states.process)
        info = {
            "seed": int(seed),
            "epochs": len(reports),
            "epoch": int(states.best_epoch[i]) if keep_best[i] else len(reports),
            "polished": len(losses),
            "skipped_steps": int(states.skipped[i]),
        }
        models.append(None if broken[i] else Model(process, spec, scaling, info))
    if broken.any():
        warnings.warn(
            f"Training broke down for seed(s) {seeds[broken].tolist()}; their models are None. The other seeds are sound.",
            stacklevel=3,
        )
    late = max(1, len(reports) // 10)  # one epoch's loss is noise
    quality = np.where(keep_best, states.best_score, history.loss[-late:].mean(0))
    quality = np.where(broken | np.isnan(quality), np.inf, quality)
    ordinary = float(np.median(seconds[1:])) if len(seconds) > 1 else 0.0
    return Fit(
        tuple(models),
        history,
        int(np.argmin(quality)),
        np.asarray(states.skipped),
        compile_seconds=float(seconds[0]) - ordinary,
        train_seconds=ordinary + float(seconds[1:].sum()),
    )
