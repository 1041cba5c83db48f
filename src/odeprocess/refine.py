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

FIRST_DAMPING = 1e-2


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
    """Latents, the upper triangular root of their precision, and the sum of squared residuals."""

    z: Float[Array, " z"]
    root: Float[Array, "z z"]
    cost: Float[Array, ""]


def solve(problem: Problem, z: Float[Array, " z"], data: Any, centre: Any, steps: int) -> Solution:
    """Levenberg–Marquardt from `z`; a step that does not help is not taken, and the next one is shorter."""
    size, identity = z.shape[0], jnp.eye(z.shape[0], dtype=z.dtype)

    def linearised(z):
        value, push = jax.linearize(lambda z: problem.residuals(z, data, centre), z)
        return value, jax.vmap(push, out_axes=1)(identity)

    def step(carry, _):
        z, value, slopes, damping = carry
        scale = jnp.sqrt((slopes**2).sum(0))
        q, r = jnp.linalg.qr(jnp.concatenate([slopes, jnp.sqrt(damping) * jnp.diag(scale)]))
        tried = z - solve_triangular(r, q[: value.shape[0]].T @ value)
        new_value, new_slopes = linearised(tried)
        better = (new_value**2).sum() < (value**2).sum()  # false for what is not a number
        kept = jax.tree.map(lambda a, b: jnp.where(better, a, b), (tried, new_value, new_slopes), (z, value, slopes))
        return (*kept, jnp.where(better, 0.1, 10.0) * damping), None

    start = (z, *linearised(z), jnp.asarray(FIRST_DAMPING, z.dtype))
    (z, value, slopes, _), _ = jax.lax.scan(step, start, None, length=steps)
    return Solution(z, jnp.linalg.qr(slopes, mode="r")[:size], (value**2).sum())


def refined_draws(
    process: Process, belief: Normal, start: Any, series: Series, key: Any, n: int, steps: int, extent: Extent
) -> Float[Array, "n z"]:
    """Draws of the posterior of one series given its unmasked observations.

    Each draw begins at its row of `start [n, z]`; half way, one that got nowhere goes on from the mode, and one that is
    still far off at the end is replaced by it.

    Arguments:
        process: the process, with a normal likelihood.
        belief: the encoder's answer, where the search for the mode begins.
        start: where each draw begins.
        series: the observations, in scaled units.
        key: of the draws; draw i is the same whatever n is.
        n: number of draws.
        steps: of the solver, for each draw.
        extent: how far the flow is integrated.
    """
    problem = Problem.of(process, series, belief.loc, extent)
    y = jnp.where(series.mask, series.y, 0.0)
    mode = solve(problem, belief.loc, y, jnp.zeros_like(belief.loc), 2 * steps)
    count = series.mask.sum(dtype=y.dtype)
    # At its solution a draw's cost is like χ² with as many degrees of freedom as there are observed values.
    limit = 2.0 * mode.cost + count + 6.0 * jnp.sqrt(2.0 * count) + 10.0

    def noise(i):
        data_key, centre_key = jr.split(jr.fold_in(key, i))
        return jr.normal(data_key, y.shape, y.dtype), jr.normal(centre_key, belief.loc.shape, y.dtype)

    def one(z, i):
        eps, centre = noise(i)
        data = y + problem.std * eps
        first = solve(problem, z, data, centre, steps // 2)
        second = solve(problem, jnp.where(first.cost < limit, first.z, mode.z), data, centre, steps - steps // 2)
        return jnp.where(second.cost < limit, second.z, mode.z)

    return jax.vmap(one)(start, jnp.arange(n))
