"""The next best measurement: which of some times would teach most about a series.

A posterior's draws say how values at different times hang together. As a normal distribution with the draws'
covariance, it can be asked what a measurement would leave open, before anyone makes it: so several measurements are
chosen one after the other, each as if those before it had been made.
"""

import dataclasses
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from odeprocess.common import checks
from odeprocess.common.compilation import compiled
from odeprocess.common.linear_algebra import cholesky
from odeprocess.data.series import bucket

from .posterior import Posterior

By = Literal["spread", "information"]
DEAREST = 1e15  # times as dear as the cheapest
TINY, HUGE = 1e-12, 1e12  # variances of noise, in scaled units: no division by zero, and nothing to be learned


@dataclasses.dataclass(frozen=True, eq=False)
class Suggestion:
    """Times to measure at, the best first: `[count]`, or `[series, count]` for a batch.

    Attributes:
        times: when, in the user's units.
        scores: what each promises, given those before it: the spread of the curve there, as a multiple of the channels' scales
            and summed over channels, or the information in nats; divided by its cost where costs were given.
    """

    times: np.ndarray
    scores: np.ndarray


def suggest(
    posterior: Posterior,
    candidates: Any,
    *,
    by: By = "information",
    count: int = 1,
    about: Any = None,
    costs: Any = None,
    forbidden: Any = None,
    draws: int | None = None,
) -> Suggestion:
    """The times at which to measure next, of one series or of each series of a batch.

    Arguments:
        posterior: what is believed so far.
        candidates: times that could be measured, `[m]`, or `[series, m]`; NaN where there is none. All channels are measured.
        by: `"spread"`: where the curves of the draws lie furthest apart. `"information"`: where a measurement, with its noise,
            tells most about the whole trajectory.
        count: how many. Each is chosen as if those before it had been made, and none is chosen twice.
        about: times; information is then about what measurements there would show, not about the whole trajectory.
        costs: what each candidate costs, shaped like `candidates`; scores are divided by it.
        forbidden: spans of time in which nothing can be measured: pairs (start, end), both included.
        draws: how many draws to go by; as many as the posterior has, by default.

    Of equal candidates the first is chosen.

    Examples:
        >>> import jax, odeprocess as odp
        >>> model = odp.fit(odp.data.sines.sample(20, key=jax.random.key(0)), "ndp", options=odp.FitOptions(epochs=1)).model
        >>> posterior = model.condition([0.0], [0.1], key=jax.random.key(1))
        >>> odp.suggest(posterior, [-2.0, 0.0, 2.0], count=2, forbidden=[(-1.0, 1.0)]).times.shape
        (2,)
    """
    checks.choice("by", by, ("spread", "information"))
    checks.positive("count", count, integer=True)
    checks.require(
        about is None or by == "information", "`about` is for by='information'; spread is that of the candidate alone."
    )
    times = _candidates(posterior, candidates)
    price = np.ones(times.shape) if costs is None else _costs(costs, times)
    allowed = np.isfinite(times) & ~_within(times, forbidden)
    for i in np.flatnonzero(allowed.sum(-1) < count)[:1]:
        who = "" if posterior.record.single else f" for series {i}"
        raise ValueError(
            f"`count` is {count}, but only {allowed[i].sum()} of {times.shape[1]} candidates can be measured{who}: others are "
            "NaN or forbidden. Ask for fewer, or offer more times."
        )
    asked = np.where(allowed, times, np.take_along_axis(times, allowed.argmax(-1, keepdims=True), -1))
    curves, noise = _curves(posterior, posterior.record.squeeze(asked), draws)
    target = None if about is None else _curves(posterior, about, draws)
    padding = ((0, 0), (0, curves.shape[2] - times.shape[1]))
    unit = float(np.sqrt(price.min()) * np.sqrt(price.max()))  # so that prices in any currency fit into float32
    open_, price = np.pad(allowed, padding), np.pad(price / unit, padding, constant_values=1.0).astype(curves.dtype)
    picks = _choose(curves, noise, open_, price, target, by, bucket(count))  # a few numbers of picks, so few compilations
    places, scores = (np.asarray(x)[:, :count] for x in picks)
    checks.require(
        bool(np.isfinite(scores).all()),
        "The solver did not reach the candidates, so nothing can be said of them. Offer times nearer to the training data.",
    )
    found = np.take_along_axis(times, places, -1)
    with np.errstate(over="ignore"):
        scores = scores.astype(np.float64) / unit
    checks.require(bool(np.isfinite(scores).all()), "`costs` are so small that scores overflow; count them in a smaller unit.")
    return Suggestion(posterior.record.squeeze(found), posterior.record.squeeze(scores))


def spread(curves: Any) -> Any:
    """How far the draws `[n, m, channels]` lie apart at each time, all channels together."""
    return curves.std(0).sum(-1)


def best(scores: Any, allowed: Any) -> Any:
    """The place of the highest of some scores, among those allowed."""
    return jnp.argmax(jnp.where(allowed & jnp.isfinite(scores), scores, -jnp.inf))


