"""The prior in detail: a mixture of normal distributions over the latents of the training series.

Fitted by expectation–maximisation once training is over, in the coordinates in which the one normal distribution that
training goes by is round. That one stays a part of the mixture: for series unlike all others.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr

from odeprocess.common.linear_algebra import cholesky, solve_triangular
from odeprocess.process.prior import MEMBERS, Mixture, Prior

STEPS = 60
SHRINKAGE_PSEUDO_COUNT = 2.0  # series: a part with as many leans on the others for half of its shape
MOST_CONSIDERED = 1000  # series from which members of the parts are chosen
BLUR = 0.3  # of the members
RIDGE = 1e-4  # the least variance, that of the whole being one


def fit_mixture_prior(prior: Prior, modes: Any, roots: Any, static: Any, parts: int, real: Any = None) -> Mixture:
    """The mixture of `parts` that posteriors of series make together, in the coordinates in which `prior` is standard.

    Arguments:
        prior: the one normal distribution of them all.
        modes: of the posteriors, `[series, z]`.
        roots: of their precisions, upper triangular, `[series, z, z]`.
        static: the covariates, `[series, k]`.
        parts: how many, with the `prior` itself.
        real: 1 for each series, and 0 for those that only pad; without it all are real.
    """
    real = jnp.ones(len(modes), modes.dtype) if real is None else real
    eye = jnp.eye(modes.shape[1], dtype=modes.dtype)
    x = jax.vmap(prior.whiten)(modes, static)
    spread = jax.vmap(lambda root: solve_triangular(prior.chol, solve_triangular(root, eye), lower=True))(roots)
    covariance = jnp.einsum("nij,nkj->nik", spread, spread)

    def log_densities(log_weights, means, chols):
        """Expected under each posterior, `[series, parts]`."""

        def part(mean, chol):
            inverse = solve_triangular(chol, eye, lower=True)  # once a part: a product is many times faster than a solve
            off = (x - mean[None]) @ inverse.T
            wide = jnp.einsum("ij,nij->n", inverse.T @ inverse, covariance)
            return -0.5 * ((off**2).sum(1) + wide) - jnp.log(jnp.diagonal(chol)).sum()

        return log_weights[None] + jax.vmap(part, out_axes=1)(means, chols)

    def step(mixture, _):
        belongs = jax.nn.softmax(log_densities(*mixture), 1) * real[:, None]
        counts = belongs.sum(0)
        means = belongs.T @ x / jnp.maximum(counts, 1e-6)[:, None]
        scatter = jax.vmap(lambda share, mean: ((x - mean[None]) * share[:, None]).T @ (x - mean[None]), (1, 0))(belongs, means)
        own = scatter + jnp.einsum("nk,nij->kij", belongs, covariance)
        typical = own[1:].sum(0) / jnp.maximum(counts[1:].sum(), 1.0)
        shapes = (own + SHRINKAGE_PSEUDO_COUNT * typical[None]) / (counts + SHRINKAGE_PSEUDO_COUNT)[:, None, None] + RIDGE * eye[
            None
        ]
        # The first part is all series' and keeps its place; none ever counts for less than one series in all.
        means, chols = means.at[0].set(0.0), jax.vmap(cholesky)(shapes).at[0].set(eye)
        share = jnp.maximum(counts, 1.0 / parts)
        return (jnp.log(share / share.sum()), means, chols), None

    means = jnp.concatenate([jnp.zeros_like(x[:1]), _apart(x, parts - 1, real)])
    narrow = cholesky(0.1 * eye + (real[:, None, None] * covariance).mean(0) * (len(real) / real.sum()))
    chols = jnp.broadcast_to(narrow, (parts, *eye.shape)).at[0].set(eye)
    start = (jnp.full(parts, -math.log(parts), x.dtype), means, chols)
    (log_weights, means, chols), _ = jax.lax.scan(step, start, None, length=STEPS)
    belongs = jax.nn.softmax(log_densities(log_weights, means, chols), 1).at[:, 0].set(1.0) * real[:, None]
    some = slice(None, None, max(1, len(x) // MOST_CONSIDERED))
    members = jax.lax.map(lambda part: _standing_for(x[some], *part), (means, chols, belongs[some].T))
    slope = jnp.zeros((parts, *prior.slope.shape), x.dtype)
    return Mixture(log_weights, Prior(means, slope, chols), members, jnp.asarray(BLUR, x.dtype))


def _standing_for(x: Any, mean: Any, chol: Any, shares: Any) -> Any:
    """Some of `x`, whitened, in an order in which the first few of them stand for all, by their `shares`: kernel herding."""
    x = solve_triangular(chol, (x - mean[None]).T, lower=True).T
    apart = (x**2).sum(1)[:, None] + (x**2).sum(1)[None] - 2.0 * x @ x.T
    kernel = jnp.exp(-0.5 * apart / x.shape[1])
    wanted = kernel @ (shares / shares.sum())

    def one(so_far, number):
        lacking = jnp.where(shares > 1e-3, wanted - so_far / (number + 1.0), -jnp.inf)
        chosen = jnp.argmax(lacking)
        return so_far + kernel[chosen], x[chosen]

    return jax.lax.scan(one, jnp.zeros_like(wanted), jnp.arange(MEMBERS, dtype=x.dtype))[1]


def _apart(x: Any, count: int, real: Any) -> Any:
    """Points of `x` that lie far from each other: each is drawn by its squared distance to those before."""

    def one(nearest, key):
        chosen = x[jr.categorical(key, jnp.log((nearest + 1e-12) * real))]
        return jnp.minimum(nearest, ((x - chosen[None]) ** 2).sum(1)), chosen

    return jax.lax.scan(one, jnp.ones_like(x[:, 0]), jr.split(jr.key(0), count))[1]
