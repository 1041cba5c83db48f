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

from odeprocess.common.compilation import compiled
from odeprocess.common.linear_algebra import cholesky, solve_positive, solve_triangular
from odeprocess.data.series import Series
from odeprocess.data.tasks import take
from odeprocess.inference.least_squares import LeastSquaresProblem, precision_root, solve
from odeprocess.process import Process
from odeprocess.process.prior import Prior

from .epoch import Plan, shuffle
from .mixture_prior import fit_mixture_prior
from .options import cosine
from .soap import soap, update_eigenbases

E_STEP_EVERY, EIGENBASES_EVERY = 45, 9  # gradient steps, in whole epochs
FIRST_STEPS, STEPS = 12, 1  # of the solver, in the first E-step and in the later ones
CHUNK = 64  # series whose posteriors are brought up to date at once, so that memory stays bounded


class EMState(eqx.Module):
    """What one seed carries from epoch to epoch."""

    process: Process
    optimiser: Any
    modes: Float[Array, "*seeds series z"]
    roots: Float[Array, "*seeds series z z"]
    skipped: Int[Array, "*seeds"]


def optimiser(plan: Plan, total: Any) -> optax.GradientTransformation:
    """SOAP at a third of the first half's rate: in as many steps it leaves a sixth of the misfit that Adam does."""
    return soap(cosine(plan.options.learning_rate / 3, total))


@compiled(static_argnums=0)
def initial_em_state(plan: Plan, processes: Process, series: Series) -> EMState:
    """The state before the first epoch, with the encoder's guesses at the modes."""

    def one(process):
        modes = jax.lax.map(lambda s: process.infer(s).loc, series, batch_size=CHUNK)
        roots = jnp.zeros((*modes.shape, modes.shape[1]), modes.dtype)
        state = optimiser(plan, 1).init(process)  # pyright: ignore[reportArgumentType]
        return EMState(process, state, modes, roots, jnp.zeros((), jnp.int32))

    return jax.vmap(one)(processes)


