"""Inference beyond one pass of the encoder: draws that are each fitted to the observations.

Randomised maximum a posteriori: a draw of the prior and a draw of the measurement noise define a least-squares problem
whose solution is one draw of the posterior. For a linear model that is exact; for a curved one every draw still lies on
the curves that agree with the data, where a normal distribution around the mode would not. Without observations it is
the prior.

Where the prior is a mixture, each draw first gets a part of it, as likely as the observations make that part.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float

from odeprocess.common.distributions import Normal
from odeprocess.common.linear_algebra import project, solve_triangular
from odeprocess.data.series import Series
from odeprocess.process import Process
from odeprocess.process.prior import Mixture
from odeprocess.process.solvers import Extent

from .least_squares import TOLERANCE, LeastSquaresProblem, LevenbergMarquardtState, Solution, cost_limit, solve_in_rounds, step
from .modes import Mode, find_modes
from .noise_scale import NoiseScale

MAX_UNSOLVED_SHARE = 0.05  # the share of draws that may be far from a solution
MIN_SOLVED_SHARE = 0.2  # the share of draws that others may be replaced by
TEMPERED_SHARE, TEMPERING_POWER = 0.05, 0.25
GAUSS_NEWTON_STEPS = 3  # with the derivative at the mode
GOLDEN_RATIO = 0.5 * (5**0.5 - 1)  # whose multiples fill the unit interval evenly, however many there are


class Ensemble(eqx.Module):
    """A belief that is nothing but its draws: latents, and a factor of the noise."""

    z: Float[Array, "*series n z"]
    noise: Float[Array, "*series n"]


class Draw(NamedTuple):
    """What makes a draw's problem its own.

    Attributes:
        data: perturbed observations.
        std: their noise.
        centre: where the prior pulls to, whitened.
        mode: the one it belongs to.
        limit: the cost under which it counts as solved.
    """

    data: Any
    std: Any
    centre: Any
    mode: Mode
    limit: Any

    def problem(self, of: LeastSquaresProblem) -> LeastSquaresProblem:
        """The problem of its series, with its own noise and part of the prior."""
        return of._replace(std=self.std, prior=self.mode.prior)


def randomised_map_draws(
    process: Process,
    belief: Normal,
    start: Any,
    series: Series,
    key: Any,
    n: int,
    steps: int,
    extent: Extent,
    noise_scale: NoiseScale | None = None,
) -> Ensemble:
    """Draws of the posterior of one series given its unmasked observations.

    Arguments:
        process: the process, with a normal likelihood.
        belief: the encoder's answer, where the search for the mode begins.
        start: where each draw begins, `[n, z]`.
        series: the observations, in scaled units.
        key: of the draws; draw i is the same whatever n is, unless it is replaced.
        n: number of draws.
        steps: double steps of the solver for a draw, on average and at most.
        extent: how far the flow is integrated.
        noise_scale: how the noise scale varies between series; `None` where it does not.
    """
    problem, mixture, found = _search_modes(process, belief, start, series, steps, extent, noise_scale)
    y, count = jnp.where(series.mask, series.y, 0.0), series.mask.sum(dtype=belief.loc.dtype)
    chance = jr.uniform(jr.fold_in(key, 2**31 - 1), (), y.dtype)
    shares = jnp.cumsum(_component_probabilities(found.log_weight, mixture.log_weights))
    parts = jnp.searchsorted(shares, (chance + GOLDEN_RATIO * jnp.arange(n).astype(y.dtype)) % 1.0).clip(0, len(mixture) - 1)
    places = jnp.cumsum(parts[:, None] == jnp.arange(len(mixture))[None], 0)[jnp.arange(n), parts] - 1

    def draw(part, place):
        # Draws come in pairs with opposite noise, so that their mean is that of the posterior, wherever it is symmetric.
        pair, sign = place // 2, 1.0 - 2.0 * (place % 2).astype(y.dtype)
        data_key, centre_key, factor_key = jr.split(jr.fold_in(jr.fold_in(key, part), pair), 3)
        eps = sign * jr.normal(data_key, y.shape, y.dtype)
        centre = mixture.whitened(part, place, sign * jr.normal(centre_key, belief.loc.shape, y.dtype))
        mode = jax.tree.map(lambda x: x[part], found)
        normal = jr.normal(factor_key, (), y.dtype)
        factor = (
            jnp.ones_like(normal) if noise_scale is None else noise_scale.draws(mode.data_cost + mode.prior_cost, count, normal)
        )
        std = problem.std * factor
        return Draw(y + std * eps, std, centre, mode, cost_limit(mode.data_cost / factor**2 + mode.prior_cost, count)), factor

    draws, factors = jax.vmap(draw)(parts, places)
    z = _replace_unsolved(_solve_draws(problem, start, draws, steps), draws.limit)
    return Ensemble(z, factors)


def most_likely_mode(process: Process, belief: Normal, start: Any, series: Series, steps: int, extent: Extent) -> Mode:
    """The posterior's highest peak, which is found in a fraction of the time; arguments as above."""
    _, _, found = _search_modes(process, belief, start, series, steps, extent, None)
    return jax.tree.map(lambda x: x[jnp.argmax(found.log_weight)], found)


