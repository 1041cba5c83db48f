"""The compiled functions behind `Posterior`, for batches of series in scaled units.

Callers pad series, points and times to few sizes (`odeprocess.data.series.bucket`), so that each size compiles once.
"""

from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr

from odeprocess.common.compilation import compiled
from odeprocess.common.distributions import AbstractDistribution, Normal
from odeprocess.data.series import Series
from odeprocess.process import Process, Summary
from odeprocess.process.solvers import Extent

from .modes import NUM_STARTS
from .randomised_map import Ensemble, find_best_mode, sample_posterior

Belief = Normal | Ensemble  # a posterior over latents: the encoder's, or draws of the exact one
SERIES_AT_ONCE = 256  # series whose draws a GPU computes together; chosen by hand


@compiled
def observe(process: Process, summary: Summary, series: Series) -> tuple[Summary, Normal]:
    """The summary with the observations of `series` added, and the encoder's posterior (eq. 3 of `docs/inference.md`)."""

    def one(summary, series):
        summary = summary.merge(process.inference.summarise(series))
        return summary, process.inference.belief(summary, series.static)

    return jax.vmap(one)(summary, series)


@compiled
def summarise(process: Process, series: Series) -> Summary:
    """The encoder's summary of each series."""
    return jax.vmap(process.inference.summarise)(series)


@compiled(static_argnums=2)
def draw(belief: Belief, keys: Any, n: int) -> Any:
    """Draws of latents `[series, n, z]`; draw i is the same whatever n is."""
    return jax.vmap(lambda q, key: sample_latents(q, key, n))(belief, keys)


@compiled(static_argnums=(6, 7, 8))
def exact_draws(
    process: Process,
    belief: Normal,
    start: Belief,
    keys: Any,
    series: Series,
    noise_scale: Any,
    n: int,
    steps: int,
    extent: Extent,
) -> Ensemble:
    """Draws of the exact posterior given all observations `series` (section 5 of `docs/inference.md`).

    Searches begin at draws of `start`: the encoder's `belief`, or draws of the posterior before an update.
    """

    def one(arguments):
        belief, start, key, series = arguments
        starts = sample_latents(start, key, n)
        with jax.default_matmul_precision("highest"):  # GPUs would multiply in fewer digits than the fit needs
            return sample_posterior(process, belief, starts, series, jr.fold_in(key, 1), n, steps, extent, noise_scale)

    return _map_over_series(one, (belief, start, keys, series))


@compiled(static_argnums=(4, 5))
def find_best_modes(process: Process, belief: Normal, keys: Any, series: Series, steps: int, extent: Extent) -> tuple[Any, Any]:
    """The posterior mode of each series given all its observations, `[series, z]`, and the cost there (eq. 5)."""

    def one(arguments):
        belief, key, series = arguments
        with jax.default_matmul_precision("highest"):
            found = find_best_mode(process, belief, sample_latents(belief, key, NUM_STARTS), series, steps, extent)
        return found.z, found.data_cost + found.prior_cost

    return _map_over_series(one, (belief, keys, series))


def _map_over_series(one: Any, arguments: Any) -> Any:
    # On CPUs one series after the other: its draws fill the caches, and several at once took three times as long.
    at_once = None if jax.default_backend() == "cpu" else min(SERIES_AT_ONCE, len(jax.tree.leaves(arguments)[0]))
    return jax.lax.map(one, arguments, batch_size=at_once)


def sample_latents(q: Belief, key: Any, n: int) -> Any:
    """Draws 0 to n − 1 of one series, `[n, z]`."""
    if isinstance(q, Ensemble):
        return q.z[:n]
    key, _ = jr.split(key)
    noise = jax.vmap(lambda i: jr.normal(jr.fold_in(key, i), q.loc.shape, q.loc.dtype))(jnp.arange(n))
    return q.loc[None] + q.scale[None] * noise


@compiled(static_argnums=3)
def decode(process: Process, z: Any, t: Any, extent: Extent) -> tuple[AbstractDistribution, Any]:
    """The predictions `[series, n, m, channels]` of draws `z [series, n, z]` at `t [series, m]`, and which are finite."""
    over_draws = jax.vmap(lambda z, t: process.predict(z, t, extent), (0, None))
    with jax.default_matmul_precision("highest"):
        predicted, ok = jax.vmap(over_draws)(z, t)
    squares = predicted.mean**2 + predicted.std**2  # moments need them, and they may overflow where values do not
    return predicted, ok & jnp.isfinite(squares).all(-1)


