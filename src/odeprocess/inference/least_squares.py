"""The nonlinear least-squares problem of one series, and Levenberg–Marquardt steps that solve it.

Sections 2 and 3 of `docs/inference.md`. Steps are computed by a QR decomposition: where the noise is small, the normal
equations, whose condition number is the square, would need more digits than float32 has.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from odeprocess.common.linear_algebra import orthonormalise, project, solve_triangular
from odeprocess.data.series import Series
from odeprocess.process import Process
from odeprocess.process.prior import Prior
from odeprocess.process.solvers import Extent

# The damping λ of eq. 6, in units of the prior's precision: the first one doubles it. A step that lowers the cost divides λ by
# ten, as Marquardt (1963) did; one that does not multiplies it by 30. Chosen by hand.
INITIAL_DAMPING, DAMPING_DECREASE, DAMPING_INCREASE = 1.0, 0.1, 30.0
MAX_ROUNDS = 4  # searches from new starting points, at most, while some costs are above `cost_limit`; chosen by hand
TOLERANCE = 0.02  # relative change of the cost (eq. 8) at which a search has converged; chosen by hand


class LeastSquaresProblem(NamedTuple):
    """The least-squares problem of one series in its latents z.

    Attributes:
        process: decodes latents to predictions.
        prior: the normal prior over the latents: one component of the mixture.
        series: the observations, in scaled units.
        std: σ of each observation. It is a constant of the problem.
        extent: how far the flow is integrated.
    """

    process: Process
    prior: Prior
    series: Series
    std: Float[Array, "n channels"]
    extent: Extent

    @classmethod
    def of(
        cls, process: Process, prior: Prior, series: Series, around: Float[Array, " z"], extent: Extent
    ) -> "LeastSquaresProblem":
        """The problem of the unmasked observations. Where σ depends on the state, its value at the latents `around` is used."""
        predicted, _ = process.predict(around, series.t, extent)
        return cls(process, prior, series, predicted.std, extent)

    def residuals(
        self, z: Float[Array, " z"], data: Float[Array, "n channels"], centre: Float[Array, " z"]
    ) -> Float[Array, " residuals"]:
        """Residuals in units of their standard deviations (eq. 4): of all observations, then of the z latents.

        Infinite at observed times that the solver did not reach.
        """
        predicted, ok = self.process.predict(z, self.series.t, self.extent)
        residuals = jnp.where(self.series.mask, (predicted.mean - data) / self.std, 0.0)
        residuals = jnp.where(ok[:, None] | ~self.series.mask, residuals, jnp.inf)
        return jnp.concatenate([residuals.reshape(-1), self.prior.whiten(z, self.series.static) - centre])

    def cost(self, z: Float[Array, " z"], data: Float[Array, "n channels"], centre: Float[Array, " z"]) -> Float[Array, ""]:
        """The sum of squared residuals (eq. 5)."""
        return (self.residuals(z, data, centre) ** 2).sum()


class Solution(NamedTuple):
    """Latents, and the cost (eq. 5) there."""

    z: Float[Array, "*searches z"]
    cost: Float[Array, "*searches"]


class LevenbergMarquardtState(NamedTuple):
    """The state of a search between two double steps.

    Attributes:
        z: the best latents so far.
        cost: the cost there; infinite before the first step.
        damping: λ of the next step.
        relative_change: eq. 8 for the last step; infinite before the first one.
    """

    z: Float[Array, " z"]
    cost: Float[Array, ""]
    damping: Float[Array, ""]
    relative_change: Float[Array, ""]

    @classmethod
    def at(cls, z: Float[Array, " z"]) -> "LevenbergMarquardtState":
        """The state before the first step from `z`."""
        infinite = jnp.asarray(jnp.inf, z.dtype)
        return cls(z, infinite, jnp.asarray(INITIAL_DAMPING, z.dtype), infinite)


def linearise(
    problem: LeastSquaresProblem, z: Float[Array, " z"], data: Float[Array, "n channels"], centre: Float[Array, " z"]
) -> tuple[Float[Array, " residuals"], Float[Array, "residuals z"]]:
    """The residuals at `z`, and their Jacobian."""
    value, push = jax.linearize(lambda z: problem.residuals(z, data, centre), z)
    return value, jax.vmap(push, out_axes=1)(jnp.eye(z.shape[0], dtype=z.dtype))


def solve(
    problem: LeastSquaresProblem,
    z: Float[Array, " z"],
    data: Float[Array, "n channels"],
    centre: Float[Array, " z"],
    steps: Int[Array, ""] | int,
    tolerance: float = 0.0,
) -> Solution:
    """The best latents of a search that begins at `z`.

    Arguments:
        problem: what to solve.
        z: where to begin.
        data: values of the observations.
        centre: the whitened latents towards which the prior pulls: e of eq. 4.
        steps: the most double steps; may be traced.
        tolerance: the relative change (eq. 8) at which the search ends.
    """

    def continues(carry):
        state, number = carry
        return (number < steps) & (state.relative_change > tolerance)

    def take_one(carry):
        state, number = carry
        return step(problem, state, data, centre), number + 1

    start = (LevenbergMarquardtState.at(z), jnp.zeros((), jnp.int32))
    state, _ = jax.lax.while_loop(continues, take_one, start)
    return Solution(state.z, state.cost)


def step(
    problem: LeastSquaresProblem,
    state: LevenbergMarquardtState,
    data: Float[Array, "n channels"],
    centre: Float[Array, " z"],
) -> LevenbergMarquardtState:
    """The state after a double step (eqs. 6 and 7). Latents that are not better are not kept, and the damping grows.

    The damping is in units of the prior. Scaled by the observations, as is common, it would freeze directions of the latents
    which the observations hardly determine: forecasts from ten points of a sine then took 24 steps, and take 6. Both steps share
    one Jacobian, which takes six times as long to compute as the residuals.
    """
    z, size = state.z, state.z.shape[0]
    value, jacobian = linearise(problem, z, data, centre)
    cost = _sum_of_squares(value)
    q, r = orthonormalise(jnp.concatenate([jacobian, jnp.sqrt(state.damping) * jacobian[-size:]]))

    def move(carry, _):
        z, value = carry
        z = z - solve_triangular(r, project(q[: value.shape[0]], value))
        value = problem.residuals(z, data, centre)
        return (z, value), Solution(z, _sum_of_squares(value))

    _, tried = jax.lax.scan(move, (z, value), None, length=2)
    new = jax.tree.map(lambda x: x[jnp.argmin(tried.cost)], tried)
    better = new.cost < cost
    lowest = jnp.minimum(cost, new.cost)
    relative_change = jnp.where(better, jnp.abs(tried.cost[1] - tried.cost[0]), new.cost - cost) / (1.0 + lowest)
    return LevenbergMarquardtState(
        jnp.where(better, new.z, z),
        lowest,
        jnp.where(better, DAMPING_DECREASE, DAMPING_INCREASE) * state.damping,
        jnp.where(jnp.isnan(relative_change), jnp.inf, relative_change),
    )


def _sum_of_squares(value: Float[Array, " residuals"]) -> Float[Array, ""]:
    """The cost, infinite where it is not a number, so that comparisons refuse it."""
    cost = (value**2).sum()
    return jnp.where(jnp.isnan(cost), jnp.inf, cost)


def precision_root(problem: LeastSquaresProblem, z: Float[Array, " z"], data: Float[Array, "n channels"]) -> Float[Array, "z z"]:
    """The upper triangular R of the Laplace approximation N(z, (RᵀR)⁻¹) at a mode."""
    return orthonormalise(linearise(problem, z, data, jnp.zeros_like(z))[1])[1]


def solve_in_rounds(
    search: Callable[[Any], Solution],
    is_unsolved: Callable[[Solution], Any],
    restart: Callable[[Solution, Any], Any],
    starts: Float[Array, "searches z"],
) -> Solution:
    """The solutions of several searches, which begin anew, up to `MAX_ROUNDS` times in all, while they are unsolved.

    Arguments:
        search: from starting points to solutions.
        is_unsolved: whether solutions call for another round.
        restart: the next starting points, from the solutions so far and the number of the round.
        starts: the first starting points.
    """

    def continues(carry):
        found, number = carry
        return (number == 0) | (is_unsolved(found) & (number < MAX_ROUNDS))

    def run_round(carry):  # the first round is inside the loop too, so that `search` is compiled once
        found, number = carry
        return search(jnp.where(number == 0, starts, restart(found, number))), number + 1

    nothing = Solution(starts, jnp.full(starts.shape[0], jnp.inf, starts.dtype))
    return jax.lax.while_loop(continues, run_round, (nothing, jnp.zeros((), jnp.int32)))[0]


def cost_limit(mode_cost: Any, count: Any) -> Any:
    """The cost below which a draw counts as solved (eq. 13).

    At its solution the cost of a draw is distributed roughly like χ² with a degree of freedom for each of the `count` observed
    values: mean n, standard deviation √(2n). Six standard deviations, twice the cost at the mode and ten more are allowed;
    chosen by hand.
    """
    return 2.0 * mode_cost + count + 6.0 * jnp.sqrt(2.0 * count) + 10.0
