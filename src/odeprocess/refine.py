"""Inference beyond one pass of the encoder: draws that are each fitted to the observations.

Randomised maximum a posteriori: a draw of the prior and a draw of the measurement noise define a least-squares problem
whose solution is one draw of the posterior. For a linear model that is exact; for a curved one every draw still lies on
the curves that agree with the data, where a normal distribution around the mode would not. Without observations it is
the prior.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float

from .distributions import Normal
from .problem import Problem, Solution, linearised, solve
from .process import Process
from .process.solvers import Extent
from .qr import orthonormalised, projected
from .series import Series

STARTS = 8  # from which the mode is sought
ROUNDS = 4  # of steps, at most, where draws are still far from a solution
LOST = 0.05  # the share of draws that may be far from a solution
SHARED_STEPS = 3  # with the derivative at the mode


class Ensemble(eqx.Module):
    """A belief that is nothing but its draws: latents, and a factor of the noise."""

    z: Float[Array, "*series n z"]
    noise: Float[Array, "*series n"]


class Misfit(NamedTuple):
    """How well a process fits series it has not seen, as the noise in units of σ: squared, it is `scale`·ν/χ²(ν) for a series.

    With it a series that cannot be fitted as well as others (it may be unlike any in training) is trusted less, and its
    future is less certain.

    Attributes:
        freedom: ν; small where series differ much.
        scale: the typical square.
    """

    freedom: Any
    scale: Any

    def draws(self, cost: Any, count: Any, normal: Any) -> Any:
        """Factors of the noise of a series with `count` values and a sum of squares `cost`, one for each standard `normal`."""
        freedom = self.freedom + count
        cube = 1.0 - 2.0 / (9.0 * freedom) + normal * jnp.sqrt(2.0 / (9.0 * freedom))  # Wilson and Hilferty's χ²
        return jnp.sqrt((self.freedom * self.scale + cost) / (freedom * jnp.maximum(cube, 0.3) ** 3))


def refined_draws(
    process: Process,
    belief: Normal,
    start: Any,
    series: Series,
    key: Any,
    n: int,
    steps: int,
    extent: Extent,
    misfit: Misfit | None = None,
) -> tuple[Ensemble, Solution]:
    """Draws of the posterior of one series given its unmasked observations; also its mode.

    Arguments:
        process: the process, with a normal likelihood.
        belief: the encoder's answer, where the search for the mode begins.
        start: where each draw begins, `[n, z]`.
        series: the observations, in scaled units.
        key: of the draws; draw i is the same whatever n is, unless it is replaced.
        n: number of draws.
        steps: double steps of the solver, for each draw.
        extent: how far the flow is integrated.
        misfit: what is known of the noise of single series; without it every series has the process's own.
    """
    problem = Problem.of(process, series, belief.loc, extent)
    y, count = jnp.where(series.mask, series.y, 0.0), series.mask.sum(dtype=belief.loc.dtype)

    def noise(i):
        # Draws come in pairs with opposite noise, so that their mean is that of the posterior, wherever it is symmetric.
        data_key, centre_key, factor_key = jr.split(jr.fold_in(key, i // 2), 3)
        sign = 1.0 - 2.0 * (i % 2).astype(y.dtype)
        eps, centre = sign * jr.normal(data_key, y.shape, y.dtype), sign * jr.normal(centre_key, belief.loc.shape, y.dtype)
        return eps, centre, jr.normal(factor_key, (), y.dtype)

    eps, centres, normal = jax.vmap(noise)(jnp.arange(n))
    begin = jnp.concatenate([belief.loc[None], start[: STARTS - 1]])
    found = _in_rounds(
        lambda z: jax.vmap(lambda z: solve(problem, z, y, jnp.zeros_like(z), steps))(z),
        lambda found: found.cost.min() > _limit(0.0, count),
        lambda found: found.z,
        begin,
    )
    mode = jax.tree.map(lambda x: x[jnp.argmin(found.cost)], found)
    factors = jnp.ones_like(normal) if misfit is None else misfit.draws(mode.cost, count, normal)
    std = problem.std[None] * factors[:, None, None]
    limit = _limit(mode.cost / factors**2, count)
    found = _each(problem, mode.z, start, Draw(y[None] + std * eps, std, centres), steps, limit)
    return Ensemble(_with_stand_ins(found, limit, mode.z), factors), mode


def _in_rounds(solved: Any, unsolved: Any, again: Any, z: Any) -> Solution:
    """What `solved` makes of `z`, and of `again` of that, as long as `unsolved` says so."""

    def more(carry):
        found, count = carry
        return (count == 0) | (unsolved(found) & (count < ROUNDS))

    def one(carry):  # the first round too, so that `solved` is compiled once
        found, count = carry
        return solved(jnp.where(count == 0, z, again(found))), count + 1

    nothing = Solution(z, jnp.full(z.shape[0], jnp.inf, z.dtype))
    return jax.lax.while_loop(more, one, (nothing, jnp.zeros((), jnp.int32)))[0]


def _with_stand_ins(found: Solution, limit: Any, mode: Any) -> Any:
    """The latents, those that are still far off replaced by ones that are not."""
    good = found.cost < limit
    stand_in = jnp.argsort(~good)[jnp.arange(len(good)) % jnp.maximum(good.sum(), 1)]
    return jnp.where(good[:, None], found.z, jnp.where(good.any(), found.z[stand_in], mode[None]))


class Draw(NamedTuple):
    """What makes a draw's problem its own: perturbed observations, their noise, and where its prior pulls to."""

    data: Any
    std: Any
    centre: Any


def _around(problem: Problem, mode: Any, draws: Draw) -> Any:
    """All draws from the mode, by its derivative alone: a first guess at them."""
    problem = problem._replace(std=draws.std.mean(0))
    q, r = orthonormalised(linearised(problem, mode, draws.data[0], draws.centre[0])[1])

    def one(draw):
        def step(z, _):
            return z - solve_triangular(r, projected(q, problem.residuals(z, draw.data, draw.centre))), None

        return jax.lax.scan(step, mode, None, length=SHARED_STEPS)[0]

    return jax.vmap(one)(draws)


def _each(problem: Problem, mode: Any, start: Any, draws: Draw, steps: int, limit: Any) -> Solution:
    """Every draw by a search of its own.

    It begins at its row of `start`, at its draw of the prior or at the guess made from the mode, whichever fits best; half
    way, one that got nowhere goes on from the mode.
    """
    unmoved = jax.vmap(lambda e: problem.prior.colour(e, problem.series.static))(draws.centre)
    begins = jnp.stack([start, unmoved, _around(problem, mode, draws)], 1)

    def nearest(zs, draw):
        own = problem._replace(std=draw.std)
        costs = jax.vmap(lambda z: (own.residuals(z, draw.data, draw.centre) ** 2).sum())(zs)
        return zs[jnp.argmin(jnp.where(jnp.isnan(costs), jnp.inf, costs))]

    def solved(z, draw, limit):
        own = problem._replace(std=draw.std)
        return solve(own, z, draw.data, draw.centre, steps, Solution(mode, limit))

    return _in_rounds(
        lambda z: jax.vmap(solved)(z, draws, limit),
        lambda found: (found.cost > limit).mean() > LOST,
        lambda found: _with_stand_ins(found, limit, mode),
        jax.vmap(nearest)(begins, draws),
    )


def _limit(mode_cost, count):
    """At its solution a draw's cost is like χ² with as many degrees of freedom as there are observed values."""
    return 2.0 * mode_cost + count + 6.0 * jnp.sqrt(2.0 * count) + 10.0
