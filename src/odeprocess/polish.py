"""The second half of training a process with a prior: expectation–maximisation with stored posteriors.

The encoder's guesses limit how sharp the decoder can become. So the posterior of every training series, a normal
distribution around its mode, is kept and brought up to date now and then by a few solver steps (the E-step). Between
times the decoder, the field and σ learn from draws of it, and the encoder learns to guess them (the M-step); the prior
follows in closed form. A guess that is off can then no longer mislead the decoder.
"""

import dataclasses
import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import optax
from jaxtyping import Array, Float, Int

from .epoch import Plan
from .linear import cholesky, solve_positive, solve_triangular
from .mixture import fitted
from .problem import Problem, precision_root, solve
from .process import Process
from .process.latent import Prior
from .process.solvers import Extent
from .series import Series
from .soap import soap, turned
from .tasks import take

E_STEP_EVERY, TURN_EVERY = 45, 9  # gradient steps, in whole epochs
FIRST_STEPS, STEPS = 12, 1  # of the solver, in the first E-step and in the later ones
CHUNK = 64  # series whose posteriors are brought up to date at once, so that memory stays bounded


class PolishState(eqx.Module):
    """What one seed carries from epoch to epoch."""

    process: Process
    optimiser: Any
    modes: Float[Array, "*seeds series z"]
    roots: Float[Array, "*seeds series z z"]
    skipped: Int[Array, "*seeds"]


def optimiser(plan: Plan) -> optax.GradientTransformation:
    """SOAP at a third of the first half's rate: in as many steps it leaves a sixth of the misfit that Adam does."""
    total = max(2, plan.options.polish_epochs * plan.steps)
    rate = optax.warmup_cosine_decay_schedule(0.0, plan.options.learning_rate / 3, max(1, total // 20), total)
    return soap(rate)


@functools.partial(jax.jit, static_argnums=0)
def begin(plan: Plan, processes: Process, series: Series) -> PolishState:
    """The state before the first epoch: posteriors from the encoder's guesses, made exact."""

    def one(process):
        modes = jax.lax.map(lambda s: process.infer(s).loc, series, batch_size=CHUNK)
        process, modes, roots = e_step(process, modes, series, plan.extent, FIRST_STEPS)
        state = optimiser(plan).init(process)  # pyright: ignore[reportArgumentType]
        return PolishState(process, state, modes, roots, jnp.zeros((), jnp.int32))

    return jax.vmap(one)(processes)


@functools.partial(jax.jit, static_argnums=0, donate_argnums=1)
def run_polish(plan: Plan, states: PolishState, keys: Any, epoch: Int[Array, ""], series: Series) -> tuple[PolishState, Any]:
    """Trains every seed for one epoch (counted from 0); also the mean loss a step."""
    return jax.vmap(lambda state, key: _epoch(plan, state, key, epoch, series))(states, keys)


@jax.jit
def divided(states: PolishState, series: Series) -> PolishState:
    """The state after the last epoch: the prior is divided into its parts, where the process has room for some."""

    def one(state):
        assert state.process.prior is not None and state.process.mixture is not None
        parts = len(state.process.mixture)
        found = fitted(state.process.prior, state.modes, state.roots, series.static, parts)
        return eqx.tree_at(lambda s: s.process.mixture, state, found)

    return jax.vmap(one)(states) if states.process.mixture is not None else states


def e_step(process: Process, modes: Any, series: Series, extent: Extent, steps: int) -> tuple[Process, Any, Any]:
    """Brings posteriors and prior up to date."""

    def one(pair):
        z, series = pair
        assert process.prior is not None
        problem, y = Problem.of(process, process.prior, series, z, extent), jnp.where(series.mask, series.y, 0.0)
        z = solve(problem, z, y, jnp.zeros_like(z), steps).z
        return z, precision_root(problem, z, y)

    with jax.default_matmul_precision("highest"):
        modes, roots = jax.lax.map(one, (modes, series), batch_size=CHUNK)
    return eqx.tree_at(lambda p: p.prior, process, _prior(modes, roots, series.static)), modes, roots


def _prior(modes, roots, static) -> Prior:
    """The normal distribution that the posteriors make together; one more series, a standard one, keeps it from collapse."""
    count, size = modes.shape
    inputs = jnp.concatenate([jnp.ones((count, 1), modes.dtype), static], 1)
    penalty = jnp.diag(jnp.concatenate([jnp.zeros(1), jnp.ones(static.shape[1])]).astype(modes.dtype))
    weights = solve_positive(inputs.T @ inputs + penalty, inputs.T @ modes)
    rest = modes - inputs @ weights
    inverse = jax.vmap(lambda r: solve_triangular(r, jnp.eye(size, dtype=r.dtype)))(roots)
    scatter = rest.T @ rest + jnp.einsum("nij,nkj->ik", inverse, inverse) + 1e-2 * jnp.eye(size, dtype=modes.dtype)
    return Prior(weights[0], weights[1:].T, cholesky(scatter / count))


def _epoch(plan, state, key, epoch, series):
    key = jr.fold_in(jr.fold_in(key, 2**31 - 3), epoch)
    order_key, task_key, noise_key = jr.split(key, 3)
    # `epoch` is the same for all seeds, so these stay branches under vmap.
    process, modes, roots = jax.lax.cond(
        (epoch > 0) & (epoch % max(1, E_STEP_EVERY // plan.steps) == 0),
        lambda s: e_step(s.process, s.modes, series, plan.extent, STEPS),
        lambda s: (s.process, s.modes, s.roots),
        state,
    )
    bases = jax.lax.cond(epoch % max(1, TURN_EVERY // plan.steps) == 0, turned, lambda s: s, state.optimiser)
    shape = (plan.steps, plan.batch)
    order = jr.permutation(order_key, len(series))[: plan.steps * plan.batch].reshape(shape)
    keys = jr.split(task_key, plan.steps)
    noise = jr.normal(noise_key, (*shape, process.z_dim), series.t.dtype)
    update = optimiser(plan).update

    def step(carry, drawn):
        process, opt_state, skipped = carry
        index, key, noise = drawn
        tasks = jax.vmap(take)(series[index], plan.sampler.select(series[index], key=key))
        z = modes[index] + jax.vmap(solve_triangular)(roots[index], noise)
        with jax.default_matmul_precision("highest"):
            loss, gradient = jax.value_and_grad(_loss)(process, tasks, z, plan.extent)
        finite = jnp.isfinite(loss) & jnp.isfinite(optax.tree.norm(gradient))
        with jax.numpy_dtype_promotion("standard"):
            updates, new_state = update(gradient, opt_state, process)
        moved = (optax.apply_updates(process, updates), new_state)
        kept = jax.tree.map(lambda a, b: jnp.where(finite, a, b), moved, (process, opt_state))
        return (*kept, skipped + (~finite).astype(skipped.dtype)), loss

    carry = (process, bases, state.skipped)
    (process, opt_state, skipped), losses = jax.lax.scan(step, carry, (order, keys, noise))
    state = dataclasses.replace(state, process=process, optimiser=opt_state, modes=modes, roots=roots, skipped=skipped)
    return state, jnp.nanmean(losses)


def _loss(process, tasks, zs, extent):
    def one(task, z):
        predicted, ok = process.predict(z, task.points.t, extent)
        log_prob = jnp.where(ok[:, None], predicted.log_prob(task.points.y), jnp.nan)
        guesses = sum(q.log_prob(z).sum() for q in process.inference.beliefs(task))
        return -jnp.where(task.target, log_prob, 0.0).sum() - guesses

    return jax.vmap(one)(tasks, zs).mean()
