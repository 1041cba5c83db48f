"""Quantiles in the tails and log densities of extreme values, for which float32 has not enough digits or range.

Computed in float64 on the host from the predictions of all draws, `[series, n, m, channels]`. They are rarely needed, so they
need not be fast.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
from scipy.special import expit, log_expit, log_ndtr, logsumexp, ndtri

from .distributions import AbstractDistribution, Bernoulli, Normal

HALVINGS = 60  # of the bisection: more than the 53 bits of a float64


def smallest_tail(dtype: Any) -> float:
    """The smallest tail probability p for which 1 − p has three digits of p left in the float type `dtype`."""
    return 1e3 * float(np.finfo(dtype).eps)


def far_quantile(predicted: AbstractDistribution, below: float, above: float) -> np.ndarray | None:
    """Values `[series, m, channels]` with a probability of `below` beneath and `above` over them, under all draws together.

    The smaller of the two is used, so that neither tail is lost in rounding. `None` for distributions that are neither normal nor
    Bernoulli.
    """
    lower = below <= above
    if isinstance(predicted, Bernoulli):
        logits = np.asarray(predicted.logits, np.float64)
        chances = expit(-logits if lower else logits).mean(1)
        found = (chances < below if lower else chances > above).astype(np.float64)
        return np.where(np.isnan(chances), np.nan, found)
    if not isinstance(predicted, Normal):
        return None
    loc, scale = (np.asarray(x, np.float64) for x in (predicted.loc, predicted.scale))
    sign, tail = (1.0, below) if lower else (-1.0, above)
    ends = loc + scale * sign * ndtri(tail)
    low, high = ends.min(1), ends.max(1)
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        mass = logsumexp(log_ndtr(sign * (middle[:, None] - loc) / scale), 1) - np.log(loc.shape[1])
        rise = mass < np.log(tail) if lower else mass > np.log(tail)
        low, high = np.where(rise, middle, low), np.where(rise, high, middle)
    return 0.5 * (low + high)


def log_densities(predicted: AbstractDistribution, y: np.ndarray) -> np.ndarray:
    """The log density of scaled values `y [series, m, channels]` under each draw, shaped like the draws.

    −∞ below the range of float64, about −1.8e308; for distributions other than normal and Bernoulli below −3.4e38.
    """
    y = y[:, None]
    with np.errstate(over="ignore"):
        if isinstance(predicted, Bernoulli):
            logits = np.asarray(predicted.logits, np.float64)
            return y * log_expit(logits) + (1.0 - y) * log_expit(-logits)
        if isinstance(predicted, Normal):
            loc, scale = (np.asarray(x, np.float64) for x in (predicted.loc, predicted.scale))
            return -0.5 * ((y - loc) / scale) ** 2 - np.log(scale) - 0.5 * np.log(2 * np.pi)
        return np.asarray(predicted.log_prob(jnp.asarray(y, predicted.mean.dtype)), np.float64)


def log_mean_density(log_densities: np.ndarray, axis: int) -> np.ndarray:
    """The logarithm of the mean density over an axis of draws."""
    with np.errstate(invalid="ignore"):
        return logsumexp(log_densities, axis) - np.log(log_densities.shape[axis])
