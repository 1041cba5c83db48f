"""How good predictions are, series by series: squared error, log density, CRPS, and the coverage and width of intervals.

Log densities are those of single values, in the user's units, with one noise floor for all models: a model that is
certain to more digits than data have gains nothing by it.
"""

from typing import Any

import numpy as np
from scipy.special import logsumexp, ndtr

FLOOR = 1e-3  # in scaled units


def of_normal(mean: Any, std: Any, y: Any, chosen: Any) -> dict[str, np.ndarray]:
    """Scores of normal predictions: all arrays `[series, n, channels]`, `chosen` the values to score."""
    error = (y - mean) / std
    density = np.exp(-0.5 * error**2) / np.sqrt(2 * np.pi)
    half = 1.6448536269514722 * std
    return _averaged(
        chosen,
        mse=(y - mean) ** 2,
        log_likelihood=-0.5 * error**2 - np.log(std) - 0.5 * np.log(2 * np.pi),
        crps=std * (error * (2 * ndtr(error) - 1) + 2 * density - 1 / np.sqrt(np.pi)),
        coverage90=(np.abs(y - mean) <= half).astype(float),
        width90=2 * half,
    )


def of_draws(draws: Any, std: Any, low: Any, high: Any, y: Any, chosen: Any) -> dict[str, np.ndarray]:
    """Scores of a mixture of normal predictions.

    With little noise a few draws are spikes with gaps between them, so each is widened by a kernel, as wide as is usual
    for so many draws of such a spread (Silverman's rule).

    Arguments:
        draws: means of the components, `[series, draws, n, channels]`.
        std: of measurement noise, broadcasting to them.
        low: lower end of the 90 % interval, `[series, n, channels]`.
        high: its upper end.
        y: what came.
        chosen: which values are scored.
    """
    count = draws.shape[1]
    quartiles = np.quantile(draws, [0.25, 0.75], axis=1)
    spread = np.minimum(draws.std(1), (quartiles[1] - quartiles[0]) / 1.34)
    kernel = np.sqrt(std**2 + (0.9 * spread * count**-0.2)[:, None] ** 2)
    each = -0.5 * ((y[:, None] - draws) / kernel) ** 2 - np.log(kernel) - 0.5 * np.log(2 * np.pi)
    rng = np.random.default_rng(0)
    seen = np.sort(draws + std * rng.standard_normal(draws.shape), 1)
    weight = (2 * np.arange(1, count + 1) - count - 1)[None, :, None, None]
    apart = 2 * (weight * seen).sum(1) / (count * (count - 1))  # mean distance of two draws
    joint, ess = _joint(draws, std, y, chosen)
    return {"joint": joint, "joint_ess": ess} | _averaged(
        chosen,
        mse=(y - draws.mean(1)) ** 2,
        log_likelihood=logsumexp(each, 1) - np.log(count),
        crps=np.abs(seen - y[:, None]).mean(1) - 0.5 * apart,
        coverage90=((low <= y) & (y <= high)).astype(float),
        width90=high - low,
    )


def _joint(draws: Any, std: Any, y: Any, chosen: Any) -> tuple[np.ndarray, np.ndarray]:
    """Log density of all chosen values of a series together, a value, and how many draws carry it (their effective number)."""
    each = -0.5 * ((y[:, None] - draws) / std) ** 2 - np.log(std) - 0.5 * np.log(2 * np.pi)
    total = np.where(chosen[:, None], each, 0.0).sum((2, 3))
    whole, squares = (np.asarray(logsumexp(k * total, 1)) for k in (1, 2))
    ess = np.exp(2 * whole - squares)
    return (whole - np.log(draws.shape[1])) / chosen.sum((1, 2)), ess


def _averaged(chosen: Any, **values: Any) -> dict[str, np.ndarray]:
    count = chosen.sum((1, 2))
    return {name: np.where(chosen, value, 0.0).sum((1, 2)) / count for name, value in values.items()}