def _search_modes(process, belief, start, series, steps, extent, noise_scale) -> tuple[LeastSquaresProblem, Mixture, Mode]:
    mixture = process.before(series.static, series.channels)
    problem = LeastSquaresProblem.of(process, jax.tree.map(lambda x: x[0], mixture.parts), series, belief.loc, extent)
    guesses = jnp.concatenate([belief.loc[None], start])
    return problem, mixture, find_modes(problem, mixture, jnp.where(series.mask, series.y, 0.0), guesses, steps, noise_scale)


def _component_probabilities(log_weight: Any, before: Any) -> Any:
    """The parts' probabilities; how well observations fit a part is known roughly, so a few draws go by a part of it."""
    doubtful = before + TEMPERING_POWER * (log_weight - before)
    return (1.0 - TEMPERED_SHARE) * jax.nn.softmax(log_weight) + TEMPERED_SHARE * jax.nn.softmax(doubtful)


def _replace_unsolved(found: Solution, limit: Any) -> Any:
    """The latents, those that are still far off replaced by ones that are not; by nothing, where hardly any is left."""
    good = found.cost < limit
    stand_in = jnp.argsort(~good)[jnp.arange(len(good)) % jnp.maximum(good.sum(), 1)]
    return jnp.where((good | (good.mean() < MIN_SOLVED_SHARE))[:, None], found.z, found.z[stand_in])


def _from_mode(problem: LeastSquaresProblem, draw: Draw) -> Any:
    """A draw from its peak, by the derivative there alone: a first guess at it."""
    own, mode = draw.problem(problem), draw.mode

    def nearer(z, _):
        return z - solve_triangular(mode.r, project(mode.q, own.residuals(z, draw.data, draw.centre))), None

    return jax.lax.scan(nearer, mode.z, None, length=GAUSS_NEWTON_STEPS)[0]


def _solve_draws(problem: LeastSquaresProblem, start: Any, draws: Draw, steps: int) -> Solution:
    """Every draw by a search of its own.

    It begins at its row of `start`, at its draw of the prior or at the guess made from its peak, whichever fits best; one that
    got nowhere by its first step goes on from the peak.
    """

    def nearest(start, draw):
        own = draw.problem(problem)
        zs = jnp.stack([start, own.prior.colour(draw.centre, own.series.static), _from_mode(problem, draw)])
        costs = jax.vmap(lambda z: (own.residuals(z, draw.data, draw.centre) ** 2).sum())(zs)
        return zs[jnp.argmin(jnp.where(jnp.isnan(costs), jnp.inf, costs))]

    def moved(search, draw, astray):
        search = jax.tree.map(lambda a, b: jnp.where(astray, a, b), LevenbergMarquardtState.at(draw.mode.z), search)
        return step(draw.problem(problem), search, draw.data, draw.centre)

    def solved(z):
        """Most draws are solved by one step: the others get what is left of all draws' steps, half of the draws at a time."""
        count = len(z)

        def more(carry):
            searches, _, number = carry
            return (number < 2 * steps) & (searches.relative_change > TOLERANCE).any()

        def some(carry):
            searches, taken, number = carry
            who = jnp.argsort(-searches.relative_change)[: (count + 1) // 2]
            chosen, own = jax.tree.map(lambda x: x[who], (searches, draws))
            found = jax.vmap(moved)(chosen, own, (taken[who] == 1) & (chosen.cost > own.limit))
            return jax.tree.map(lambda x, new: x.at[who].set(new), searches, found), taken.at[who].add(1), number + 1

        begin = (jax.vmap(LevenbergMarquardtState.at)(z), jnp.zeros(count, jnp.int32), jnp.zeros((), jnp.int32))
        searches, _, _ = jax.lax.while_loop(more, some, begin)
        return Solution(searches.z, searches.cost)

    return solve_in_rounds(
        solved,
        lambda found: (found.cost > draws.limit).mean() > MAX_UNSOLVED_SHARE,
        lambda found, _: _replace_unsolved(found, draws.limit),
        jax.vmap(nearest)(start, draws),
    )
