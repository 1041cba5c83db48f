"""`train`: one process trained on series, for one seed or several at once. `fit` chooses what it is given."""

import dataclasses
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from odeprocess.common import checks
from odeprocess.common.compilation import compiled, make_room_for, return_memory
from odeprocess.common.progress import progress_bar
from odeprocess.data.scaling import Origin, Scaling
from odeprocess.data.series import Series, filled_up
from odeprocess.data.tasks import Task, TaskSampler
from odeprocess.process import Process, Spec, variant

from .checkpoints import Checkpoints, description
from .epoch import FirstPhaseState, Plan, run_epoch, start
from .expectation_maximisation import fit_mixture, initial_em_state, train_em_epoch
from .fit_result import Fit, collect_result
from .options import FitOptions
from .plan import adapt_spec, check_seeds, check_series, make_plan, padded_size, warn_of_scattered_series
from .training_state import TrainingState


class TrainingError(RuntimeError):
    """Training broke down for every seed."""


def train(
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
    checkpoint: str | Path | None = None,
    checkpoint_every: float = 10.0,
    resume: bool = False,
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
        checkpoint: a folder in which to keep how far training has come. It stays when training is done: a call with
            `resume` then gives the same `Fit` again at once. `odeprocess.training.checkpoints.discard` removes it.
        checkpoint_every: the least number of seconds between two checkpoints; 0 for one after each epoch.
        resume: whether to go on from the checkpoint, if there is one. On the same machine, with as many threads, training
            ends as if it had never been stopped: with the same weights and history, bit by bit. All else must be given
            as it was.

    Returns:
        A `Fit`, whose models are not calibrated.

    Raises:
        ValueError: where the series or options do not fit together, the checkpoint is of another run, or another run is
            training into its folder.
        TrainingError: where every seed broke down.
    """
    began = time.perf_counter()
    seed_array = check_seeds(seeds)
    checks.instance("sampler", sampler, TaskSampler, "a TaskSampler(…)")
    checks.instance("options", options, FitOptions, "FitOptions(…)")
    checks.require(
        checks.is_number(checkpoint_every) and checkpoint_every >= 0,
        f"`checkpoint_every` is {checks.shown(checkpoint_every)}; expected a number of seconds, 0 or more.",
    )
    checks.require(checkpoint is not None or not resume, "`resume` needs `checkpoint`: the folder to go on from.")
    spec = variant(spec) if isinstance(spec, str) else spec
    checks.instance("spec", spec, Spec, "the name of a variant, or a spec from variant(…)")
    spec = adapt_spec(spec, sampler, series)
    check_series(series, "series", spec)
    if scaling is None:
        scaling = Scaling.fit(series, origin=origin, values=spec.scales_values)
        warn_of_scattered_series(series, scaling)
    checks.instance("scaling", scaling, Scaling, "a Scaling, or None to fit one (see also `origin`)")
    scaling = scaling.with_training_range(series, alike=spec.image is not None)
    scaled = scaling.apply(series)
    padded = filled_up(scaled, *padded_size(*scaled.t.shape)) if options.bucketed else scaled
    spec = spec.resolve(scaled, count=len(padded) if options.bucketed else None)
    options = options.resolved(learned_prior=spec.prior == "learned")
    make_room_for(spec, sampler, dataclasses.replace(options, epochs=1, em_epochs=None), len(seed_array), padded.y.shape)
    processes = _initial(spec, seed_array)
    plan, tasks = make_plan(spec, processes.flow, padded, validation, scaling, sampler, options)
    keys, data = _keys(seed_array), jax.tree.map(jnp.asarray, padded)
    state, keeper = TrainingState(_start(processes, plan)), None
    if checkpoint is not None:
        held_out = None if validation is None else scaling.apply(validation)
        run = description(spec, sampler, options, seed_array, scaled, held_out)
        keeper = Checkpoints(Path(checkpoint), run, checkpoint_every)

    validated = tasks is not None and options.keep == "best"
    with nullcontext() if keeper is None else keeper.held():
        if keeper is not None:
            state = keeper.restored(
                lambda arrays: TrainingState.restored(
                    arrays, state.first_phase, lambda: jax.eval_shape(lambda p: initial_em_state(plan, p, data), processes)
                ),
                otherwise=state,
                resume=resume,
            )
        total, done = options.epochs + options.num_em_epochs, state.epochs + state.num_em_epochs
        with progress_bar(total, "training", show=progress, done=done) as advance:
            try:
                for note, finished in _epochs(state, plan, options, keys, data, tasks, validated=validated, began=began):
                    if keeper is not None:
                        keeper.save(state.epochs + state.num_em_epochs, state.arrays, finished=finished)
                    advance(note)
            except TrainingError:
                if keeper is not None:  # it would break down again
                    keeper.remove()
                raise
    if state.em is not None:
        state.em = fit_mixture(plan, state.em, data)
    return_memory()
    return collect_result(state, spec, scaling, seed_array, max_bad_steps=options.max_bad_steps, validated=validated)


def _epochs(
    state: TrainingState,
    plan: Plan,
    options: FitOptions,
    keys: Any,
    data: Series,
    tasks: Task | None,
    *,
    validated: bool,
    began: float,
) -> Iterator[tuple[str, bool]]:
    """Takes `state` to its end; after each epoch, a note on it and whether it was the last."""
    most, last = options.max_bad_steps, options.num_em_epochs
    while state.epochs < options.epochs and not state.stopped(most):
        epoch = jnp.asarray(state.epochs)
        state.first_phase, report = run_epoch(plan, state.first_phase, keys, epoch, jnp.asarray(options.epochs), data, tasks)
        report = jax.device_get(report)  # waits for the epoch to end
        state.add(report, time.perf_counter() - began)
        if state.broken(most).all():
            raise TrainingError(_breakdown(state.epochs, most, len(keys)))
        yield _note(report.loss), not last and (state.epochs == options.epochs or state.stopped(most))
        began = time.perf_counter()
    while state.num_em_epochs < last:
        em = state.em or initial_em_state(plan, _kept(state.first_phase, validated), data)
        state.em, loss = train_em_epoch(plan, em, keys, state.num_em_epochs, last, data)
        loss = jax.device_get(loss)
        state.add_em_epoch(loss, time.perf_counter() - began)
        yield f"EM, {_note(loss)}", state.num_em_epochs == last
        began = time.perf_counter()


def _note(loss: Any) -> str:
    return f"loss {np.nanmean(loss) if np.isfinite(loss).any() else math.nan:.4g}"


def _kept(states: FirstPhaseState, validated: bool) -> Process:
    """The processes that each seed goes on with: of its best epoch where one was found, else of the last."""
    if not validated:
        return states.process
    found = jnp.isfinite(states.best_score)
    return jax.vmap(lambda f, a, b: jax.tree.map(lambda a, b: jnp.where(f, a, b), a, b))(found, states.best, states.process)


def _breakdown(epoch: int, bad_steps: int, num_seeds: int) -> str:
    who = "the seed" if num_seeds == 1 else f"all {num_seeds} seeds"
    return (
        f"Training broke down in epoch {epoch}: {bad_steps} steps in a row had a loss or gradient that was not finite, for "
        f"{who}. Look for extreme values in the series; then try a lower learning_rate, clip=1.0, or a larger noise_floor."
    )


@compiled(static_argnums=0)
def _initial(spec: Spec, seeds: Any) -> Process:
    # Weights and training draws come from different streams of the same seed.
    return jax.vmap(lambda seed: spec.build(key=jr.fold_in(jr.key(seed), 2**31 - 1)))(seeds)


@compiled(static_argnums=1)
def _start(processes: Process, plan: Plan) -> FirstPhaseState:
    return jax.vmap(lambda process: start(process, plan))(processes)


@compiled
def _keys(seeds: Any) -> Any:
    return jax.vmap(jr.key)(seeds)
