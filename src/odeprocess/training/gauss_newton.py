"""The end of training a process of few weights: weights and latents move together, by Gauss–Newton.

Expectation–maximisation creeps where there is little noise: latents are then known so well, given the weights, that the
weights can hardly move without them. Here the latents are projected out of the weights' least-squares problem, so that a step
moves both. It is taken if the series become likelier by it, once noise, prior and latents are brought up to date. This is for
linear processes: curves are linear in the latents, so that the likelihood can be worked out exactly; and there are dozens of
weights, each of which costs an integration of every series. At the end the encoder learns to guess the latents where they are
now.
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
from odeprocess.process.solvers import Extent

from .expectation_maximisation import CHUNK, fit_prior
from .mixture_prior import fit_mixture_prior
from .refit_encoder import guessing, refit_encoder

MOST_WEIGHTS, MOST_NOISE = 150, 0.02  # the latter in scaled units: with more of it gradient steps do converge
MOST_VALUES = 200_000  # of the series that decide about the weights
STEPS, TRIES = 40, 10  # of the weights; and dampings of each that are tried
FIRST_DAMPING, DAMPING_DECREASE, DAMPING_INCREASE, LEAST_DAMPING, TINY = 1e-4, 0.1, 4.0, 1e-12, 1e-6


class GaussNewtonState(NamedTuple):
    """How far it has come: a process whose prior and noise are up to date, and the posteriors of its series."""

    process: Process
    modes: Float[Array, "series z"]
    roots: Float[Array, "series z z"]
    log_likelihood: Float[Array, ""]  # a series, up to a constant


def can_converge(model: Model) -> bool:
    """Whether a model is of the kind that this is for."""
    likelihood = model.process.likelihood
    if not isinstance(likelihood, GaussianLikelihood) or likelihood.raw_std is None:
        return False
    sharp = bool((likelihood(jnp.zeros((1, len(likelihood.raw_std)))).std < MOST_NOISE).any())
    few = ravel_pytree(_curves(model.process))[0].size <= MOST_WEIGHTS
    linear = model.spec.linear
    return sharp and few and linear and model.process.prior is not None and model.process.inference.first is None


def gauss_newton_fit(model: Model, series: Series, sampler: TaskSampler, *, seed: int = 0) -> Model:
    """The model with weights at which the series it was trained on are as likely as can be; the same model, if they are so.

    Arguments:
        model: trained on `series`; see `can_converge`.
        series: in the user's units.
        sampler: of the tasks on which the encoder learns.
        seed: of these.
    """
    scaled = jax.tree.map(jnp.asarray, model.scaling.apply(series))
    extent = extent_for(model.process, scaled.t, scaled.observed)
    deciding = min(len(scaled), max(1, MOST_VALUES // (scaled.y.shape[1] * scaled.channels)))
    some = scaled[:deciding]
    begun = last = _current(model.process, _guesses(model.process, some), some, extent)
    damping = FIRST_DAMPING
    for _ in range(STEPS):
        better, damping = _step(last, some, extent, damping)
        if better is None:
            break
        last = better
    if last is begun:
        return model
    gain = float(last.log_likelihood - begun.log_likelihood)
    before = begun.modes
    if deciding < len(scaled):
        before = _current(model.process, _guesses(model.process, scaled), scaled, extent).modes
        near = jnp.concatenate([last.modes, jnp.broadcast_to(last.modes.mean(0), (len(scaled) - deciding, last.modes.shape[1]))])
        last = _current(last.process, near, scaled, extent)
    process = guessing(last.process, np.asarray(before, np.float64), np.asarray(last.modes, np.float64))
    process = refit_encoder(process, last.modes, last.roots, scaled, sampler, jr.key(seed))
    process = _divided(process, last.modes, last.roots, scaled)
    return dataclasses.replace(model, process=process, info={**model.info, "settled": gain})


def _step(now: GaussNewtonState, series: Series, extent: Extent, damping: float) -> tuple[GaussNewtonState | None, float]:
    """The first of several steps, shorter and shorter, that makes the series likelier, if any; and the damping for the next."""
    weights, unravel = ravel_pytree(_curves(now.process))
    rows = np.asarray(_system(now.process, now.modes, series, extent), np.float64)
    if not np.isfinite(rows).all():
        return None, damping
    triangle = np.asarray(np.linalg.qr(rows.reshape(-1, rows.shape[-1]), mode="r"))
    slopes, value = triangle[:, :-1], triangle[:, -1]
    sizes = np.sqrt((slopes**2).sum(0))  # damping counts in units of what each weight does: in those of the weights it got stuck
    sizes += TINY * sizes.max()
    for _ in range(TRIES):
        damped = np.concatenate([slopes, np.sqrt(damping) * np.diag(sizes)])
        move = np.linalg.lstsq(damped, -np.concatenate([value, np.zeros(len(weights))]), rcond=None)[0]
        curves = unravel(weights + jnp.asarray(move, weights.dtype))
        found = _current(eqx.tree_at(_curves, now.process, curves), now.modes, series, extent)
        if found.log_likelihood > now.log_likelihood:
            return found, max(DAMPING_DECREASE * damping, LEAST_DAMPING)
        damping *= DAMPING_INCREASE
    return None, damping


def _curves(process: Process) -> Any:
    """What decides about the curve that latents stand for."""
    return (process.flow, process.decoder)


@compiled
def _guesses(process: Process, series: Series) -> Any:
    return jax.lax.map(lambda one: process.infer(one).loc, series, batch_size=CHUNK)


@compiled(static_argnums=3)
def _current(process: Process, modes: Any, series: Series, extent: Extent) -> GaussNewtonState:
    """Brings latents, prior and noise up to date, begun at `modes`."""

    def one(process, pair):
        z, series = pair
        y, nothing, size = jnp.where(series.mask, series.y, 0.0), jnp.zeros_like(z), z.shape[0]
        problem = LeastSquaresProblem.of(process, process.prior, series, z, extent)
        value, slopes = linearise(problem, z, y, nothing)
        along, root = orthonormalise(slopes)

        def move(carry, _):  # to the mode, since all is linear in z; and once more, for what rounding left
            z, value = carry
            z = z - solve_triangular(root, project(along, value))
            return (z, problem.residuals(z, y, nothing)), None

        (z, value), _ = jax.lax.scan(move, (z, value), None, length=2)
        spread = solve_triangular(root, jnp.eye(size, dtype=z.dtype))
        squares = (value[:-size] ** 2 + ((slopes[:-size] @ spread) ** 2).sum(1)).reshape(y.shape).sum(0)
        noise = jnp.where(series.mask, jnp.log(problem.std), 0.0).sum()
        likely = -0.5 * (value**2).sum() - jnp.log(jnp.diagonal(root)).sum() - noise
        return z, root, squares, likely - jnp.log(jnp.diagonal(process.prior.chol)).sum()

    def twice(again, carry):
        process, modes, roots, squares, _ = carry
        process = jax.tree.map(
            lambda a, b: jnp.where(again > 0, a, b), _increase_likelihood(process, modes, roots, squares, series), process
        )
        with jax.default_matmul_precision("highest"):
            modes, roots, squares, likely = jax.lax.map(functools.partial(one, process), (modes, series), batch_size=CHUNK)
        return process, modes, roots, squares, likely

    count, size = modes.shape
    roots = jnp.broadcast_to(jnp.eye(size, dtype=modes.dtype), (count, size, size))
    nothing = (jnp.zeros_like(series.y[:, 0]), jnp.zeros_like(modes[:, 0]))
    process, modes, roots, _, likely = jax.lax.fori_loop(0, 2, twice, (process, modes, roots, *nothing))
    return GaussNewtonState(process, modes, roots, jnp.where(jnp.isfinite(likely).all(), likely.mean(), -jnp.inf))


def _increase_likelihood(process: Process, modes: Any, roots: Any, squares: Any, series: Series) -> Process:
    """The process with the prior and the noise that posteriors of its series make together."""
    assert isinstance(process.likelihood, GaussianLikelihood)
    values = jnp.maximum(series.mask.sum((0, 1)).astype(squares.dtype), 1.0)
    likelihood = process.likelihood.with_std_times(jnp.sqrt(squares.sum(0) / values))
    return eqx.tree_at(lambda p: (p.prior, p.likelihood), process, (fit_prior(modes, roots, series.static), likelihood))


@compiled(static_argnums=3)
def _system(process: Process, modes: Any, series: Series, extent: Extent) -> Any:
    """The least-squares problem of the weights with latents projected out, `[series, residuals, weights + 1]`, the value last."""
    weights, unravel = ravel_pytree(_curves(process))
    prior = process.prior
    assert prior is not None

    def one(pair):
        z, series = pair
        y, nothing = jnp.where(series.mask, series.y, 0.0), jnp.zeros_like(z)
        problem = LeastSquaresProblem.of(process, prior, series, z, extent)

        def residuals(weights):
            moved = eqx.tree_at(_curves, process, unravel(weights))
            return problem._replace(process=moved).residuals(z, y, nothing)

        value, push = jax.linearize(residuals, weights)
        slopes = jax.vmap(push, out_axes=1)(jnp.eye(weights.shape[0], dtype=z.dtype))
        along, _ = orthonormalise(linearise(problem, z, y, nothing)[1])
        both = jnp.concatenate([slopes, value[:, None]], 1)
        for _ in range(2):  # the second time takes away what rounding left
            both = both - along @ (along.T @ both)
        return both

    with jax.default_matmul_precision("highest"):
        return jax.lax.map(one, (modes, series), batch_size=CHUNK)


@compiled
def _divided(process: Process, modes: Any, roots: Any, series: Series) -> Process:
    if process.mixture is None:
        return process
    assert process.prior is not None
    found = fit_mixture_prior(process.prior, modes, roots, series.static, len(process.mixture))
    return eqx.tree_at(lambda p: p.mixture, process, found)