def condition_on_measurement(curves: Any, like: Any, noise: Any) -> Any:
    """The draws `[n, m, channels]` as they would be after measuring values that are `like [n]` in them, with variance `noise`.

    Their mean stays and their covariance is that of a normal distribution conditioned on it (an ensemble square root filter).
    """
    centred, h = curves - curves.mean(0, keepdims=True), like - like.mean()
    total = (h**2).mean() + noise
    gain = (centred * h[:, None, None]).mean(0) / total
    return curves - h[:, None, None] * gain[None] / (1.0 + jnp.sqrt(noise / total))


def _all_measured(curves: Any, target: Any, noise: Any) -> Any:
    """The draws at the candidates, once everything at the target times has been measured too."""
    m = curves.shape[1]
    whole = jnp.concatenate([curves, target], 1)
    places = [x.reshape(-1) for x in jnp.meshgrid(jnp.arange(target.shape[1]) + m, jnp.arange(target.shape[2]), indexing="ij")]

    def one(whole, place):
        i, j, variance = place
        return condition_on_measurement(whole, whole[:, i, j], variance), None

    return jax.lax.scan(one, whole, (*places, noise.reshape(-1)))[0][:, :m]


def _log_det(curves: Any, noise: Any) -> Any:
    """Half the log determinant of the channels' covariance in a measurement at each time, in units of its noise."""
    centred = (curves - curves.mean(0, keepdims=True)) / jnp.sqrt(noise)[None]
    covariance = jnp.einsum("nmi,nmj->mij", centred, centred) / curves.shape[0]
    factors = jax.vmap(cholesky)(covariance + jnp.eye(covariance.shape[-1], dtype=covariance.dtype)[None])
    return jnp.log(jnp.diagonal(factors, axis1=1, axis2=2)).sum(-1)


@compiled(static_argnums=(5, 6))
def _choose(curves: Any, noise: Any, allowed: Any, costs: Any, target: Any, by: By, count: int) -> tuple[Any, Any]:
    """Places and scores `[series, count]`, one series at a time."""

    def one(curves, noise, allowed, costs, target):
        def pick(state, _):
            curves, about, allowed = state
            if by == "spread":
                score = spread(curves)
            elif about is None:
                score = _log_det(curves, noise)  # given the whole trajectory, only noise is left
            else:
                score = _log_det(curves, noise) - _log_det(_all_measured(curves, about, target[1]), noise)
            score = score / costs
            place = best(score, allowed)
            both = curves if about is None else jnp.concatenate([curves, about], 1)
            for channel in range(curves.shape[-1]):
                both = condition_on_measurement(both, both[:, place, channel], noise[place, channel])
            curves, about = both[:, : curves.shape[1]], None if about is None else both[:, curves.shape[1] :]
            return (curves, about, allowed.at[place].set(False)), (place, score[place])

        start = (curves, None if target is None else target[0], allowed)
        return jax.lax.scan(pick, start, None, length=count)[1]

    return jax.vmap(one)(curves, noise, allowed, costs, target)


def _curves(posterior: Posterior, times: Any, n: int | None) -> tuple[Any, Any]:
    """The draws at `times`, `[series, n, m, channels]` and scaled, and the variance of noise there, padded with mere noise."""
    predicted, m = posterior._predicted(times, n)
    noise = jnp.maximum((predicted.std**2).mean(1), TINY)
    return predicted.mean, jnp.where((jnp.arange(noise.shape[1]) < m)[None, :, None], noise, HUGE)


def _candidates(posterior: Posterior, candidates: Any) -> np.ndarray:
    """Candidates as `[series, m]`, NaN where there is none."""
    given = np.atleast_1d(np.asarray(checks.as_times("candidates", candidates)))
    checks.require(given.size > 0, "`candidates` is empty; expected times that could be measured.")
    checks.require(not np.isinf(given).any(), "`candidates` holds infinite times; expected numbers, NaN where there is none.")
    missing = np.isnan(given)
    asked = posterior.record.query(np.where(missing, 0.0, given))
    return np.where(np.broadcast_to(missing, asked.shape), np.nan, asked)


def _costs(costs: Any, times: np.ndarray) -> np.ndarray:
    price = np.asarray(checks.as_array("costs", costs))
    checks.require(
        price.shape in (times.shape[1:], times.shape),
        f"`costs` has shape {price.shape}; expected one for each candidate, {times.shape[1:]}.",
    )
    checks.require(bool((price > 0).all() and np.isfinite(price).all()), "`costs` must be finite and above 0.")
    apart = np.log(price.max()) - np.log(price.min())
    checks.require(apart < np.log(DEAREST), f"`costs` differ by a factor of more than {DEAREST:g}; expected less.")
    return np.broadcast_to(price, times.shape)


def _within(times: np.ndarray, forbidden: Any) -> np.ndarray:
    spans = np.asarray(checks.as_array("forbidden", () if forbidden is None else forbidden))
    spans = spans.reshape(0, 2) if spans.size == 0 else spans
    checks.require(
        spans.ndim == 2 and spans.shape[1] == 2 and bool((spans[:, 0] <= spans[:, 1]).all()),
        "`forbidden` is not a list of pairs (start, end) with start ≤ end; a single time t is (t, t).",
    )
    return np.any((times[..., None] >= spans[:, 0]) & (times[..., None] <= spans[:, 1]), axis=-1)
