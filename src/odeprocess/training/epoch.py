"""One epoch of the first phase of training, as one compiled function over all seeds (section 7 of `docs/inference.md`).

All tasks and latent noise of an epoch are drawn in a few large calls before the loop over steps, so that the loop, which takes
most of the time, holds the gradient step alone.
"""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import optax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float, Int

from odeprocess.common.compilation import compiled
from odeprocess.data.series import Series
from odeprocess.data.tasks import Task, TaskSampler, take
from odeprocess.process import Process
from odeprocess.process.solvers import Extent

from .objectives import OBJECTIVES
from .options import FitOptions
from .validation import Scores, score_all


class FirstPhaseState(eqx.Module):
    """What one seed carries from epoch to epoch.

    Attributes:
        process: the process as trained so far.
        optimiser: Optax's state.
        best: the process of the best epoch so far by validation.
        best_score: its negative log density a value; infinite before the first evaluation.
        best_epoch: the number of that epoch, from 1; 0 before the first evaluation.
        skipped: steps that were skipped because their loss or gradient was not finite.
        bad_in_a_row: such steps since the last one that was finite.
        stopped: whether patience has run out.
    """

    process: Process
    optimiser: Any
    best: Process
    best_score: Float[Array, "*seeds"]
    best_epoch: Int[Array, "*seeds"]
    skipped: Int[Array, "*seeds"]
    bad_in_a_row: Int[Array, "*seeds"]
    stopped: Bool[Array, "*seeds"]


class Report(eqx.Module):
    """The result of one epoch, by seed: the mean loss of a step, and validation scores (NaN when not evaluated)."""

    loss: Float[Array, "*seeds"]
    validation: Scores


@dataclasses.dataclass(frozen=True)
class Plan:
    """Everything on which the compiled program of an epoch depends, beside shapes.

    Attributes:
        options: of the fit; the numbers of epochs are arguments of the compiled functions instead.
        sampler: of the tasks.
        steps: gradient steps of an epoch.
        batch: series of a step.
        extent: how far the flow is integrated in training.
        validation_extent: the same for validation tasks.
    """

    options: FitOptions
    sampler: TaskSampler
    steps: int
    batch: int
    extent: Extent
    validation_extent: Extent


def start(process: Process, plan: Plan) -> FirstPhaseState:
    """The state of one seed before the first epoch."""
    dtype, zero = jnp.result_type(float), jnp.zeros((), jnp.int32)
    optimiser = plan.options.transformation(1).init(ravel_pytree(process)[0])
    best_score = jnp.full((), jnp.inf, dtype)
    return FirstPhaseState(process, optimiser, process, best_score, zero, zero, zero, jnp.zeros((), bool))


INITIAL_HORIZON = 0.1  # share of the horizon that the first epoch sees where it grows (`FitOptions.horizon_growth`); by hand

# A level of optimisation below XLA's default: measured on CPUs, programs run as fast and compile in three quarters of the time.
COMPILER_OPTIONS = None if jax.config.read("jax_disable_most_optimizations") else {"xla_backend_optimization_level": 2}


@compiled(static_argnums=0, donate_argnums=1, compiler_options=COMPILER_OPTIONS)
def run_epoch(
    plan: Plan,
    states: FirstPhaseState,
    keys: Any,
    epoch: Int[Array, ""],
    last: Int[Array, ""],
    series: Series,
    validation: Task | None,
) -> tuple[FirstPhaseState, Report]:
    """Trains every seed for epoch number `epoch` (from 0) of `last`. The memory of `states` is used again."""
    return jax.vmap(lambda state, key: _train_epoch(plan, state, key, epoch, last, series, validation))(states, keys)


def _train_epoch(plan, state, key, epoch, last, series, validation):
    train_key, _ = jr.split(jr.fold_in(key, epoch))
    score_key = jr.fold_in(key, 2**31 - 2)  # the same draws in every epoch, so that the scores of epochs can be compared
    optimiser = plan.options.transformation(last * plan.steps)

    def step(carry, choices):
        weights, opt_state, skipped, bad = carry
        index, selection, noise, kl_weight = choices
        tasks = jax.vmap(take)(series[index], selection)
        loss, gradient = jax.value_and_grad(_loss)(unravel(weights), tasks, noise, kl_weight, plan)
        gradient, _ = ravel_pytree(gradient)
        with jax.numpy_dtype_promotion("standard"):  # Optax mixes float types, which fails where users have strict promotion
            updates, new_opt_state = optimiser.update(gradient, opt_state, weights)
        finite = jnp.isfinite(loss) & jnp.isfinite(gradient @ gradient)
        active = ~state.stopped & (bad < plan.options.max_bad_steps)
        moved = (optax.apply_updates(weights, updates), new_opt_state)
        weights, opt_state = _where(finite & active, moved, (weights, opt_state))
        failed = (~finite & active).astype(skipped.dtype)
        bad = jnp.where(active, jnp.where(finite, 0, bad + 1), bad)
        return (weights, opt_state, skipped + failed, bad), loss

    # Weights are one vector: a step of the optimiser is then a few operations instead of a few for each of dozens of arrays.
    weights, unravel = ravel_pytree(state.process)
    carry = (weights, state.optimiser, state.skipped, state.bad_in_a_row)
    (weights, opt_state, skipped, bad), losses = jax.lax.scan(
        step, carry, _draw_tasks(plan, train_key, series, state.process, epoch, last)
    )
    process = unravel(weights)
    finite = jnp.isfinite(losses)
    loss = jnp.where(finite, losses, 0.0).sum() / jnp.maximum(finite.sum(dtype=losses.dtype), 1.0)
    loss = jnp.where(finite.any() & ~state.stopped, loss, jnp.nan)
    state = dataclasses.replace(state, process=process, optimiser=opt_state, skipped=skipped, bad_in_a_row=bad)
    if validation is None:
        nothing = jnp.full((), jnp.nan, loss.dtype)
        return state, Report(loss, Scores(nothing, nothing, nothing))
    return _evaluate(plan, state, loss, score_key, epoch + 1, validation)


