"""Randomised maximum a posteriori: draws of the posterior, each the solution of a perturbed least-squares problem.

Section 5 of `docs/inference.md`. A draw of the prior and a draw of the measurement noise define a least-squares problem, whose
solution is one draw of the posterior. For a process that is linear in its latents the draws have the exact posterior. For
others they are an approximation, but each draw still fits the observations, which draws of a normal distribution around the mode
would not. Without observations they are draws of the prior. Under a mixture prior, each draw belongs to one component.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from odeprocess.common.distributions import Normal
from odeprocess.common.linear_algebra import project, solve_triangular
from odeprocess.data.series import Series
from odeprocess.process import Process
from odeprocess.process.prior import Mixture
from odeprocess.process.solvers import Extent

from .least_squares import TOLERANCE, LeastSquaresProblem, LevenbergMarquardtState, Solution, cost_limit, solve_in_rounds, step
from .modes import Mode, find_modes
from .noise_scale import NoiseScale

# All chosen by hand.
MAX_UNSOLVED_SHARE = 0.05  # share of draws above their cost limit beyond which there is another round of searches
MIN_SOLVED_SHARE = 0.2  # share of draws below their cost limit from which on they replace the others
TEMPERED_SHARE, TEMPERING_POWER = 0.05, 0.25  # share of draws whose component is drawn by the evidence to this power (eq. 10)
CHORD_STEPS = 3  # with the Jacobian at the mode, for a first estimate of a draw
GOLDEN_RATIO = 0.5 * (5**0.5 - 1)  # φ of eq. 14: multiples of it, modulo 1, fill the unit interval evenly, however many there are


class Ensemble(eqx.Module):
    """A posterior that is represented by its draws: latents, and a factor of the noise for each."""

    z: Float[Array, "*series n z"]
    noise: Float[Array, "*series n"]


class Draw(NamedTuple):
    """The perturbed problem (eqs. 11 and 12) whose solution is one draw; stacked for several.

    Attributes:
        data: perturbed observations.
        std: their noise.
        centre: the whitened draw of the prior towards which the latents are pulled.
        mode: that of the component to which the draw belongs.
        limit: the cost below which it counts as solved (eq. 13).
        noise: the factor of the noise.
    """

    data: Float[Array, "*draws n channels"]
    std: Float[Array, "*draws n channels"]
    centre: Float[Array, "*draws z"]
    mode: Mode
    limit: Float[Array, "*draws"]
    noise: Float[Array, "*draws"]

    def perturb(self, problem: LeastSquaresProblem) -> LeastSquaresProblem:
        """The problem of the series with the noise and the component of this draw."""
        return problem._replace(std=self.std, prior=self.mode.prior)


def sample_posterior(
    process: Process,
    belief: Normal,
    starts: Float[Array, "draws z"],
    series: Series,
    key: PRNGKeyArray,
    n: int,
    steps: int,
    extent: Extent,
    noise_scale: NoiseScale | None = None,
) -> Ensemble:
    """Draws of the posterior of one series given its unmasked observations.

    Arguments:
        process: the process, with a normal likelihood.
        belief: the encoder's posterior, at whose mean one search for a mode begins.
        starts: latents at which the searches for the draws may begin.
        series: the observations, in scaled units.
        key: of the draws. Draw i is the same whatever n is, unless it is replaced.
        n: number of draws.
        steps: double steps for each draw: on average, and at most.
        extent: how far the flow is integrated.
        noise_scale: the distribution of the series' noise; `None` where all series have the same.
    """
    problem, mixture, modes = _find_modes(process, belief, starts, series, steps, extent, noise_scale)
    components, places = _assign_components(mixture, modes, n, jr.fold_in(key, 2**31 - 1))

    def perturb(component, place):
        mode = jax.tree.map(lambda x: x[component], modes)
        return _perturb(problem, mixture, mode, component, place, key, noise_scale)

    draws = jax.vmap(perturb)(components, places)
    found = _solve_draws(problem, starts, draws, steps)
    return Ensemble(_replace_unsolved(found, draws.limit), draws.noise)


def find_best_mode(
    process: Process, belief: Normal, starts: Float[Array, "draws z"], series: Series, steps: int, extent: Extent
) -> Mode:
    """The mode of the most probable component, in a fraction of the time that draws take; arguments as in `sample_posterior`."""
    _, _, modes = _find_modes(process, belief, starts, series, steps, extent, None)
    return jax.tree.map(lambda x: x[jnp.argmax(modes.log_weight)], modes)


def _find_modes(
    process: Process,
    belief: Normal,
    starts: Float[Array, "draws z"],
    series: Series,
    steps: int,
    extent: Extent,
    noise_scale: NoiseScale | None,
) -> tuple[LeastSquaresProblem, Mixture, Mode]:
    """The problem of a series, its prior, and the modes under each component of that."""
    mixture = process.before(series.static, series.channels)
    problem = LeastSquaresProblem.of(process, jax.tree.map(lambda x: x[0], mixture.parts), series, belief.loc, extent)
    guesses = jnp.concatenate([belief.loc[None], starts])
    return problem, mixture, find_modes(problem, mixture, _observed_values(series), guesses, steps, noise_scale)


def _observed_values(series: Series) -> Float[Array, "n channels"]:
    """The values, 0 where missing: some callers change the mask alone."""
    return jnp.where(series.mask, series.y, 0.0)


def _component_probabilities(
    log_weight: Float[Array, " components"], log_prior: Float[Array, " components"]
) -> Float[Array, " components"]:
    """The posterior probabilities of the components (eq. 10).

    The Laplace evidence is an approximation, so a small share of the draws goes by a tempered version of it.
    """
    tempered = log_prior + TEMPERING_POWER * (log_weight - log_prior)
    return (1.0 - TEMPERED_SHARE) * jax.nn.softmax(log_weight) + TEMPERED_SHARE * jax.nn.softmax(tempered)


def _assign_components(
    mixture: Mixture, modes: Mode, n: int, key: PRNGKeyArray
) -> tuple[Int[Array, " draws"], Int[Array, " draws"]]:
    """The component of each draw (eq. 14), and its place among the draws of that component, from 0."""
    count, dtype = len(mixture), modes.z.dtype
    cumulated = jnp.cumsum(_component_probabilities(modes.log_weight, mixture.log_weights))
    level = (jr.uniform(key, (), dtype) + GOLDEN_RATIO * jnp.arange(n).astype(dtype)) % 1.0
    components = jnp.searchsorted(cumulated, level).clip(0, count - 1)
    so_far = jnp.cumsum(components[:, None] == jnp.arange(count)[None], 0)
    return components, so_far[jnp.arange(n), components] - 1


def _perturb(
    problem: LeastSquaresProblem,
    mixture: Mixture,
    mode: Mode,
    component: Int[Array, ""],
    place: Int[Array, ""],
    key: PRNGKeyArray,
    noise_scale: NoiseScale | None,
) -> Draw:
    """The perturbed problem (eqs. 11 and 12) of the draw at this place among those of its component.

    Draws at places 2j and 2j + 1 are an antithetic pair: they share their noise but for its sign. Where the posterior is
    symmetric, their mean is that of the posterior.
    """
    y = _observed_values(problem.series)
    pair, sign = place // 2, 1.0 - 2.0 * (place % 2).astype(y.dtype)
    data_key, centre_key, scale_key = jr.split(jr.fold_in(jr.fold_in(key, component), pair), 3)
    data_noise = sign * jr.normal(data_key, y.shape, y.dtype)
    centre = mixture.whitened(component, place, sign * jr.normal(centre_key, mode.z.shape, y.dtype))
    count = problem.series.mask.sum(dtype=y.dtype)
    normal = jr.normal(scale_key, (), y.dtype)
    cost = mode.data_cost + mode.prior_cost
    factor = jnp.ones_like(normal) if noise_scale is None else noise_scale.sample(cost, count, normal)
    std = problem.std * factor
    limit = cost_limit(mode.data_cost / factor**2 + mode.prior_cost, count)
    return Draw(y + std * data_noise, std, centre, mode, limit, factor)


def _replace_unsolved(found: Solution, limit: Float[Array, " draws"]) -> Float[Array, "draws z"]:
    """The latents, those above their cost limit replaced by solved ones in turn; all of them where hardly any is solved."""
    solved = found.cost < limit
    replacement = jnp.argsort(~solved)[jnp.arange(len(solved)) % jnp.maximum(solved.sum(), 1)]
    kept = solved | (solved.mean() < MIN_SOLVED_SHARE)
    return jnp.where(kept[:, None], found.z, found.z[replacement])


def _step_from_mode(problem: LeastSquaresProblem, draw: Draw) -> Float[Array, " z"]:
    """A first estimate of a draw: chord steps from the mode of its component, with the Jacobian there."""
    perturbed, mode = draw.perturb(problem), draw.mode

    def move(z, _):
        return z - solve_triangular(mode.r, project(mode.q, perturbed.residuals(z, draw.data, draw.centre))), None

    return jax.lax.scan(move, mode.z, None, length=CHORD_STEPS)[0]


def _choose_start(problem: LeastSquaresProblem, start: Float[Array, " z"], draw: Draw) -> Float[Array, " z"]:
    """Where the search for a draw begins: at `start`, its prior draw or the estimate from its mode, whichever costs least."""
    perturbed = draw.perturb(problem)
    prior_draw = perturbed.prior.colour(draw.centre, perturbed.series.static)
    candidates = jnp.stack([start, prior_draw, _step_from_mode(problem, draw)])
    costs = jax.vmap(lambda z: perturbed.cost(z, draw.data, draw.centre))(candidates)
    return candidates[jnp.argmin(jnp.where(jnp.isnan(costs), jnp.inf, costs))]


def _solve_draws(problem: LeastSquaresProblem, starts: Float[Array, "draws z"], draws: Draw, steps: int) -> Solution:
    """The solutions of all draws: rounds of searches, in which unsolved draws begin anew where solved ones ended."""
    return solve_in_rounds(
        lambda z: _search_once(problem, z, draws, steps),
        lambda found: (found.cost > draws.limit).mean() > MAX_UNSOLVED_SHARE,
        lambda found, _: _replace_unsolved(found, draws.limit),
        jax.vmap(lambda start, draw: _choose_start(problem, start, draw))(starts, draws),
    )


def _search_once(problem: LeastSquaresProblem, z: Float[Array, "draws z"], draws: Draw, steps: int) -> Solution:
    """One round of searches, of `steps` double steps for each draw on average.

    One double step solves most draws. So every pass takes one for the half of the draws whose cost changed most in their last
    step, until all have converged or there have been twice as many passes as `steps`.
    """
    count = len(z)

    def continues(carry):
        states, _, number = carry
        return (number < 2 * steps) & (states.relative_change > TOLERANCE).any()

    def run_pass(carry):
        states, taken, number = carry
        chosen = jnp.argsort(-states.relative_change)[: (count + 1) // 2]
        state, draw = jax.tree.map(lambda x: x[chosen], (states, draws))
        diverged = (taken[chosen] == 1) & (state.cost > draw.limit)
        new = jax.vmap(lambda *each: _step_draw(problem, *each))(state, draw, diverged)
        states = jax.tree.map(lambda x, new: x.at[chosen].set(new), states, new)
        return states, taken.at[chosen].add(1), number + 1

    start = (jax.vmap(LevenbergMarquardtState.at)(z), jnp.zeros(count, jnp.int32), jnp.zeros((), jnp.int32))
    states, _, _ = jax.lax.while_loop(continues, run_pass, start)
    return Solution(states.z, states.cost)


def _step_draw(
    problem: LeastSquaresProblem, state: LevenbergMarquardtState, draw: Draw, diverged: Bool[Array, ""]
) -> LevenbergMarquardtState:
    """A double step of one draw; a search that has `diverged` begins anew at the mode of its component."""
    from_mode = LevenbergMarquardtState.at(draw.mode.z)
    state = jax.tree.map(lambda a, b: jnp.where(diverged, a, b), from_mode, state)
    return step(draw.perturb(problem), state, draw.data, draw.centre)
