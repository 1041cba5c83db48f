"""The second phase of training, for processes with a learned prior: expectation–maximisation with stored posteriors.

Section 9 of `docs/inference.md`. The encoder's posteriors limit how accurate the decoder can become. So this phase stores the
posterior of every training series: a normal distribution around its mode (the Laplace approximation). The E-step updates the
modes by a few solver steps every `E_STEP_EVERY` gradient steps, and the prior follows in closed form. Between two E-steps (the
M-step) the decoder, the field and σ learn from draws of the stored posteriors, and the encoder learns to predict these draws.
"""

import dataclasses
import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from odeprocess.common.compilation import compiled
from odeprocess.common.linear_algebra import cholesky, solve_positive, solve_triangular
from odeprocess.data.series import Series
from odeprocess.data.tasks import Task, take
from odeprocess.inference.least_squares import LeastSquaresProblem, precision_root, solve
from odeprocess.process import Process
from odeprocess.process.prior import Prior
from odeprocess.process.solvers import Extent

from .epoch import Plan, shuffle
from .mixture_prior import fit_mixture_prior
from .options import cosine
from .soap import soap, update_eigenbases

# All chosen by hand.
E_STEP_EVERY = 45  # gradient steps between two E-steps, rounded to whole epochs
EIGENBASES_EVERY = 9  # gradient steps between two updates of SOAP's eigenbases, rounded to whole epochs
FIRST_SOLVER_STEPS, SOLVER_STEPS = 12, 1  # double steps for each series in the first E-step, and in later ones
LEARNING_RATE_DIVISOR = 3  # the learning rate of the first phase over SOAP's
PRIOR_VARIANCE_PSEUDO_COUNT = 1e-2  # series of identity covariance that join the estimate of the prior's (eq. 26)
CHUNK = 64  # series that are computed at once, so that memory stays bounded


class EMState(eqx.Module):
    """What one seed carries from epoch to epoch.

    Attributes:
        process: the process as trained so far.
        optimiser: SOAP's state.
        modes: of the stored posteriors.
        roots: upper triangular R of their precisions RᵀR.
        skipped: steps that were skipped because their loss or gradient was not finite.
    """

    process: Process
    optimiser: Any
    modes: Float[Array, "*seeds series z"]
    roots: Float[Array, "*seeds series z z"]
    skipped: Int[Array, "*seeds"]


def make_optimiser(plan: Plan, total: Any) -> optax.GradientTransformation:
    """SOAP with a cosine schedule over `total` steps (eq. 28). It leaves a sixth of the σ that Adam leaves in as many steps."""
    return soap(cosine(plan.options.learning_rate / LEARNING_RATE_DIVISOR, total))


@compiled(static_argnums=0)
def initial_em_state(plan: Plan, processes: Process, series: Series) -> EMState:
    """The state of every seed before the first epoch, with the means of the encoder's posteriors as modes."""

    def one(process):
        modes = jax.lax.map(lambda s: process.infer(s).loc, series, batch_size=CHUNK)
        roots = jnp.zeros((*modes.shape, modes.shape[1]), modes.dtype)
        state = make_optimiser(plan, 1).init(process)  # pyright: ignore[reportArgumentType]
        return EMState(process, state, modes, roots, jnp.zeros((), jnp.int32))

    return jax.vmap(one)(processes)


