"""One series' least-squares problem, and Levenberg–Marquardt steps to its solution.

Steps go through a QR decomposition: with little noise the normal equations would need more than float32.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .linear import orthonormalised, projected, solve_triangular
from .process import Process
from .process.latent import Prior
from .process.solvers import Extent
from .series import Series

FIRST_DAMPING, EASED, TIGHTENED = 1.0, 0.1, 30.0
ROUNDS = 4  # of steps, at most


class Problem(NamedTuple):
    """One series' least-squares problem, of which the latents are the unknown."""

    process: Process
    prior: Prior
    series: Series
    std: Float[Array, "n channels"]
    extent: Extent

    @classmethod
    def of(cls, process: Process, prior: Prior, series: Series, around: Float[Array, " z"], extent: Extent) -> "Problem":
        """The problem of the unmasked observations; where σ depends on the state, its value at `around` is taken."""
        predicted, _ = process.predict(around, series.t, extent)
        return cls(process, prior, series, predicted.std, extent)

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


def solve(
    problem: Problem, z: Float[Array, " z"], data: Any, centre: Any, steps: Any, rescue: Solution | None = None
) -> Solution:
    """Levenberg–Marquardt from `z`; a step that does not help is not taken, and the next one is shorter.

    Damping counts in units of the prior: scaled by the observations, as is common, it would freeze what they hardly see.
    Each derivative serves two steps, since it costs six times what the residuals do.

    Arguments:
        problem: what to solve.
        z: where to begin.
        data: values of the observations.
        centre: where the prior pulls to, whitened.
        steps: number of double steps, one or more; may be traced.
        rescue: where to go on from, half way, if the cost is still above the rescue's own.
    """
    size = z.shape[0]

    def squares(value):
        cost = (value**2).sum()
        return jnp.where(jnp.isnan(cost), jnp.inf, cost)

    def step(number, carry):
        z, cost, damping = carry
        if rescue is not None:
            half = number == jnp.maximum(1, steps // 2)
            z = jnp.where(half & (cost > rescue.cost), rescue.z, z)
            damping = jnp.where(half, FIRST_DAMPING, damping)
        value, slopes = linearised(problem, z, data, centre)
        cost = squares(value)
        q, r = orthonormalised(jnp.concatenate([slopes, jnp.sqrt(damping) * slopes[-size:]]))

        def move(carry, _):
            z, value = carry
            z = z - solve_triangular(r, projected(q[: value.shape[0]], value))
            value = problem.residuals(z, data, centre)
            return (z, value), Solution(z, squares(value))

        _, moved = jax.lax.scan(move, (z, value), None, length=2)
        new = jax.tree.map(lambda x: x[jnp.argmin(moved.cost)], moved)
        better = new.cost < cost
        kept = (jnp.where(better, new.z, z), jnp.where(better, new.cost, cost))
        return (*kept, jnp.where(better, EASED, TIGHTENED) * damping)

    start = (z, jnp.asarray(jnp.inf, z.dtype), jnp.asarray(FIRST_DAMPING, z.dtype))  # the first step finds the cost
    z, cost, _ = jax.lax.fori_loop(0, steps, step, start)
    return Solution(z, cost)


def precision_root(problem: Problem, z: Float[Array, " z"], data: Any) -> Float[Array, "z z"]:
    """The upper triangular root R of the precision RᵀR of the normal distribution around a mode."""
    return orthonormalised(linearised(problem, z, data, jnp.zeros_like(z))[1])[1]


def in_rounds(solved: Any, unsolved: Any, again: Any, z: Any) -> Solution:
    """What `solved` makes of `z`, and of `again` (of that, and of the number of the round), as long as `unsolved` says so."""

    def more(carry):
        found, count = carry
        return (count == 0) | (unsolved(found) & (count < ROUNDS))

    def one(carry):  # the first round too, so that `solved` is compiled once
        found, count = carry
        return solved(jnp.where(count == 0, z, again(found, count))), count + 1

    nothing = Solution(z, jnp.full(z.shape[0], jnp.inf, z.dtype))
    return jax.lax.while_loop(more, one, (nothing, jnp.zeros((), jnp.int32)))[0]


def enough(mode_cost: Any, count: Any) -> Any:
    """The cost under which a draw counts as solved: there it is like χ² with as many degrees of freedom as observed values."""
    return 2.0 * mode_cost + count + 6.0 * jnp.sqrt(2.0 * count) + 10.0
