"""One epoch of training, as one compiled function over all seeds.

All tasks and latent noise of an epoch are drawn in one go before the loop over steps: the loop, which is where the
time goes, then holds nothing but the gradient step.
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
    """Everything that one seed carries from epoch to epoch."""

    process: Process
    optimiser: Any
    best: Process
    best_score: Float[Array, "*seeds"]
    best_epoch: Int[Array, "*seeds"]
    skipped: Int[Array, "*seeds"]
    bad_in_a_row: Int[Array, "*seeds"]
    stopped: Bool[Array, "*seeds"]


class Report(eqx.Module):
    """What one epoch says of itself, by seed: the mean loss a step, and validation scores (NaN when not evaluated)."""

    loss: Float[Array, "*seeds"]
    validation: Scores


@dataclasses.dataclass(frozen=True)
class Plan:
    """What is fixed when an epoch is compiled."""

    options: FitOptions  # but for the numbers of epochs, which are arguments
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


INITIAL_HORIZON = 0.1  # of the horizon, at first, where it grows

# A level of optimisation below XLA's own: as fast to run, and compiled in three quarters of the time.
COMPILER = None if jax.config.read("jax_disable_most_optimizations") else {"xla_backend_optimization_level": 2}


@compiled(static_argnums=0, donate_argnums=1, compiler_options=COMPILER)
def run_epoch(
    plan: Plan,
    states: FirstPhaseState,
    keys: Any,
    epoch: Int[Array, ""],
    last: Int[Array, ""],
    series: Series,
    validation: Task | None,
) -> tuple[FirstPhaseState, Report]:
    """Trains every seed for one epoch of `last` (counted from 0); `states` is given up to be reused."""
    return jax.vmap(lambda state, key: _epoch(plan, state, key, epoch, last, series, validation))(states, keys)


def _epoch(plan, state, key, epoch, last, series, validation):
    train_key, _ = jr.split(jr.fold_in(key, epoch))
    score_key = jr.fold_in(key, 2**31 - 2)  # the same draws every epoch, so that epochs are compared on equal terms
    optimiser = plan.options.transformation(last * plan.steps)

    def step(carry, sample_latents):
        weights, opt_state, skipped, bad = carry
        index, selection, noise, kl_weight = sample_latents
        tasks = jax.vmap(take)(series[index], selection)
        loss, gradient = jax.value_and_grad(_loss)(unravel(weights), tasks, noise, kl_weight, plan)
        gradient, _ = ravel_pytree(gradient)
        with jax.numpy_dtype_promotion("standard"):  # Optax mixes types in places, and users may run JAX strictly
            updates, new_opt_state = optimiser.update(gradient, opt_state, weights)
        finite = jnp.isfinite(loss) & jnp.isfinite(gradient @ gradient)
        active = ~state.stopped & (bad < plan.options.max_bad_steps)
        moved = (optax.apply_updates(weights, updates), new_opt_state)
        weights, opt_state = _where(finite & active, moved, (weights, opt_state))
        failed = (~finite & active).astype(skipped.dtype)
        bad = jnp.where(active, jnp.where(finite, 0, bad + 1), bad)
        return (weights, opt_state, skipped + failed, bad), loss

    # As one vector: a step of the optimiser is then a few operations, not a few for each of dozens of small arrays.
    weights, unravel = ravel_pytree(state.process)
    carry = (weights, state.optimiser, state.skipped, state.bad_in_a_row)
    (weights, opt_state, skipped, bad), losses = jax.lax.scan(
        step, carry, _draw(plan, train_key, series, state.process, epoch, last)
    )
    process = unravel(weights)
    finite = jnp.isfinite(losses)
    loss = jnp.where(finite, losses, 0.0).sum() / jnp.maximum(finite.sum(dtype=losses.dtype), 1.0)
    loss = jnp.where(finite.any() & ~state.stopped, loss, jnp.nan)
    state = dataclasses.replace(state, process=process, optimiser=opt_state, skipped=skipped, bad_in_a_row=bad)
    if validation is None:
        nothing = jnp.full((), jnp.nan, loss.dtype)
        return state, Report(loss, Scores(nothing, nothing, nothing))
    return _evaluated(plan, state, loss, score_key, epoch + 1, validation)


def _draw(plan, key, series, process, epoch, last):
    order_key, task_key, noise_key = jr.split(key, 3)
    shape = (plan.steps, plan.batch)
    order = shuffle(plan, order_key, series)
    keys = jr.split(task_key, plan.steps)
    shown = _grow_horizon(plan, series, epoch, last)
    selections = jax.vmap(lambda index, k: plan.sampler.select(shown[index], key=k))(order, keys)
    noise = jr.normal(noise_key, (*shape, plan.options.samples, process.z_dim), series.t.dtype)
    return order, selections, noise, _kl_weights(plan, epoch, last, noise.dtype)


def shuffle(plan: Plan, key: Any, series: Series) -> Int[Array, "steps batch"]:
    """Which series each step of an epoch takes: all in a random order, those that only pad left out."""
    order = jr.permutation(key, len(series))
    if plan.options.bucketed:
        real = series.observed.any(-1)
        order = order[jnp.argsort(~real[order], stable=True)]
        order = order[jnp.arange(len(series)) % real.sum()]
    return order[: plan.steps * plan.batch].reshape(plan.steps, plan.batch)


def _grow_horizon(plan, series, epoch, last):
    """The series as far as they are shown in this epoch: each from its beginning on."""
    if not plan.options.horizon_growth:
        return series
    first, end = jnp.where(series.observed, series.t, jnp.inf).min(), jnp.where(series.observed, series.t, -jnp.inf).max()
    done = (epoch / jnp.maximum(plan.options.horizon_growth * last, 1.0)).astype(series.t.dtype)
    until = first + (end - first) * jnp.minimum(INITIAL_HORIZON + (1.0 - INITIAL_HORIZON) * done, 1.0)
    return dataclasses.replace(series, mask=series.mask & (series.t <= until)[..., None])


def _kl_weights(plan, epoch, last, dtype):
    """The weight of the KL in each step of this epoch; none where it is 1, so that it costs nothing."""
    if not plan.options.kl_warm_up:
        return None
    done = (epoch + jnp.arange(plan.steps) / plan.steps) / jnp.maximum(plan.options.kl_warm_up * last, 1.0)
    return jnp.minimum(done, 1.0).astype(dtype)


def _loss(process, tasks, noise, kl_weight, plan):
    objective = OBJECTIVES[plan.options.objective]
    more = {} if kl_weight is None else {"kl_weight": kl_weight}
    return -jax.vmap(lambda task, eps: objective(process, task, eps, plan.extent, **more))(tasks, noise).mean()


def _evaluated(plan, state, loss, key, done, validation):
    options = plan.options

    # A series may have gone whole into the context; it may then have nothing left to be scored on.
    new_only = not options.validation_context_scored
    scored = (validation.target & ~validation.context if new_only else validation.target).any((1, 2))

    def scores(process):
        found = score_all(
            process, validation, draws=options.validation_draws, key=key, extent=plan.validation_extent, exclude_context=new_only
        )
        return jax.tree.map(lambda x: jnp.where(scored, x, 0.0).sum() / scored.sum(dtype=x.dtype), found)

    nothing = jax.tree.map(lambda x: jnp.full(x.shape, jnp.nan, x.dtype), jax.eval_shape(scores, state.process))
    # `done` is the same for all seeds, so this stays a branch under vmap and an epoch that is not due costs nothing.
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