def train_em_epoch(plan: Plan, states: EMState, keys: Any, epoch: int, last: int, series: Series) -> tuple[EMState, Any]:
    """Trains every seed for epoch number `epoch` (from 0) of `last`; returns the states and the mean loss of a step."""
    if epoch % max(1, E_STEP_EVERY // plan.steps) == 0:
        states = e_step(plan, states, series, jnp.asarray(SOLVER_STEPS if epoch else FIRST_SOLVER_STEPS))
    if epoch % max(1, EIGENBASES_EVERY // plan.steps) == 0:
        states = _update_eigenbases(states)
    return m_step_epoch(plan, states, keys, jnp.asarray(epoch), jnp.asarray(last), series)


@compiled(static_argnums=0, donate_argnums=1)
def e_step(plan: Plan, states: EMState, series: Series, steps: Int[Array, ""]) -> EMState:
    """Updates the stored posteriors (eq. 24) and the prior (eqs. 25 and 26) of every seed."""

    def update_posterior(process, pair):
        z, series = pair
        problem = LeastSquaresProblem.of(process, process.prior, series, z, plan.extent)
        y = jnp.where(series.mask, series.y, 0.0)
        z = solve(problem, z, y, jnp.zeros_like(z), steps).z
        return z, precision_root(problem, z, y)

    def update_seed(state):
        update = functools.partial(update_posterior, state.process)
        with jax.default_matmul_precision("highest"):
            modes, roots = jax.lax.map(update, (state.modes, series), batch_size=CHUNK)
        prior = fit_prior(modes, roots, series.static, _real_series(plan, series))
        process = eqx.tree_at(lambda p: p.prior, state.process, prior)
        return dataclasses.replace(state, process=process, modes=modes, roots=roots)

    return jax.vmap(update_seed)(states)


def fit_prior(
    modes: Float[Array, "series z"],
    roots: Float[Array, "series z z"],
    static: Float[Array, "series k"],
    real: Float[Array, " series"] | None = None,
) -> Prior:
    """The normal prior at which the stored posteriors are most likely, its mean linear in the covariates (eqs. 25 and 26).

    Arguments:
        modes: of the posteriors.
        roots: upper triangular roots of their precisions.
        static: covariates.
        real: 1 for each series and 0 for padding; all are real without it.
    """
    (count, size), inputs = modes.shape, jnp.concatenate([jnp.ones((len(modes), 1), modes.dtype), static], 1)
    if real is not None:
        count, inputs, modes = real.sum(), inputs * real[:, None], modes * real[:, None]
    penalty = jnp.diag(jnp.concatenate([jnp.zeros(1), jnp.ones(static.shape[1])]).astype(modes.dtype))
    weights = solve_positive(inputs.T @ inputs + penalty, inputs.T @ modes)
    residuals = modes - inputs @ weights
    spread = jax.vmap(lambda root: solve_triangular(root, jnp.eye(size, dtype=root.dtype)))(roots)
    spread = spread if real is None else spread * real[:, None, None]
    scatter = residuals.T @ residuals + jnp.einsum("nij,nkj->ik", spread, spread)
    scatter = scatter + PRIOR_VARIANCE_PSEUDO_COUNT * jnp.eye(size, dtype=modes.dtype)
    return Prior(weights[0], weights[1:].T, cholesky(scatter / count))


def _real_series(plan: Plan, series: Series) -> Float[Array, " series"] | None:
    """1 for each series with an observation and 0 for padding; `None` where series are not padded."""
    return None if not plan.options.bucketed else series.observed.any(-1).astype(series.t.dtype)


@compiled(donate_argnums=0)
def _update_eigenbases(states: EMState) -> EMState:
    return dataclasses.replace(states, optimiser=jax.vmap(update_eigenbases)(states.optimiser))


@compiled(static_argnums=0, donate_argnums=1)
def m_step_epoch(
    plan: Plan, states: EMState, keys: Any, epoch: Int[Array, ""], last: Int[Array, ""], series: Series
) -> tuple[EMState, Float[Array, " seeds"]]:
    """The gradient steps of one epoch of every seed (eq. 27), and the mean loss of a step."""
    return jax.vmap(lambda state, key: _train_epoch(plan, state, key, epoch, last, series))(states, keys)


def _train_epoch(
    plan: Plan, state: EMState, key: PRNGKeyArray, epoch: Int[Array, ""], last: Int[Array, ""], series: Series
) -> tuple[EMState, Float[Array, ""]]:
    key = jr.fold_in(jr.fold_in(key, 2**31 - 3), epoch)  # another stream of random numbers than the first phase's
    order_key, task_key, noise_key = jr.split(key, 3)
    order = shuffle(plan, order_key, series)
    keys = jr.split(task_key, plan.steps)
    noise = jr.normal(noise_key, (plan.steps, plan.batch, state.process.z_dim), series.t.dtype)
    update = make_optimiser(plan, last * plan.steps).update

    def step(carry, choices):
        process, optimiser_state, skipped = carry
        index, key, noise = choices
        tasks = jax.vmap(take)(series[index], plan.sampler.select(series[index], key=key))
        z = state.modes[index] + jax.vmap(solve_triangular)(state.roots[index], noise)
        with jax.default_matmul_precision("highest"):
            loss, gradient = jax.value_and_grad(_loss)(process, tasks, z, plan.extent)
        finite = jnp.isfinite(loss) & jnp.isfinite(optax.tree.norm(gradient))
        with jax.numpy_dtype_promotion("standard"):
            updates, new_state = update(gradient, optimiser_state, process)
        new = (optax.apply_updates(process, updates), new_state)
        kept = jax.tree.map(lambda a, b: jnp.where(finite, a, b), new, (process, optimiser_state))
        return (*kept, skipped + (~finite).astype(skipped.dtype)), loss

    carry = (state.process, state.optimiser, state.skipped)
    (process, optimiser_state, skipped), losses = jax.lax.scan(step, carry, (order, keys, noise))
    state = dataclasses.replace(state, process=process, optimiser=optimiser_state, skipped=skipped)
    return state, jnp.nanmean(losses)


def _loss(process: Process, tasks: Task, zs: Float[Array, "batch z"], extent: Extent) -> Float[Array, ""]:
    """The negative of eq. 27, averaged over the tasks, with one draw of each posterior."""

    def one(task, z):
        predicted, ok = process.predict(z, task.points.t, extent)
        log_prob = jnp.where(ok[:, None], predicted.log_prob(task.points.y), jnp.nan)
        of_encoder = sum(q.log_prob(z).sum() for q in process.inference.beliefs(task))
        return -jnp.where(task.target, log_prob, 0.0).sum() - of_encoder

    return jax.vmap(one)(tasks, zs).mean()


@compiled(static_argnums=0)
def fit_mixture(plan: Plan, states: EMState, series: Series) -> EMState:
    """The states with the mixture prior fitted, after the last epoch, where the process has room for one."""

    def one(state):
        process = state.process
        assert process.prior is not None and process.mixture is not None
        real = _real_series(plan, series)
        found = fit_mixture_prior(process.prior, state.modes, state.roots, series.static, len(process.mixture), real)
        return eqx.tree_at(lambda s: s.process.mixture, state, found)

    return jax.vmap(one)(states) if states.process.mixture is not None else states
