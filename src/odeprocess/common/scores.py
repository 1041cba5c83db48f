"""Scores of probabilistic predictions: log density, continuous ranked probability score (CRPS), coverage of intervals.

Let F be the predicted distribution function, f its density and y the observation.

- Log density: log f(y). Higher is better; its negative is the NLL.
- CRPS(F, y) = ∫ (F(x) − 1{x ≥ y})² dx = E|X − y| − ½ E|X − X′| with X, X′ independent draws from F. In the units of y, and the
  absolute error where F is a single value. Lower is better.
- Coverage of an interval [low, high]: 1 where low ≤ y ≤ high, else 0. Its mean should be the interval's level.

The log density and the CRPS are proper scores: their expectations are best for the true distribution. Reference: T. Gneiting
and A. E. Raftery, Strictly Proper Scoring Rules, Prediction, and Estimation, JASA 102 (2007), 359-378; the CRPS is section 4.2,
equations 20 and 21.

Draws are on axis 1, `[series, draws, …]`; observations are `[series, …]`. All functions score every value by itself, except for
`log_density_of_series`.
"""

from typing import Any

import numpy as np
from scipy.special import logsumexp, ndtr, ndtri


def log_density_normal(mean: Any, std: Any, y: Any) -> Any:
    """The log density of a normal distribution, log N(y; mean, std²)."""
    return -0.5 * ((y - mean) / std) ** 2 - np.log(std) - 0.5 * np.log(2 * np.pi)


def log_density_mixture(means: Any, std: Any, y: Any) -> Any:
    """The log density of a mixture of normals with equal weights: log (1/K) Σₖ N(y; meanₖ, stdₖ²), components on axis 1."""
    return logsumexp(log_density_normal(means, std, y[:, None]), 1) - np.log(means.shape[1])


def log_density_of_series(means: Any, std: Any, y: Any, chosen: Any) -> tuple[np.ndarray, np.ndarray]:
    """The log density of all chosen values of a series together, divided by their number.

    log (1/K) Σₖ Πᵢ N(yᵢ; meanₖᵢ, stdₖᵢ²) over i in `chosen`. With many values one draw can carry the whole sum; how many do is
    given by the effective sample size (Σ wₖ)² / Σ wₖ², where wₖ is the product for draw k.

    Arguments:
        means: means of the components, `[series, draws, n, channels]`.
        std: their standard deviations, broadcasting to them.
        y: observations, `[series, n, channels]`.
        chosen: which of them count, `[series, n, channels]`.

    Returns:
        Log density a value and effective sample size, `[series]` each.
    """
    each = np.where(chosen[:, None], log_density_normal(means, std, y[:, None]), 0.0).sum((2, 3))
    total, squares = (np.asarray(logsumexp(power * each, 1)) for power in (1, 2))
    return (total - np.log(means.shape[1])) / chosen.sum((1, 2)), np.exp(2 * total - squares)


def silverman_bandwidth(draws: np.ndarray) -> np.ndarray:
    """The standard deviation of a normal kernel for a density estimate from draws: 0.9 min(s, IQR / 1.34) K^(−1/5).

    s is the standard deviation of the K draws, IQR their interquartile range. B. W. Silverman, Density Estimation for Statistics
    and Data Analysis (1986), equation 3.31.
    """
    low, high = np.quantile(draws, [0.25, 0.75], axis=1)
    return 0.9 * np.minimum(draws.std(1), (high - low) / 1.34) * draws.shape[1] ** -0.2


def crps_normal(mean: Any, std: Any, y: Any) -> Any:
    """The CRPS of N(mean, std²): std (z (2Φ(z) − 1) + 2φ(z) − 1/√π) with z = (y − mean) / std."""
    z = (y - mean) / std
    density = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)
    return std * (z * (2 * ndtr(z) - 1) + 2 * density - 1 / np.sqrt(np.pi))


def crps_draws(draws: np.ndarray, y: np.ndarray) -> np.ndarray:
    """An unbiased estimate of the CRPS from K draws: the mean of |xₖ − y| minus half the mean of |xⱼ − xₖ| over pairs j ≠ k.

    Of sorted draws the mean distance of a pair is 2 Σₖ (2k − K − 1) xₖ / (K (K − 1)).
    """
    count = draws.shape[1]
    ordered = np.sort(draws, 1)
    weights = (2 * np.arange(1, count + 1) - count - 1).reshape((1, count) + (1,) * (draws.ndim - 2))
    distance = 2 * (weights * ordered).sum(1) / (count * max(count - 1, 1))
    return np.abs(ordered - y[:, None]).mean(1) - 0.5 * distance


def coverage(low: Any, high: Any, y: Any) -> np.ndarray:
    """1.0 where an interval contains the observation, else 0.0."""
    return ((low <= y) & (y <= high)).astype(np.float64)


def normal_interval(mean: Any, std: Any, level: float) -> tuple[Any, Any]:
    """The central interval of N(mean, std²) that contains a share of `level`."""
    half_width = ndtri(0.5 + level / 2) * std
    return mean - half_width, mean + half_width