def _draw_tasks(plan, key, series, process, epoch, last):
    """The choices of all steps of an epoch: series, points, latent noise and the weight of the KL."""
    order_key, task_key, noise_key = jr.split(key, 3)
    shape = (plan.steps, plan.batch)
    order = shuffle(plan, order_key, series)
    keys = jr.split(task_key, plan.steps)
    shown = _grow_horizon(plan, series, epoch, last)
    selections = jax.vmap(lambda index, k: plan.sampler.select(shown[index], key=k))(order, keys)
    noise = jr.normal(noise_key, (*shape, plan.options.samples, process.z_dim), series.t.dtype)
    return order, selections, noise, _kl_weights(plan, epoch, last, noise.dtype)


def shuffle(plan: Plan, key: Any, series: Series) -> Int[Array, "steps batch"]:
    """The series of each step of an epoch: all in a random order, without those that are padding."""
    order = jr.permutation(key, len(series))
    if plan.options.bucketed:
        real = series.observed.any(-1)
        order = order[jnp.argsort(~real[order], stable=True)]
        order = order[jnp.arange(len(series)) % real.sum()]
    return order[: plan.steps * plan.batch].reshape(plan.steps, plan.batch)


def _grow_horizon(plan, series, epoch, last):
    """The series with the observations masked that lie beyond this epoch's horizon, where that grows."""
    if not plan.options.horizon_growth:
        return series
    first, end = jnp.where(series.observed, series.t, jnp.inf).min(), jnp.where(series.observed, series.t, -jnp.inf).max()
    done = (epoch / jnp.maximum(plan.options.horizon_growth * last, 1.0)).astype(series.t.dtype)
    until = first + (end - first) * jnp.minimum(INITIAL_HORIZON + (1.0 - INITIAL_HORIZON) * done, 1.0)
    return dataclasses.replace(series, mask=series.mask & (series.t <= until)[..., None])


def _kl_weights(plan, epoch, last, dtype):
    """The weight of the KL in each step of this epoch; `None` where it is always 1, so that it costs nothing."""
    if not plan.options.kl_warm_up:
        return None
    done = (epoch + jnp.arange(plan.steps) / plan.steps) / jnp.maximum(plan.options.kl_warm_up * last, 1.0)
    return jnp.minimum(done, 1.0).astype(dtype)


def _loss(process, tasks, noise, kl_weight, plan):
    objective = OBJECTIVES[plan.options.objective]
    more = {} if kl_weight is None else {"kl_weight": kl_weight}
    return -jax.vmap(lambda task, eps: objective(process, task, eps, plan.extent, **more))(tasks, noise).mean()


def _evaluate(plan, state, loss, key, done, validation):
    options = plan.options

    # A series all of whose points are in the context has nothing left to score.
    new_only = not options.validation_context_scored
    scored = (validation.target & ~validation.context if new_only else validation.target).any((1, 2))

    def scores(process):
        found = score_all(
            process, validation, draws=options.validation_draws, key=key, extent=plan.validation_extent, exclude_context=new_only
        )
        return jax.tree.map(lambda x: jnp.where(scored, x, 0.0).sum() / scored.sum(dtype=x.dtype), found)

    nothing = jax.tree.map(lambda x: jnp.full(x.shape, jnp.nan, x.dtype), jax.eval_shape(scores, state.process))
    # `done` is the same for all seeds, so this stays a branch under vmap, and epochs that are not evaluated cost nothing.
    due = done % options.evaluate_every == 0
    found = jax.lax.cond(due, scores, lambda _: nothing, state.process)
    better = ~state.stopped & (found.nll < state.best_score)
    stopped = state.stopped
    state = dataclasses.replace(
        state,
        best=_where(better, state.process, state.best),
        best_score=jnp.where(better, found.nll, state.best_score),
        best_epoch=jnp.where(better, done, state.best_epoch),
    )
    if options.patience is not None:
        stopped = stopped | (due & (done - state.best_epoch >= options.patience))
    return dataclasses.replace(state, stopped=stopped), Report(loss, found)


def _where(condition, new, old):
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), new, old)
