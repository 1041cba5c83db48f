"""The mixture prior, fitted to the stored posteriors of all training series when training is over.

Section 10 of `docs/inference.md`. A mixture of normal distributions over the latents, fitted by expectation–maximisation in the
coordinates in which the single normal prior of training is standard. That one stays as the first component, for series unlike all
others. Each component keeps some of its series as members, near which draws are made.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float

from odeprocess.common.linear_algebra import cholesky, solve_triangular
from odeprocess.process.prior import MEMBERS, Mixture, Prior

# All chosen by hand, but for the blur.
ITERATIONS = 60  # of expectation–maximisation
SHRINKAGE_PSEUDO_COUNT = 2.0  # series that shrink each component's covariance to the pooled one
RIDGE = 1e-4  # added to each variance; the variance of all series together is 1
START_VARIANCE = 0.1  # of a component before the first iteration, beside the mean variance of the posteriors
LEAST_COUNT = 1e-6  # the least number of series by which a component's mean is divided
MEMBER_CANDIDATES = 1000  # series, about, from which the members of a component are chosen
LEAST_MEMBERSHIP = 1e-3  # the least probability of belonging to a component that makes a series a candidate
BLUR = 0.3  # b of eq. 15: how far draws are from members; chosen on noisy decays and their forecasts (docs/accuracy.md)


class _LatentPosteriors(NamedTuple):
    """The posteriors of all series, in the coordinates in which the normal prior is standard."""

    means: Float[Array, "series z"]
    covariances: Float[Array, "series z z"]
    real: Float[Array, " series"]  # 1 for each series, 0 for padding


class _Components(NamedTuple):
    """The components between two iterations."""

    log_weights: Float[Array, " components"]
    means: Float[Array, "components z"]
    chols: Float[Array, "components z z"]


def fit_mixture_prior(
    prior: Prior,
    modes: Float[Array, "series z"],
    roots: Float[Array, "series z z"],
    static: Float[Array, "series k"],
    parts: int,
    real: Float[Array, " series"] | None = None,
) -> Mixture:
    """The mixture of `parts` components that makes the stored posteriors likely, in the coordinates where `prior` is standard.

    Arguments:
        prior: the normal prior of all series.
        modes: of the posteriors.
        roots: upper triangular roots of their precisions.
        static: covariates.
        parts: how many components, `prior` itself among them.
        real: 1 for each series and 0 for padding; all are real without it.
    """
    posteriors = _whiten(prior, modes, roots, static, jnp.ones(len(modes), modes.dtype) if real is None else real)
    components = _initialise(posteriors, parts)
    components, _ = jax.lax.scan(lambda each, _: (_iterate(posteriors, each), None), components, None, length=ITERATIONS)
    members = _choose_members(posteriors, components)
    slope = jnp.zeros((parts, *prior.slope.shape), modes.dtype)
    normals = Prior(components.means, slope, components.chols)
    return Mixture(components.log_weights, normals, members, jnp.asarray(BLUR, modes.dtype))


def _whiten(
    prior: Prior,
    modes: Float[Array, "series z"],
    roots: Float[Array, "series z z"],
    static: Float[Array, "series k"],
    real: Float[Array, " series"],
) -> _LatentPosteriors:
    eye = jnp.eye(modes.shape[1], dtype=modes.dtype)
    means = jax.vmap(prior.whiten)(modes, static)
    spread = jax.vmap(lambda root: solve_triangular(prior.chol, solve_triangular(root, eye), lower=True))(roots)
    return _LatentPosteriors(means, jnp.einsum("nij,nkj->nik", spread, spread), real)


def _initialise(posteriors: _LatentPosteriors, parts: int) -> _Components:
    """The first component is the standard normal distribution; the others begin at series far from each other, and narrow."""
    x, covariances, real = posteriors
    eye = jnp.eye(x.shape[1], dtype=x.dtype)
    means = jnp.concatenate([jnp.zeros_like(x[:1]), _choose_distant(x, parts - 1, real)])
    narrow = cholesky(START_VARIANCE * eye + (real[:, None, None] * covariances).mean(0) * (len(real) / real.sum()))
    chols = jnp.broadcast_to(narrow, (parts, *eye.shape)).at[0].set(eye)
    return _Components(jnp.full(parts, -math.log(parts), x.dtype), means, chols)


def _responsibilities(posteriors: _LatentPosteriors, components: _Components) -> Float[Array, "series components"]:
    """The probability that each series belongs to each component (eq. 29)."""
    x, covariances, _ = posteriors
    eye = jnp.eye(x.shape[1], dtype=x.dtype)

    def expected_log_density(mean, chol):
        inverse = solve_triangular(chol, eye, lower=True)  # once a component: a product is many times faster than a solve
        apart = (x - mean[None]) @ inverse.T
        trace = jnp.einsum("ij,nij->n", inverse.T @ inverse, covariances)
        return -0.5 * ((apart**2).sum(1) + trace) - jnp.log(jnp.diagonal(chol)).sum()

    densities = jax.vmap(expected_log_density, out_axes=1)(components.means, components.chols)
    return jax.nn.softmax(components.log_weights[None] + densities, 1)


def _iterate(posteriors: _LatentPosteriors, components: _Components) -> _Components:
    """One iteration of expectation–maximisation (eqs. 29 and 30)."""
    x, covariances, real = posteriors
    eye, parts = jnp.eye(x.shape[1], dtype=x.dtype), len(components.log_weights)
    belongs = _responsibilities(posteriors, components) * real[:, None]
    counts = belongs.sum(0)
    means = belongs.T @ x / jnp.maximum(counts, LEAST_COUNT)[:, None]
    scatter = jax.vmap(lambda share, mean: ((x - mean[None]) * share[:, None]).T @ (x - mean[None]), (1, 0))(belongs, means)
    own = scatter + jnp.einsum("nk,nij->kij", belongs, covariances)
    pooled = own[1:].sum(0) / jnp.maximum(counts[1:].sum(), 1.0)
    shrunk = (own + SHRINKAGE_PSEUDO_COUNT * pooled[None]) / (counts + SHRINKAGE_PSEUDO_COUNT)[:, None, None]
    chols = jax.vmap(cholesky)(shrunk + RIDGE * eye[None])
    # The first component stays the standard normal distribution. No component weighs less than 1/parts of a series.
    share = jnp.maximum(counts, 1.0 / parts)
    return _Components(jnp.log(share / share.sum()), means.at[0].set(0.0), chols.at[0].set(eye))


def _choose_members(posteriors: _LatentPosteriors, components: _Components) -> Float[Array, "components members z"]:
    """The whitened members of each component; those of the first one are chosen from all series."""
    belongs = _responsibilities(posteriors, components).at[:, 0].set(1.0) * posteriors.real[:, None]
    candidates = slice(None, None, max(1, len(belongs) // MEMBER_CANDIDATES))
    x, shares = posteriors.means[candidates], belongs[candidates].T
    return jax.lax.map(lambda each: _herd(x, *each), (components.means, components.chols, shares))


def _herd(
    x: Float[Array, "series z"], mean: Float[Array, " z"], chol: Float[Array, "z z"], shares: Float[Array, " series"]
) -> Float[Array, "members z"]:
    """Members of one component, whitened, such that the first few represent all by their `shares`: kernel herding.

    Each is the point at which the members before it lack most of the density that `shares` have, under a normal kernel whose
    variance is the number of latents (Chen, Welling and Smola, 2010).
    """
    x = solve_triangular(chol, (x - mean[None]).T, lower=True).T
    squared_distances = (x**2).sum(1)[:, None] + (x**2).sum(1)[None] - 2.0 * x @ x.T
    kernel = jnp.exp(-0.5 * squared_distances / x.shape[1])
    wanted = kernel @ (shares / shares.sum())

    def choose(so_far, number):
        lacking = jnp.where(shares > LEAST_MEMBERSHIP, wanted - so_far / (number + 1.0), -jnp.inf)
        chosen = jnp.argmax(lacking)
        return so_far + kernel[chosen], x[chosen]

    return jax.lax.scan(choose, jnp.zeros_like(wanted), jnp.arange(MEMBERS, dtype=x.dtype))[1]


def _choose_distant(x: Float[Array, "series z"], count: int, real: Float[Array, " series"]) -> Float[Array, "count z"]:
    """Points of `x` far from each other, as k-means++ chooses them: by their squared distance to the nearest before."""

    def choose(nearest, key):
        chosen = x[jr.categorical(key, jnp.log((nearest + 1e-12) * real))]  # 1e-12: where all distances are zero
        return jnp.minimum(nearest, ((x - chosen[None]) ** 2).sum(1)), chosen

    return jax.lax.scan(choose, jnp.ones_like(x[:, 0]), jr.split(jr.key(0), count))[1]
