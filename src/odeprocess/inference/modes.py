"""The modes of a series' posterior under each component of the prior, and the probability of each component.

Section 4 of `docs/inference.md`. The components of a mixture prior are narrow, so a local search finds the mode under each, and
the Laplace approximation there is accurate enough for the evidence of the component.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, Int

from odeprocess.common.linear_algebra import orthonormalise
from odeprocess.process.prior import Mixture, Prior

from .least_squares import TOLERANCE, LeastSquaresProblem, Solution, cost_limit, linearise, solve, solve_in_rounds
from .noise_scale import NoiseScale

NUM_STARTS = 8  # searches for a mode, at least, the ones from the components' means among them; chosen by hand


class Mode(NamedTuple):
    """The mode under one component of the prior (stacked for several), and the Laplace approximation there.

    Attributes:
        prior: the component.
        z: the mode.
        data_cost: the sum of squared residuals of the observations there: D of eq. 9.
        prior_cost: the sum of squared residuals of the latents there: P of eq. 9.
        q: orthonormal columns of the QR decomposition of the Jacobian.
        r: its triangular factor R; the precision of the Laplace approximation is RᵀR.
        log_weight: the logarithm of prior probability times Laplace evidence (eq. 9), up to a constant.
    """

    prior: Prior
    z: Float[Array, "*modes z"]
    data_cost: Float[Array, "*modes"]
    prior_cost: Float[Array, "*modes"]
    q: Float[Array, "*modes residuals z"]
    r: Float[Array, "*modes z z"]
    log_weight: Float[Array, "*modes"]


def find_modes(
    problem: LeastSquaresProblem,
    mixture: Mixture,
    data: Float[Array, "n channels"],
    guesses: Float[Array, "guesses z"],
    steps: Int[Array, ""] | int,
    noise_scale: NoiseScale | None,
) -> Mode:
    """The modes under all components of a mixture, stacked.

    Arguments:
        problem: of the series; its prior is replaced by each component in turn.
        mixture: the prior.
        data: values of the observations.
        guesses: starting points besides the means of the components; the first ones are used.
        steps: the most double steps of a search.
        noise_scale: the distribution of the series' noise; `None` where all series have the same.
    """
    count = problem.series.mask.sum(dtype=data.dtype)
    modes = _search(problem, mixture, data, guesses[: max(1, NUM_STARTS - len(mixture))], steps, count)

    def describe(prior, log_weight, z):
        return _approximate_posterior(problem._replace(prior=prior), z, data, count, log_weight, noise_scale)

    return jax.vmap(describe)(mixture.parts, mixture.log_weights, modes)


def _approximate_posterior(
    problem: LeastSquaresProblem,
    z: Float[Array, " z"],
    data: Float[Array, "n channels"],
    count: Float[Array, ""],
    log_weight: Float[Array, ""],
    noise_scale: NoiseScale | None,
) -> Mode:
    """The Laplace approximation at a mode under the problem's prior, whose log probability is `log_weight` (eq. 9)."""
    value, jacobian = linearise(problem, z, data, jnp.zeros_like(z))
    q, r = orthonormalise(jacobian)
    data_cost, prior_cost = (value[: -z.shape[0]] ** 2).sum(), (value[-z.shape[0] :] ** 2).sum()
    log_likelihood = -0.5 * data_cost if noise_scale is None else noise_scale.log_likelihood(data_cost, count)
    log_volume = jnp.log(jnp.diagonal(problem.prior.chol)).sum() + jnp.log(jnp.diagonal(r)).sum()
    log_weight = log_weight + log_likelihood - 0.5 * prior_cost - log_volume
    return Mode(problem.prior, z, data_cost, prior_cost, q, r, log_weight)


def _search(
    problem: LeastSquaresProblem,
    mixture: Mixture,
    data: Float[Array, "n channels"],
    guesses: Float[Array, "guesses z"],
    steps: Int[Array, ""] | int,
    count: Float[Array, ""],
) -> Float[Array, "components z"]:
    """The mode under each component, sought from its mean; under the first component from `guesses` too."""
    components, static = mixture.parts, problem.series.static

    def search_from(prior, z):
        return solve(problem._replace(prior=prior), z, data, jnp.zeros_like(z), steps, TOLERANCE)

    # One row for each search: all components, then the first component once more for each guess.
    priors = jax.tree.map(lambda x: jnp.concatenate([x, jnp.repeat(x[:1], len(guesses), 0)]), components)
    means = jax.vmap(lambda prior: prior.mean(static))(components)

    def restart_worse_half(found, number):
        noise = jr.normal(jr.key(number), found.z.shape, data.dtype)
        draws = jax.vmap(lambda prior, noise: prior.colour(noise, static))(priors, noise)
        return jnp.where((found.cost > jnp.median(found.cost))[:, None], draws, found.z)

    found = solve_in_rounds(
        lambda starts: jax.vmap(search_from)(priors, starts),
        lambda found: found.cost.min() > cost_limit(0.0, count),
        restart_worse_half,
        jnp.concatenate([means, guesses]),
    )
    best = jax.tree.map(lambda x: x[jnp.argmin(found.cost)], found)
    if len(mixture) == 1:
        return best.z[None]
    own = jax.tree.map(lambda x: x[: len(mixture)], found)
    starts = _choose_starts(problem, components, data, best, own)
    return jax.vmap(search_from)(components, starts).z


def _choose_starts(
    problem: LeastSquaresProblem, components: Prior, data: Float[Array, "n channels"], best: Solution, own: Solution
) -> Float[Array, "components z"]:
    """For each component the solution of its own search, or the best of all searches where that costs less under it."""

    def cost_of_best(prior):
        return problem._replace(prior=prior).cost(best.z, data, jnp.zeros_like(best.z))

    better = jax.vmap(cost_of_best)(components) < own.cost
    return jnp.where(better[:, None], best.z[None], own.z)
