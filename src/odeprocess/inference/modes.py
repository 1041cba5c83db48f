"""Where the posterior of a series may lie: its mode under each part of the prior, and how likely that part is.

Each part of a mixture is narrow, so that the search under it is local, and the normal distribution around its mode tells
well enough how much of the posterior it holds.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float

from odeprocess.common.linear_algebra import orthonormalise
from odeprocess.process.prior import Mixture, Prior

from .least_squares import TOLERANCE, LeastSquaresProblem, cost_limit, linearise, solve, solve_in_rounds
from .noise_scale import NoiseScale

NUM_STARTS = 8  # from which the mode is sought, at least


class Mode(NamedTuple):
    """A mode, and the posterior around it.

    Attributes:
        prior: the part of the prior under which it is one.
        z: the mode.
        data_cost: the sum of squared residuals of the observations there.
        prior_cost: that of the latents: how far the mode is from the prior's mean.
        q: orthonormal columns of the QR decomposition of the residuals' derivatives.
        r: its triangular factor: a root of the precision.
        log_weight: the logarithm of the probability that the series is of this part; up to a constant.
    """

    prior: Prior
    z: Float[Array, " z"]
    data_cost: Float[Array, ""]
    prior_cost: Float[Array, ""]
    q: Float[Array, "residuals z"]
    r: Float[Array, "z z"]
    log_weight: Float[Array, ""]


def find_modes(
    problem: LeastSquaresProblem, mixture: Mixture, data: Any, guesses: Any, steps: int, noise_scale: NoiseScale | None
) -> Mode:
    """The peaks under all parts of a mixture, stacked.

    Arguments:
        problem: of the series; its prior is left out of account.
        mixture: the belief before any observation.
        data: values of the observations.
        guesses: where to begin, besides the means of the parts, `[guesses, z]`; the first ones are used.
        steps: double steps of the solver in a round.
        noise_scale: how the noise scale varies between series; `None` where it does not.
    """
    count = problem.series.mask.sum(dtype=data.dtype)
    modes = _modes(problem, mixture, data, guesses[: max(1, NUM_STARTS - len(mixture))], steps, count)

    def one(prior, log_weight, mode):
        value, slopes = linearise(problem._replace(prior=prior), mode, data, jnp.zeros_like(mode))
        q, r = orthonormalise(slopes)
        size = mode.shape[0]
        off, prior_cost = (value[:-size] ** 2).sum(), (value[-size:] ** 2).sum()
        fits = -0.5 * off if noise_scale is None else noise_scale.log_likelihood(off, count)
        volume = jnp.log(jnp.diagonal(prior.chol)).sum() + jnp.log(jnp.diagonal(r)).sum()
        return Mode(prior, mode, off, prior_cost, q, r, log_weight + fits - 0.5 * prior_cost - volume)

    return jax.vmap(one)(mixture.parts, mixture.log_weights, modes)


def _modes(problem: LeastSquaresProblem, mixture: Mixture, data: Any, guesses: Any, steps: int, count: Any) -> Any:
    """The mode under each part, sought from its mean; under the first part from `guesses` too."""

    def solved(prior, z):
        return solve(problem._replace(prior=prior), z, data, jnp.zeros_like(z), steps, TOLERANCE)

    parts, size = mixture.parts, len(mixture)
    several = jax.tree.map(lambda x: jnp.concatenate([x, jnp.repeat(x[:1], len(guesses), 0)]), parts)
    means = jax.vmap(lambda prior: prior.mean(problem.series.static))(parts)

    def again(found, number):  # the worse half begins anew, at draws of the prior
        noise = jr.normal(jr.key(number), found.z.shape, data.dtype)
        anew = jax.vmap(lambda prior, noise: prior.colour(noise, problem.series.static))(several, noise)
        return jnp.where((found.cost > jnp.median(found.cost))[:, None], anew, found.z)

    found = solve_in_rounds(
        lambda z: jax.vmap(solved)(several, z),
        lambda found: found.cost.min() > cost_limit(0.0, count),
        again,
        jnp.concatenate([means, guesses]),
    )
    best = jax.tree.map(lambda x: x[jnp.argmin(found.cost)], found)
    if size == 1:
        return best.z[None]
    # A part whose own search went astray goes on from where the best one ended.
    own = jax.tree.map(lambda x: x[:size], found)

    def cost(prior, z):
        return (problem._replace(prior=prior).residuals(z, data, jnp.zeros_like(z)) ** 2).sum()

    nearer = jax.vmap(lambda prior: cost(prior, best.z))(parts) < own.cost
    return jax.vmap(solved)(parts, jnp.where(nearer[:, None], best.z[None], own.z)).z
