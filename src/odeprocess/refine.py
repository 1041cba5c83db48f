"""Inference beyond one pass of the encoder: draws that are each fitted to the observations.

Randomised maximum a posteriori: a draw of the prior and a draw of the measurement noise define a least-squares problem
whose solution is one draw of the posterior. For a linear model that is exact; for a curved one every draw still lies on
the curves that agree with the data, where a normal distribution around the mode would not. Without observations it is
the prior.

Each problem is solved by Levenberg–Marquardt steps through a QR decomposition: with little noise the normal equations
would need more than float32.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float

from .distributions import Normal
from .process import Process
from .process.latent import Prior
from .process.solvers import Extent
from .series import Series

FIRST_DAMPING, EASED, TIGHTENED = 1.0, 0.1, 30.0


class Ensemble(eqx.Module):
    """A belief that is nothing but its draws."""

    z: Float[Array, "*series n z"]


class Problem(NamedTuple):
    """One series' least-squares problem, of which the latents are the unknown."""

    process: Process
    prior: Prior
    series: Series
    std: Float[Array, "n channels"]
    extent: Extent

    @classmethod
    def of(cls, process: Process, series: Series, around: Float[Array, " z"], extent: Extent) -> "Problem":
        """The problem of the unmasked observations; where σ depends on the state, its value at `around` is taken."""
        predicted, _ = process.predict(around, series.t, extent)
        return cls(process, process.before(series.static, series.channels), series, predicted.std, extent)

    def residuals(self, z: Float[Array, " z"], data: Any, centre: Float[Array, " z"]) -> Float[Array, " n_times_c_plus_z"]:
        """Misfits in units of their standard deviations: of the observations, then of the latents."""
        predicted, ok = self.process.predict(z, self.series.t, self.extent)
        misfit = jnp.where(self.series.mask, (predicted.mean - data) / self.std, 0.0)
        misfit = jnp.where(ok[:, None] | ~self.series.mask, misfit, jnp.inf)
        return jnp.concatenate([misfit.reshape(-1), self.prior.whiten(z, self.series.static) - centre])


class Solution(NamedTuple):
    """Latents, and the sum of squared residuals there."""

    z: Float[Array, " z"]
    cost: Float[Array, ""]


def linearised(problem: Problem, z: Float[Array, " z"], data: Any, centre: Any) -> tuple[Any, Any]:
    """The residuals at `z` and their derivatives, `[residuals, z]`."""
    value, push = jax.linearize(lambda z: problem.residuals(z, data, centre), z)
    return value, jax.vmap(push, out_axes=1)(jnp.eye(z.shape[0], dtype=z.dtype))


def solve(problem: Problem, z: Float[Array, " z"], data: Any, centre: Any, steps: int) -> Solution:
    """Levenberg–Marquardt from `z`; a step that does not help is not taken, and the next one is shorter.

    Damping counts in units of the prior: scaled by the observations, as is common, it would freeze what they hardly see.
    Each derivative serves two steps, since it costs six times what the residuals do.

    Arguments:
        problem: what to solve.
        z: where to begin.
        data: values of the observations.
        centre: where the prior pulls to, whitened.
        steps: number of double steps.
    """
    size = z.shape[0]

    def tried(z):
        value = problem.residuals(z, data, centre)
        cost = (value**2).sum()
        return value, jnp.where(jnp.isnan(cost), jnp.inf, cost)

    def step(carry, _):
        z, cost, damping = carry
        value, slopes = linearised(problem, z, data, centre)
        q, r = jnp.linalg.qr(jnp.concatenate([slopes, jnp.sqrt(damping) * slopes[-size:]]))

        def move(value):
            return -solve_triangular(r, q[: value.shape[0]].T @ value)

        once = z + move(value)
        value, first = tried(once)
        twice = once + move(value)
        _, second = tried(twice)
        found, new = jnp.where(second < first, twice, once), jnp.minimum(first, second)
        better = new < cost
        kept = (jnp.where(better, found, z), jnp.where(better, new, cost))
        return (*kept, jnp.where(better, EASED, TIGHTENED) * damping), None

    start = (z, tried(z)[1], jnp.asarray(FIRST_DAMPING, z.dtype))
    (z, cost, _), _ = jax.lax.scan(step, start, None, length=steps)
    return Solution(z, cost)


def precision_root(problem: Problem, z: Float[Array, " z"], data: Any) -> Float[Array, "z z"]:
    """The upper triangular root R of the precision RᵀR of the normal distribution around a mode."""
    return jnp.linalg.qr(linearised(problem, z, data, jnp.zeros_like(z))[1], mode="r")[: z.shape[0]]


def refined_draws(
    process: Process, belief: Normal, start: Any, series: Series, key: Any, n: int, steps: int, extent: Extent
) -> Float[Array, "n z"]:
    """Draws of the posterior of one series given its unmasked observations.

    Each draw begins at its row of `start [n, z]` or at its draw of the prior, whichever fits better; half way, one that got
    nowhere goes on from the mode, and one that is still far off at the end is replaced by one that is not.

    Arguments:
        process: the process, with a normal likelihood.
        belief: the encoder's answer, where the search for the mode begins.
        start: where each draw begins.
        series: the observations, in scaled units.
        key: of the draws; draw i is the same whatever n is, unless it is replaced.
        n: number of draws.
        steps: double steps of the solver, for each draw.
        extent: how far the flow is integrated.
    """
    problem = Problem.of(process, series, belief.loc, extent)
    y, count = jnp.where(series.mask, series.y, 0.0), series.mask.sum(dtype=belief.loc.dtype)

    def noise(i):
        data_key, centre_key = jr.split(jr.fold_in(key, i))
        return jr.normal(data_key, y.shape, y.dtype), jr.normal(centre_key, belief.loc.shape, y.dtype)

    # The mode is sought along with the draws, as one more without noise: alone it would take as long as all of them.
    eps, centres = jax.vmap(noise)(jnp.arange(n))
    data = jnp.concatenate([y[None], y[None] + problem.std[None] * eps])
    centres = jnp.concatenate([jnp.zeros_like(centres[:1]), centres])
    begin = jnp.concatenate([belief.loc[None], start])
    unmoved = jax.vmap(lambda e: problem.prior.colour(e, series.static))(centres)

    def cost(z, data, centre):
        return (problem.residuals(z, data, centre) ** 2).sum()

    nearer = jax.vmap(cost)(begin, data, centres) < jax.vmap(cost)(unmoved, data, centres)
    half = jax.vmap(lambda z, y, e: solve(problem, z, y, e, steps // 2))(
        jnp.where(nearer[:, None], begin, unmoved), data, centres
    )
    lost = half.cost > _limit(half.cost[0], count)
    z = jnp.where(lost[:, None], half.z[0], half.z)
    found = jax.vmap(lambda z, y, e: solve(problem, z, y, e, steps - steps // 2))(z, data, centres)
    good = found.cost[1:] < _limit(found.cost[0], count)
    stand_in = jnp.argsort(~good)[jnp.arange(n) % jnp.maximum(good.sum(), 1)]
    z = found.z[1:]
    return jnp.where(good[:, None], z, jnp.where(good.any(), z[stand_in], found.z[:1]))


def _limit(mode_cost, count):
    """At its solution a draw's cost is like χ² with as many degrees of freedom as there are observed values."""
    return 2.0 * mode_cost + count + 6.0 * jnp.sqrt(2.0 * count) + 10.0