def with_noise_factors(belief: Belief, predicted: AbstractDistribution) -> AbstractDistribution:
    """The predictions `[series, n, m, channels]` of a posterior's draws, the noise of each multiplied by its factor (eq. 17)."""
    if not isinstance(belief, Ensemble) or not isinstance(predicted, Normal):
        return predicted
    factor = belief.noise[:, : predicted.loc.shape[1], None, None]
    return Normal(predicted.loc, factor * predicted.scale)


@compiled
def sample_observations(predicted: AbstractDistribution, keys: Any) -> Any:
    """One observation for each predicted distribution."""
    return jax.vmap(lambda p, key: p.sample(jr.split(key)[1]))(predicted, keys)


@compiled
def moments(predicted: AbstractDistribution) -> tuple[Any, Any, Any]:
    """Over the draws: the mean, the standard deviation of the function, and that of observations."""
    mean = predicted.mean.mean(1)
    spread = predicted.mean.var(1)
    return mean, jnp.sqrt(spread), jnp.sqrt(spread + (predicted.std**2).mean(1))


@compiled
def mixture_log_prob(predicted: AbstractDistribution, y: Any) -> Any:
    """The log density of each value of `y [series, m, channels]` under the mixture of all draws."""
    each = predicted.log_prob(y[:, None].astype(predicted.mean.dtype))
    return jax.nn.logsumexp(each, 1) - jnp.log(each.shape[1]).astype(each.dtype)


@compiled
def mixture_joint_log_prob(predicted: AbstractDistribution, y: Any, mask: Any) -> Any:
    """Log density of all unmasked values `[series, m, channels]` of each series together, under all draws."""
    each = jnp.where(mask[:, None], predicted.log_prob(y[:, None].astype(predicted.mean.dtype)), 0.0).sum((2, 3))
    return jax.nn.logsumexp(each, 1) - jnp.log(each.shape[1]).astype(each.dtype)


@compiled(static_argnames="of_function")
def quantiles(predicted: AbstractDistribution, q: Any, *, of_function: bool) -> Any:
    """Quantiles `[q, series, m, channels]`: of the function over the draws, or of observations under the mixture of all draws."""
    q = q.astype(predicted.mean.dtype)
    if of_function:
        return jnp.quantile(predicted.mean, q, axis=1)
    by_draw = jax.tree.map(lambda x: jnp.moveaxis(x, 1, 0), predicted)
    return jax.lax.map(by_draw.mixture_quantile, q)


@compiled(static_argnums=(5, 6, 7))
def log_density(
    process: Process, belief: Belief, proposal: Belief, keys: Any, series: Series, n: int, extent: Extent, joint: bool
) -> tuple[Any, Any]:
    """Log densities of scaled observations by importance sampling from `proposal`, which may be `belief` itself.

    Of all values of a series together if `joint`, else of each value, NaN where it is missing; and whether the solver reached
    every observation.
    """

    def one(belief, proposal, key, series):
        z = sample_latents(proposal, key, n)
        predicted, ok = jax.vmap(lambda z: process.predict(z, series.t, extent))(z)
        predicted = jax.tree.map(lambda x: x[0], with_noise_factors(_batched(proposal), _batched(predicted)))
        weights = (belief_log_prob(belief, z) - belief_log_prob(proposal, z)) - jnp.log(n)
        each = jnp.where(series.mask[None], predicted.log_prob(series.y[None]), 0.0 if joint else jnp.nan)
        reached = (ok | ~series.observed[None]).all()
        if joint:
            return jax.nn.logsumexp(each.sum((1, 2)) + weights), reached
        return jax.nn.logsumexp(each + weights[:, None, None], 0), reached

    return jax.vmap(one)(belief, proposal, keys, series)


def _batched(tree: Any) -> Any:
    return jax.tree.map(lambda x: x[None], tree)


def belief_log_prob(belief: Belief, z: Any) -> Any:
    """The log density of draws `[n, z]` under a posterior of one series' latents; 0 for an ensemble, of equal weights."""
    return jnp.zeros(z.shape[0], z.dtype) if isinstance(belief, Ensemble) else jax.vmap(belief.log_prob)(z).sum(-1)
