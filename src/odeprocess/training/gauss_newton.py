"""Gauss–Newton over weights and latents together, at the end of training a linear process.

Section 11 of `docs/inference.md`. Expectation–maximisation converges slowly where the noise is small: the posteriors given the
weights are then so narrow that the weights can hardly move without the latents. Here the latents are projected out of the
least-squares problem of the weights (variable projection), so that a step moves both. A step is taken if it increases the
likelihood of the series once latents, prior and noise are updated. This is for processes that are linear in their latents, for
which that likelihood is exact, and with few weights, since each costs an integration of every series. Afterwards the encoder is
fitted to the new latents.
"""

import dataclasses
import functools
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from odeprocess.common.compilation import compiled
from odeprocess.common.linear_algebra import orthonormalise, project, solve_triangular
from odeprocess.data.series import Series
from odeprocess.data.tasks import TaskSampler
from odeprocess.inference.least_squares import LeastSquaresProblem, linearise
from odeprocess.posterior.functions import extent_for
from odeprocess.posterior.model import Model
from odeprocess.process import Process
from odeprocess.process.likelihood import GaussianLikelihood
from odeprocess.process.prior import Prior
from odeprocess.process.solvers import Extent

from .expectation_maximisation import CHUNK, fit_prior
from .mixture_prior import fit_mixture_prior
from .refit_encoder import map_encoder, refit_encoder

# All chosen by hand.
MOST_WEIGHTS = 150  # of flow and decoder: each is a column of the Jacobian, and costs an integration of every series
MOST_NOISE = 0.02  # σ, in scaled units, of the least noisy channel: with more noise gradient steps converge
MOST_VALUES = 200_000  # of the series that the weights are fitted to; further series only get new latents
MOST_STEPS = 40  # of the weights
MOST_DAMPINGS = 10  # that are tried for each step
INITIAL_DAMPING, LEAST_DAMPING = 1e-4, 1e-12  # λ of eq. 32
DAMPING_DECREASE, DAMPING_INCREASE = 0.1, 4.0  # factors of λ after a step that was taken, and after one that was not
LEAST_COLUMN_NORM = 1e-6  # of the largest: added to all, so that a weight without effect does not move


class GaussNewtonState(NamedTuple):
    """A process whose prior and noise are up to date, and the posteriors of its series.

    Attributes:
        process: the process.
        modes: of the posteriors, which are normal distributions.
        roots: upper triangular roots R of their precisions RᵀR.
        log_likelihood: the mean log marginal likelihood of a series (eq. 31), up to a constant; −∞ where it is not finite.
    """

    process: Process
    modes: Float[Array, "series z"]
    roots: Float[Array, "series z z"]
    log_likelihood: Float[Array, ""]


class _Posterior(NamedTuple):
    """The posterior of one series, or of all, given the weights, the prior and the noise.

    Attributes:
        mode: its mean.
        root: the upper triangular root of its precision.
        squares: expected squared residuals, in units of σ, summed over time, by channel.
        log_likelihood: eq. 31.
    """

    mode: Float[Array, "*series z"]
    root: Float[Array, "*series z z"]
    squares: Float[Array, "*series channels"]
    log_likelihood: Float[Array, "*series"]


def can_converge(model: Model) -> bool:
    """Whether `gauss_newton_fit` is for this model: linear, with a learned prior, few weights and little noise."""
    likelihood = model.process.likelihood
    if not isinstance(likelihood, GaussianLikelihood) or likelihood.raw_std is None:
        return False
    little_noise = bool((likelihood(jnp.zeros((1, len(likelihood.raw_std)))).std < MOST_NOISE).any())
    few_weights = ravel_pytree(_trained_parts(model.process))[0].size <= MOST_WEIGHTS
    return (
        little_noise
        and few_weights
        and model.spec.linear
        and model.process.prior is not None
        and model.process.inference.first is None
    )


