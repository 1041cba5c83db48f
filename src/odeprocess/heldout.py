"""What held-out series teach about a model's certainty: they are asked about, given more and more of them."""

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from . import beliefs, checks
from .calibration import COUNTS, Calibration, Misses, Places, fitted_misfit
from .scaling import series_origins
from .series import Series

if TYPE_CHECKING:
    from .model import Model


def found_misses(model: "Model", series: Series, *, refined: bool, key: Any, draws: int) -> Misses:
    """How far off a model's refined posteriors, or the encoder's own, are on held-out series."""
    t, y = np.asarray(series.t, np.float64), np.where(series.mask, np.asarray(series.y, np.float64), np.nan)
    observed, rng, evidence = np.asarray(series.observed), np.random.default_rng(0), []
    origins = series_origins(t, observed, "first") if model.scaling.origin == "first" else None
    horizon = float((t[observed].max() - t[observed].min()) or 1.0)

    def asked(model, seen_t, seen_y):
        return model.condition(seen_t, seen_y, key=key, static=series.static, origin=origins, draws=draws)

    misfit, costs, values = None, np.zeros(0), np.asarray(series.mask).sum((1, 2))
    if refined:
        whole = asked(dataclasses.replace(model, calibrations={}), t, y)
        belief = beliefs.amortised(whole.process, whole.record, whole.summary)
        _, found = beliefs.refined(whole.process, whole.record, belief, belief, whole.keys, 2, 8, None)
        costs = np.asarray(found, np.float64)
        misfit = fitted_misfit(costs, values)
    bare = dataclasses.replace(model, calibrations={"refined": Calibration.none(horizon, misfit)})
    for count in COUNTS[observed.sum(-1).max() > COUNTS]:
        for order in (rng.random(t.shape), t):  # anywhere, and from the beginning
            rank = np.argsort(np.argsort(np.where(observed, order, np.inf), 1), 1)
            given = (rank < count) & observed
            index = np.argsort(~given, 1, kind="stable")[:, :count]
            seen = np.where(np.take_along_axis(given, index, 1)[..., None], np.take_along_axis(y, index[..., None], 1), np.nan)
            posterior = asked(bare, np.take_along_axis(t, index, 1), seen)
            low, high = (posterior.refine() if refined else posterior).interval(t)
            miss = np.abs(y - (low + high) / 2) / ((high - low) / 2)
            gaps, beyond = (np.broadcast_to(x[..., None], y.shape) for x in Places.of(t, t, given))
            chosen = (~given & observed)[..., None] & np.isfinite(miss)
            who = np.broadcast_to(np.arange(len(t))[:, None, None], y.shape)
            evidence.append((np.full(chosen.sum(), count), gaps[chosen], beyond[chosen], miss[chosen], who[chosen]))
    checks.require(bool(evidence), "The series have a single observation each: nothing is left to calibrate on.")
    counts, gaps, beyond, misses, who = (np.concatenate(x) for x in zip(*evidence, strict=True))
    return Misses(counts, Places(gaps, beyond), misses, who, horizon, costs, values[: len(costs)])