def train_em_epoch(plan: Plan, states: EMState, keys: Any, epoch: int, last: int, series: Series) -> tuple[EMState, Any]:
    """Trains every seed for one epoch of `last` (counted from 0); also the mean loss a step."""
    if epoch % max(1, E_STEP_EVERY // plan.steps) == 0:
        states = e_step(plan, states, series, jnp.asarray(STEPS if epoch else FIRST_STEPS))
    if epoch % max(1, EIGENBASES_EVERY // plan.steps) == 0:
        states = _update_eigenbases(states)
    return m_step_epoch(plan, states, keys, jnp.asarray(epoch), jnp.asarray(last), series)


@compiled(static_argnums=0, donate_argnums=1)
def m_step_epoch(
    plan: Plan, states: EMState, keys: Any, epoch: Int[Array, ""], last: Int[Array, ""], series: Series
) -> tuple[EMState, Any]:
    """The gradient steps of an epoch."""
    return jax.vmap(lambda state, key: _epoch(plan, state, key, epoch, last, series))(states, keys)


@compiled(donate_argnums=0)
def _update_eigenbases(states: EMState) -> EMState:
    return dataclasses.replace(states, optimiser=jax.vmap(update_eigenbases)(states.optimiser))


@compiled(static_argnums=0)
def fit_mixture(plan: Plan, states: EMState, series: Series) -> EMState:
    """The state after the last epoch: the prior is divided into its parts, where the process has room for some."""

    def one(state):
        assert state.process.prior is not None and state.process.mixture is not None
        parts = len(state.process.mixture)
        found = fit_mixture_prior(state.process.prior, state.modes, state.roots, series.static, parts, _real(plan, series))
        return eqx.tree_at(lambda s: s.process.mixture, state, found)

    return jax.vmap(one)(states) if states.process.mixture is not None else states


@compiled(static_argnums=0, donate_argnums=1)
def e_step(plan: Plan, states: EMState, series: Series, steps: Int[Array, ""]) -> EMState:
    """Brings posteriors and prior of every seed up to date."""

    def one(process, pair):
        z, series = pair
        problem, y = LeastSquaresProblem.of(process, process.prior, series, z, plan.extent), jnp.where(series.mask, series.y, 0.0)
        z = solve(problem, z, y, jnp.zeros_like(z), steps).z
        return z, precision_root(problem, z, y)

    def seed(state):
        with jax.default_matmul_precision("highest"):
            modes, roots = jax.lax.map(functools.partial(one, state.process), (state.modes, series), batch_size=CHUNK)
        process = eqx.tree_at(lambda p: p.prior, state.process, fit_prior(modes, roots, series.static, _real(plan, series)))
        return dataclasses.replace(state, process=process, modes=modes, roots=roots)

    return jax.vmap(seed)(states)


def fit_prior(modes: Any, roots: Any, static: Any, real: Any = None) -> Prior:
    """The normal distribution that the posteriors make together; another series, a standard one, keeps it from collapse.

    `real` is 1 for each series, and 0 for those that only pad; without it all are real.
    """
    (count, size), inputs = modes.shape, jnp.concatenate([jnp.ones((len(modes), 1), modes.dtype), static], 1)
    if real is not None:
        count, inputs, modes = real.sum(), inputs * real[:, None], modes * real[:, None]
    penalty = jnp.diag(jnp.concatenate([jnp.zeros(1), jnp.ones(static.shape[1])]).astype(modes.dtype))
    weights = solve_positive(inputs.T @ inputs + penalty, inputs.T @ modes)
    rest = modes - inputs @ weights
    inverse = jax.vmap(lambda r: solve_triangular(r, jnp.eye(size, dtype=r.dtype)))(roots)
    inverse = inverse if real is None else inverse * real[:, None, None]
    scatter = rest.T @ rest + jnp.einsum("nij,nkj->ik", inverse, inverse) + 1e-2 * jnp.eye(size, dtype=modes.dtype)
    return Prior(weights[0], weights[1:].T, cholesky(scatter / count))


def _real(plan: Plan, series: Series) -> Any:
    """1 for each series that was observed and 0 for those that only pad, if some may."""
    return None if not plan.options.bucketed else series.observed.any(-1).astype(series.t.dtype)


def _epoch(plan, state, key, epoch, last, series):
    key = jr.fold_in(jr.fold_in(key, 2**31 - 3), epoch)
    order_key, task_key, noise_key = jr.split(key, 3)
    shape = (plan.steps, plan.batch)
    order = shuffle(plan, order_key, series)
    keys = jr.split(task_key, plan.steps)
    noise = jr.normal(noise_key, (*shape, state.process.z_dim), series.t.dtype)
    update = optimiser(plan, last * plan.steps).update

    def step(carry, sample_latents):
        process, opt_state, skipped = carry
        index, key, noise = sample_latents
        tasks = jax.vmap(take)(series[index], plan.sampler.select(series[index], key=key))
        z = state.modes[index] + jax.vmap(solve_triangular)(state.roots[index], noise)
        with jax.default_matmul_precision("highest"):
            loss, gradient = jax.value_and_grad(_loss)(process, tasks, z, plan.extent)
        finite = jnp.isfinite(loss) & jnp.isfinite(optax.tree.norm(gradient))
        with jax.numpy_dtype_promotion("standard"):
            updates, new_state = update(gradient, opt_state, process)
        moved = (optax.apply_updates(process, updates), new_state)
        kept = jax.tree.map(lambda a, b: jnp.where(finite, a, b), moved, (process, opt_state))
        return (*kept, skipped + (~finite).astype(skipped.dtype)), loss

    carry = (state.process, state.optimiser, state.skipped)
    (process, opt_state, skipped), losses = jax.lax.scan(step, carry, (order, keys, noise))
    return dataclasses.replace(state, process=process, optimiser=opt_state, skipped=skipped), jnp.nanmean(losses)


def _loss(process, tasks, zs, extent):
    def one(task, z):
        predicted, ok = process.predict(z, task.points.t, extent)
        log_prob = jnp.where(ok[:, None], predicted.log_prob(task.points.y), jnp.nan)
        guesses = sum(q.log_prob(z).sum() for q in process.inference.beliefs(task))
        return -jnp.where(task.target, log_prob, 0.0).sum() - guesses

    return jax.vmap(one)(tasks, zs).mean()
