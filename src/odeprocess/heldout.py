"""What held-out series teach about a model's certainty: they are asked about, given more and more of them."""

import dataclasses
from typing import Any

import numpy as np

from . import beliefs, checks
from .calibration import COUNTS, Calibration, Misses, Places, fitted_misfit
from .misfit import Misfit
from .posterior import Posterior
from .scaling import series_origins
from .series import Series

LEAST_HALF = 0.05  # of an interval, on either side of the mean
LEAST_ERROR, WORST = 1e-6, 1e6  # of a prediction, in scaled units; the latter for a solution that was not found
AGAIN, MOST_ASKED = 4, 240  # times that a series is asked about anew, given other points of it; and series in all
MANY = 20  # given so many observations or more, posteriors share one compilation
MODE_STEPS = 8  # double steps of the solver, in search of one


def misses_on(model: Any, series: Series, *, refined: bool, key: Any, draws: int) -> Misses:
    """How far off a model's refined posteriors, or the encoder's own, are on held-out series."""
    t, observed = np.asarray(series.t, np.float64), np.asarray(series.observed)
    horizon = float((t[observed].max() - t[observed].min()) or 1.0)
    ask = Questions(model, key, draws, refined)
    bare = Calibration.none(horizon, ask.misfit(series) if refined else None)
    ask = dataclasses.replace(ask, model=dataclasses.replace(model, calibrations={"refined": bare}))
    rng, evidence = np.random.default_rng(0), []
    # Before any observation the belief is what all training series showed: fewer series cannot correct that.
    tried = COUNTS[1:] if refined and model.process.mixture is not None else COUNTS
    for count in tried[observed.sum(-1).max() > tried]:
        repeats = max(1, min(MOST_ASKED // len(series), AGAIN)) if count < MANY else 1
        anywhere = [ask.misses(series, order, count) for order in rng.random((repeats, *t.shape))]
        first = ask.misses(series, t, count)
        evidence += [(count, *misses) for misses in (*anywhere, *repeats * [first])]  # either kind weighs the same
    checks.require(bool(evidence), "The series have a single observation each: nothing is left to calibrate on.")
    counts = np.concatenate([np.full(len(misses), count) for count, *_, misses, _ in evidence])
    _, *places, misses, who = (np.hstack(x) for x in zip(*evidence, strict=True))
    return Misses(counts, Places(*places), misses, who, horizon, bare.misfit)


def errors_on(model: Any, series: Series, *, key: Any) -> np.ndarray:
    """How far off a model's likeliest curves are, given half of a series, anywhere and from the beginning.

    A logarithm of the typical error, in scaled units, for each of both questions and each series with two observations or
    more: so one series that a sharp model gets wrong does not decide about it.
    """
    ask, (t, y), observed = Questions(model, key, 1, refined=True), _values(series), np.asarray(series.observed)
    checks.require(bool((observed.sum(-1) > 1).any()), "The held-out series have one observation each: nothing is left to ask.")
    rng, found = np.random.default_rng(0), []
    for order in (rng.random(t.shape), t):
        posterior, given = ask.after(series, order, observed.sum(-1) // 2)
        posterior, _ = ask.likeliest(posterior, t.shape[1])
        off = (np.asarray(posterior.mean(t), np.float64) - y) / np.asarray(model.scaling.y_scale)
        chosen = (~given & observed)[..., None] & np.isfinite(y)
        squares = np.where(chosen, np.nan_to_num(off, nan=WORST) ** 2, 0.0).sum((1, 2))
        some = chosen.any((1, 2)) & given.any(1)
        found.append(0.5 * np.log(squares[some] / chosen[some].sum((1, 2)) + LEAST_ERROR**2))
    return np.concatenate(found)


@dataclasses.dataclass(frozen=True)
class Questions:
    """How a `Model` is asked about series whose end is known."""

    model: Any
    key: Any
    draws: int
    refined: bool

    def posterior(self, series: Series, t: np.ndarray, y: np.ndarray) -> Posterior:
        """The model's answer to observations of some series, which keep their own clock."""
        origin = None
        if self.model.scaling.origin == "first":
            origin = series_origins(np.asarray(series.t, np.float64), np.asarray(series.observed), "first")
        return self.model.condition(t, y, key=self.key, static=series.static, origin=origin, draws=self.draws)

    def misfit(self, series: Series) -> Misfit:
        """How well whole series can be fitted."""
        _, costs = self.likeliest(self.posterior(series, *_values(series)), series.t.shape[1])
        return fitted_misfit(np.asarray(costs, np.float64), np.asarray(series.mask).sum((1, 2)))

    def likeliest(self, found: Posterior, least: int) -> tuple[Posterior, Any]:
        """A posterior that is its highest peak alone, and how badly that fits."""
        belief = beliefs.amortised(found.process, found.record, found.summary)
        mode, costs = beliefs.modes(found.process, found.record, belief, found.keys, MODE_STEPS, least)
        return dataclasses.replace(found, belief=mode, draws=1, steps=MODE_STEPS, _last={}), costs

    def after(self, series: Series, order: np.ndarray, count: Any, width: int = 0) -> tuple[Posterior, np.ndarray]:
        """The encoder's answer to the first `count` points by `order` (one number, or one for each series), and which those are.

        The record is as wide as `count`, or as `width`, with nothing in the rest: so that several share one compilation.
        """
        (t, y), observed = _values(series), np.asarray(series.observed)
        rank = np.argsort(np.argsort(np.where(observed, order, np.inf), 1), 1)
        given = (rank < np.broadcast_to(count, len(t))[:, None]) & observed
        index = np.argsort(~given, 1, kind="stable")[:, : max(np.max(count), width)]
        seen = np.where(np.take_along_axis(given, index, 1)[..., None], np.take_along_axis(y, index[..., None], 1), np.nan)
        return self.posterior(series, np.take_along_axis(t, index, 1), seen), given

    def misses(self, series: Series, order: np.ndarray, count: int) -> tuple[np.ndarray, ...]:
        """Given the first `count` points by `order`: gap, side, span, miss and series of every other value, flat."""
        (t, y), observed = _values(series), np.asarray(series.observed)
        posterior, given = self.after(series, order, count, t.shape[1] if count >= MANY else 0)
        posterior = posterior.refine() if self.refined else posterior
        (low, high), mean = posterior.interval(t), posterior.mean(t)
        # Spread is corrected around the mean, which in a skewed belief is not in the middle of the interval.
        half = np.maximum(np.where(y < mean, mean - low, high - mean), LEAST_HALF * (high - low))
        miss = np.abs(y - mean) / half
        places = [np.broadcast_to(x[..., None], y.shape) for x in Places.of(t, t, given)]
        chosen = (~given & observed)[..., None] & np.isfinite(miss)
        who = np.broadcast_to(np.arange(len(t))[:, None, None], y.shape)
        return tuple(x[chosen] for x in (*places, miss, who))


def _values(series: Series) -> tuple[np.ndarray, np.ndarray]:
    """Times and values, NaN where missing."""
    return np.asarray(series.t, np.float64), np.where(series.mask, np.asarray(series.y, np.float64), np.nan)
