"""The compiled functions under `Posterior`: batches in scaled units, one compilation for each bucket of shapes."""

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
from .randomised_map import Ensemble, most_likely_mode, randomised_map_draws

Belief = Normal | Ensemble
SERIES_AT_ONCE = 256  # that a GPU refines together


@compiled
def observe(process: Process, summary: Summary, series: Series) -> tuple[Summary, Normal]:
    """Adds the observations of `series` to `summary`; also the belief that follows."""

    def one(summary, series):
        summary = summary.merge(process.inference.summarise(series))
        return summary, process.inference.belief(summary, series.static)

    return jax.vmap(one)(summary, series)


@compiled
def summaries(process: Process, series: Series) -> Summary:
    """The summary of each series alone."""
    return jax.vmap(process.inference.summarise)(series)


@compiled(static_argnums=2)
def draw(belief: Belief, keys: Any, n: int) -> Any:
    """Latent draws `[series, n, z]`; draw i is the same whatever n is."""
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
    """The posterior given all observations `series`, worked out from the encoder's `belief`."""

    def one(arguments):
        belief, start, key, series = arguments
        begin = sample_latents(start, key, n)
        with jax.default_matmul_precision("highest"):  # GPUs would multiply in fewer digits than the fit needs
            return randomised_map_draws(process, belief, begin, series, jr.fold_in(key, 1), n, steps, extent, noise_scale)

    return _over_series(one, (belief, start, keys, series))


@compiled(static_argnums=(4, 5))
def modes(process: Process, belief: Normal, keys: Any, series: Series, steps: int, extent: Extent) -> tuple[Any, Any]:
    """The likeliest latents given all observations `series`, `[series, z]`; also how badly they fit, in squared residuals."""

    def one(arguments):
        belief, key, series = arguments
        with jax.default_matmul_precision("highest"):
            found = most_likely_mode(process, belief, sample_latents(belief, key, NUM_STARTS), series, steps, extent)
        return found.z, found.data_cost + found.prior_cost

    return _over_series(one, (belief, keys, series))


def _over_series(one: Any, arguments: Any) -> Any:
    # On CPUs one series after the other: its draws fill the caches, and many at once would take three times as long.
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
    """Decodes draws `z [series, n, z]` at `t [series, m]`: a distribution `[series, n, m, channels]` and what was reached."""
    over_draws = jax.vmap(lambda z, t: process.predict(z, t, extent), (0, None))
    with jax.default_matmul_precision("highest"):
        predicted, ok = jax.vmap(over_draws)(z, t)
    squares = predicted.mean**2 + predicted.std**2  # what moments are made of
    return predicted, ok & jnp.isfinite(squares).all(-1)


def with_noise_factors(belief: Belief, predicted: AbstractDistribution) -> AbstractDistribution:
    """The decoded draws of a belief, `[series, n, m, channels]`, each with its own factor of the noise."""
    if not isinstance(belief, Ensemble) or not isinstance(predicted, Normal):
        return predicted
    factor = belief.noise[:, : predicted.loc.shape[1], None, None]
    return Normal(predicted.loc, factor * predicted.scale)


@compiled
def sample_observations(predicted: AbstractDistribution, keys: Any) -> Any:
    """One observation for each decoded number."""
    return jax.vmap(lambda p, key: p.sample(jr.split(key)[1]))(predicted, keys)


@compiled
def moments(predicted: AbstractDistribution) -> tuple[Any, Any, Any]:
    """Mean, standard deviation of the function, and that of observations, over the draws."""
    mean = predicted.mean.mean(1)
    spread = predicted.mean.var(1)
    return mean, jnp.sqrt(spread), jnp.sqrt(spread + (predicted.std**2).mean(1))


@compiled
def mixture_log_prob(predicted: AbstractDistribution, y: Any) -> Any:
    """Log density of each value of `y [series, m, channels]` under all draws."""
    each = predicted.log_prob(y[:, None].astype(predicted.mean.dtype))
    return jax.nn.logsumexp(each, 1) - jnp.log(each.shape[1]).astype(each.dtype)


@compiled
def mixture_joint_log_prob(predicted: AbstractDistribution, y: Any, mask: Any) -> Any:
    """Log density of all unmasked values `[series, m, channels]` of each series together, under all draws."""
    each = jnp.where(mask[:, None], predicted.log_prob(y[:, None].astype(predicted.mean.dtype)), 0.0).sum((2, 3))
    return jax.nn.logsumexp(each, 1) - jnp.log(each.shape[1]).astype(each.dtype)


@compiled(static_argnames="of_function")
def quantiles(predicted: AbstractDistribution, q: Any, *, of_function: bool) -> Any:
    """Quantiles over the draws, `[q, series, m, channels]`."""
    q = q.astype(predicted.mean.dtype)
    if of_function:
        return jnp.quantile(predicted.mean, q, axis=1)
    by_draw = jax.tree.map(lambda x: jnp.moveaxis(x, 1, 0), predicted)
    return jax.lax.map(by_draw.mixture_quantile, q)


@compiled(static_argnums=(5, 6, 7))
def log_density(
    process: Process, belief: Belief, proposal: Belief, keys: Any, series: Series, n: int, extent: Extent, joint: bool
) -> tuple[Any, Any]:
    """Log densities of scaled observations, by importance sampling from `proposal` (which may be the belief itself)."""

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
    """Log density of draws `[n, z]` under a belief over one series' latents; 0 for its own draws, which weigh the same."""
    return jnp.zeros(z.shape[0], z.dtype) if isinstance(belief, Ensemble) else jax.vmap(belief.log_prob)(z).sum(-1)