def gauss_newton_fit(model: Model, series: Series, sampler: TaskSampler, *, seed: int = 0) -> Model:
    """The model after Gauss–Newton steps to a maximum of the likelihood; the same object if no step increases that.

    Arguments:
        model: trained on `series`; see `can_converge`.
        series: in the user's units.
        sampler: of the tasks on which the encoder is fitted anew.
        seed: of these tasks.

    Returns:
        A model whose `info["gauss_newton_gain"]` is the increase of the log likelihood of a series, in nats.
    """
    scaled = jax.tree.map(jnp.asarray, model.scaling.apply(series))
    extent = extent_for(model.process, scaled.t, scaled.observed)
    used = min(len(scaled), max(1, MOST_VALUES // (scaled.y.shape[1] * scaled.channels)))
    some = scaled[:used]
    first = update_latents(model.process, _encode(model.process, some), some, extent)
    last = _take_steps(first, some, extent)
    if last is first:
        return model
    gain = float(last.log_likelihood - first.log_likelihood)
    before = first.modes
    if used < len(scaled):
        before = update_latents(model.process, _encode(model.process, scaled), scaled, extent).modes
        rest = jnp.broadcast_to(last.modes.mean(0), (len(scaled) - used, last.modes.shape[1]))
        last = update_latents(last.process, jnp.concatenate([last.modes, rest]), scaled, extent)
    process = map_encoder(last.process, np.asarray(before, np.float64), np.asarray(last.modes, np.float64))
    process = refit_encoder(process, last.modes, last.roots, scaled, sampler, jr.key(seed))
    process = _refit_mixture(process, last.modes, last.roots, scaled)
    return dataclasses.replace(model, process=process, info={**model.info, "gauss_newton_gain": gain})


def _take_steps(state: GaussNewtonState, series: Series, extent: Extent) -> GaussNewtonState:
    """The state after all steps that increase the likelihood; the same object if none does."""
    damping = INITIAL_DAMPING
    for _ in range(MOST_STEPS):
        better, damping = take_step(state, series, extent, damping)
        if better is None:
            break
        state = better
    return state


def take_step(state: GaussNewtonState, series: Series, extent: Extent, damping: float) -> tuple[GaussNewtonState | None, float]:
    """The first step that increases the likelihood, of several with more and more damping (eq. 32); and the damping for the next.

    Without such a step `None`. The damping of each weight is in units of its column of the Jacobian (Moré, 1978): in units of the
    weights themselves, steps stopped far from the maximum in one of five trainings.
    """
    weights, unravel = ravel_pytree(_trained_parts(state.process))
    rows = np.asarray(project_latents_out(state.process, state.modes, series, extent), np.float64)
    if not np.isfinite(rows).all():
        return None, damping
    triangle = np.asarray(np.linalg.qr(rows.reshape(-1, rows.shape[-1]), mode="r"))
    jacobian, value = triangle[:, :-1], triangle[:, -1]
    norms = np.sqrt((jacobian**2).sum(0))
    norms += LEAST_COLUMN_NORM * norms.max()
    for _ in range(MOST_DAMPINGS):
        damped = np.concatenate([jacobian, np.sqrt(damping) * np.diag(norms)])
        move = np.linalg.lstsq(damped, -np.concatenate([value, np.zeros(len(weights))]), rcond=None)[0]
        moved = eqx.tree_at(_trained_parts, state.process, unravel(weights + jnp.asarray(move, weights.dtype)))
        new = update_latents(moved, state.modes, series, extent)
        if new.log_likelihood > state.log_likelihood:
            return new, max(DAMPING_DECREASE * damping, LEAST_DAMPING)
        damping *= DAMPING_INCREASE
    return None, damping


def _trained_parts(process: Process) -> Any:
    """The parts whose weights Gauss–Newton changes: those that turn latents into curves."""
    return (process.flow, process.decoder)


@compiled
def _encode(process: Process, series: Series) -> Float[Array, "series z"]:
    """The means of the encoder's posteriors."""
    return jax.lax.map(lambda one: process.infer(one).loc, series, batch_size=CHUNK)


@compiled(static_argnums=3)
def update_latents(process: Process, modes: Float[Array, "series z"], series: Series, extent: Extent) -> GaussNewtonState:
    """The state of a process: its posteriors, begun at `modes`, after one update of prior and noise.

    Posteriors are computed twice: for the prior and noise of `process`, and for those that follow from the first ones.
    """
    count, size = modes.shape
    roots = jnp.broadcast_to(jnp.eye(size, dtype=modes.dtype), (count, size, size))
    nothing = _Posterior(modes, roots, jnp.zeros_like(series.y[:, 0]), jnp.zeros_like(modes[:, 0]))

    def compute(again, carry):
        process, posteriors = carry
        updated = _update_prior_and_noise(process, posteriors, series)
        process = jax.tree.map(lambda new, old: jnp.where(again > 0, new, old), updated, process)
        one = functools.partial(_compute_posterior, process, extent)
        with jax.default_matmul_precision("highest"):
            return process, jax.lax.map(one, (posteriors.mode, series), batch_size=CHUNK)

    process, found = jax.lax.fori_loop(0, 2, compute, (process, nothing))  # a loop, so that the posteriors are compiled once
    mean = jnp.where(jnp.isfinite(found.log_likelihood).all(), found.log_likelihood.mean(), -jnp.inf)
    return GaussNewtonState(process, found.mode, found.root, mean)


def _compute_posterior(process: Process, extent: Extent, pair: tuple[Float[Array, " z"], Series]) -> _Posterior:
    """The exact posterior of one series, by linearisation at any latents."""
    z, series = pair
    assert process.prior is not None
    y, zero, size = jnp.where(series.mask, series.y, 0.0), jnp.zeros_like(z), z.shape[0]
    problem = LeastSquaresProblem.of(process, process.prior, series, z, extent)
    value, jacobian = linearise(problem, z, y, zero)
    q, root = orthonormalise(jacobian)

    def move(carry, _):  # the first step is exact, since residuals are linear in z; the second one corrects its rounding
        z, value = carry
        z = z - solve_triangular(root, project(q, value))
        return (z, problem.residuals(z, y, zero)), None

    (z, value), _ = jax.lax.scan(move, (z, value), None, length=2)
    spread = solve_triangular(root, jnp.eye(size, dtype=z.dtype))
    squares = value[:-size] ** 2 + ((jacobian[:-size] @ spread) ** 2).sum(1)
    log_std = jnp.where(series.mask, jnp.log(problem.std), 0.0).sum()
    log_likelihood = -0.5 * (value**2).sum() - jnp.log(jnp.diagonal(root)).sum() - log_std
    log_likelihood = log_likelihood - jnp.log(jnp.diagonal(process.prior.chol)).sum()
    return _Posterior(z, root, squares.reshape(y.shape).sum(0), log_likelihood)


def _update_prior_and_noise(process: Process, posteriors: _Posterior, series: Series) -> Process:
    """The process with the prior (eqs. 25 and 26) and the noise (eq. 33) that are most likely given the posteriors."""
    assert isinstance(process.likelihood, GaussianLikelihood)
    values = jnp.maximum(series.mask.sum((0, 1)).astype(posteriors.squares.dtype), 1.0)
    likelihood = process.likelihood.with_std_times(jnp.sqrt(posteriors.squares.sum(0) / values))
    prior = fit_prior(posteriors.mode, posteriors.root, series.static)
    return eqx.tree_at(lambda p: (p.prior, p.likelihood), process, (prior, likelihood))


@compiled(static_argnums=3)
def project_latents_out(
    process: Process, modes: Float[Array, "series z"], series: Series, extent: Extent
) -> Float[Array, "series residuals columns"]:
    """The Jacobian of each series' residuals in the weights, and as last column the residuals, without what latents explain.

    That is (I − QQᵀ)[∂r/∂w, r], where Q spans the columns of ∂r/∂z (eq. 32).
    """
    weights, unravel = ravel_pytree(_trained_parts(process))
    prior: Prior | None = process.prior
    assert prior is not None

    def one(pair):
        z, series = pair
        y, zero = jnp.where(series.mask, series.y, 0.0), jnp.zeros_like(z)
        problem = LeastSquaresProblem.of(process, prior, series, z, extent)

        def residuals(weights):
            moved = eqx.tree_at(_trained_parts, process, unravel(weights))
            return problem._replace(process=moved).residuals(z, y, zero)

        value, push = jax.linearize(residuals, weights)
        jacobian = jax.vmap(push, out_axes=1)(jnp.eye(weights.shape[0], dtype=z.dtype))
        q, _ = orthonormalise(linearise(problem, z, y, zero)[1])
        both = jnp.concatenate([jacobian, value[:, None]], 1)
        for _ in range(2):  # the second projection removes what rounding left
            both = both - q @ (q.T @ both)
        return both

    with jax.default_matmul_precision("highest"):
        return jax.lax.map(one, (modes, series), batch_size=CHUNK)


@compiled
def _refit_mixture(
    process: Process, modes: Float[Array, "series z"], roots: Float[Array, "series z z"], series: Series
) -> Process:
    """The process with its mixture prior fitted to new posteriors, if it has one."""
    if process.mixture is None:
        return process
    assert process.prior is not None
    found = fit_mixture_prior(process.prior, modes, roots, series.static, len(process.mixture))
    return eqx.tree_at(lambda p: p.mixture, process, found)
