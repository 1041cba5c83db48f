"""One series' least-squares problem, and Levenberg–Marquardt steps to its solution.

Steps go through a QR decomposition: with little noise the normal equations would need more than float32.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from odeprocess.common.linear_algebra import orthonormalise, project, solve_triangular
from odeprocess.data.series import Series
from odeprocess.process import Process
from odeprocess.process.prior import Prior
from odeprocess.process.solvers import Extent

FIRST_DAMPING, DAMPING_DECREASE, DAMPING_INCREASE = 1.0, 0.1, 30.0
MAX_ROUNDS = 4  # of steps, at most
TOLERANCE = 0.02  # unrest of a search that is over


class LeastSquaresProblem(NamedTuple):
    """One series' least-squares problem, of which the latents are the unknown."""

    process: Process
    prior: Prior
    series: Series
    std: Float[Array, "n channels"]
    extent: Extent

    @classmethod
    def of(
        cls, process: Process, prior: Prior, series: Series, around: Float[Array, " z"], extent: Extent
    ) -> "LeastSquaresProblem":
        """The problem of the unmasked observations; where σ depends on the state, its value at `around` is taken."""
        predicted, _ = process.predict(around, series.t, extent)
        return cls(process, prior, series, predicted.std, extent)

    def residuals(self, z: Float[Array, " z"], data: Any, centre: Float[Array, " z"]) -> Float[Array, " n_times_c_plus_z"]:
        """Residuals in units of their standard deviations: of the observations, then of the latents."""
        predicted, ok = self.process.predict(z, self.series.t, self.extent)
        residuals = jnp.where(self.series.mask, (predicted.mean - data) / self.std, 0.0)
        residuals = jnp.where(ok[:, None] | ~self.series.mask, residuals, jnp.inf)
        return jnp.concatenate([residuals.reshape(-1), self.prior.whiten(z, self.series.static) - centre])


class Solution(NamedTuple):
    """Latents, and the sum of squared residuals there."""

    z: Float[Array, " z"]
    cost: Float[Array, ""]


class LevenbergMarquardtState(NamedTuple):
    """How far a search for a solution has come.

    Attributes:
        z: the best latents so far.
        cost: the sum of squared residuals there; infinite before the first step.
        damping: of the next step.
        relative_change: |Δcost| / (1 + cost) of the last step; infinite before the first one.
    """

    z: Float[Array, " z"]
    cost: Float[Array, ""]
    damping: Float[Array, ""]
    relative_change: Float[Array, ""]

    @classmethod
    def at(cls, z: Float[Array, " z"]) -> "LevenbergMarquardtState":
        """One that begins at `z`."""
        never = jnp.asarray(jnp.inf, z.dtype)
        return cls(z, never, jnp.asarray(FIRST_DAMPING, z.dtype), never)


def linearise(problem: LeastSquaresProblem, z: Float[Array, " z"], data: Any, centre: Any) -> tuple[Any, Any]:
    """The residuals at `z` and their derivatives, `[residuals, z]`."""
    value, push = jax.linearize(lambda z: problem.residuals(z, data, centre), z)
    return value, jax.vmap(push, out_axes=1)(jnp.eye(z.shape[0], dtype=z.dtype))


def solve(problem: LeastSquaresProblem, z: Float[Array, " z"], data: Any, centre: Any, steps: Any, calm: float = 0.0) -> Solution:
    """The best that double steps from `z` lead to: so many of them (may be traced), or until unrest is not above `calm`.

    The other arguments are as in `step`.
    """

    def more(carry):
        search, number = carry
        return (number < steps) & (search.relative_change > calm)

    def one(carry):
        search, number = carry
        return step(problem, search, data, centre), number + 1

    search, _ = jax.lax.while_loop(more, one, (LevenbergMarquardtState.at(z), jnp.zeros((), jnp.int32)))
    return Solution(search.z, search.cost)


def step(problem: LeastSquaresProblem, search: LevenbergMarquardtState, data: Any, centre: Any) -> LevenbergMarquardtState:
    """A double step of Levenberg–Marquardt; one that does not help is not taken, and the next one is shorter.

    Damping counts in units of the prior: scaled by the observations, as is common, it would freeze what they hardly see.
    Each derivative serves two steps, since it costs six times what the residuals do.

    Arguments:
        problem: what to solve.
        search: how far it has come.
        data: values of the observations.
        centre: where the prior pulls to, whitened.
    """
    z, size = search.z, search.z.shape[0]
    value, slopes = linearise(problem, z, data, centre)
    cost = _squares(value)
    q, r = orthonormalise(jnp.concatenate([slopes, jnp.sqrt(search.damping) * slopes[-size:]]))

    def move(carry, _):
        z, value = carry
        z = z - solve_triangular(r, project(q[: value.shape[0]], value))
        value = problem.residuals(z, data, centre)
        return (z, value), Solution(z, _squares(value))

    _, moved = jax.lax.scan(move, (z, value), None, length=2)
    new = jax.tree.map(lambda x: x[jnp.argmin(moved.cost)], moved)
    better = new.cost < cost
    least = jnp.minimum(cost, new.cost)
    relative_change = jnp.where(better, jnp.abs(moved.cost[1] - moved.cost[0]), new.cost - cost) / (1.0 + least)
    return LevenbergMarquardtState(
        jnp.where(better, new.z, z),
        least,
        jnp.where(better, DAMPING_DECREASE, DAMPING_INCREASE) * search.damping,
        jnp.where(jnp.isnan(relative_change), jnp.inf, relative_change),
    )


def _squares(value: Any) -> Any:
    cost = (value**2).sum()
    return jnp.where(jnp.isnan(cost), jnp.inf, cost)


def precision_root(problem: LeastSquaresProblem, z: Float[Array, " z"], data: Any) -> Float[Array, "z z"]:
    """The upper triangular root R of the precision RᵀR of the normal distribution around a mode."""
    return orthonormalise(linearise(problem, z, data, jnp.zeros_like(z))[1])[1]


def solve_in_rounds(solved: Any, unsolved: Any, again: Any, z: Any) -> Solution:
    """What `solved` makes of `z`, and of `again` (of that, and of the number of the round), as long as `unsolved` says so."""

    def more(carry):
        found, count = carry
        return (count == 0) | (unsolved(found) & (count < MAX_ROUNDS))

    def one(carry):  # the first round too, so that `solved` is compiled once
        found, count = carry
        return solved(jnp.where(count == 0, z, again(found, count))), count + 1

    nothing = Solution(z, jnp.full(z.shape[0], jnp.inf, z.dtype))
    return jax.lax.while_loop(more, one, (nothing, jnp.zeros((), jnp.int32)))[0]


def cost_limit(mode_cost: Any, count: Any) -> Any:
    """The cost under which a draw counts as solved: there it is like χ² with as many degrees of freedom as observed values."""
    return 2.0 * mode_cost + count + 6.0 * jnp.sqrt(2.0 * count) + 10.0
