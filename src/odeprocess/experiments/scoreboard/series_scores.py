"""The scoreboard's scores, a number for each series: squared error, log density, CRPS, coverage and width of 90 % intervals.

Equations are in `common.scores`. Log densities are in the user's units, with the same noise floor for all models: a model that is
certain to more digits than data have gains nothing by it.
"""

from typing import Any

import numpy as np

from odeprocess.common import scores

NOISE_FLOOR = 1e-3  # least standard deviation of the noise, in scaled units; chosen by hand
LEVEL = 0.9  # of intervals


def score_normals(mean: Any, std: Any, y: Any, chosen: Any) -> dict[str, np.ndarray]:
    """Scores normal predictions: all arrays `[series, n, channels]`, `chosen` the values that are scored."""
    low, high = scores.normal_interval(mean, std, LEVEL)
    return _average_by_series(
        chosen,
        mse=(y - mean) ** 2,
        log_likelihood=scores.log_density_normal(mean, std, y),
        crps=scores.crps_normal(mean, std, y),
        coverage90=scores.coverage(low, high, y),
        width90=high - low,
    )


def score_draws(draws: Any, std: Any, low: Any, high: Any, y: Any, chosen: Any) -> dict[str, np.ndarray]:
    """Scores predictions made of draws, each a normal distribution around its mean.

    With little noise the mixture of a few draws is a comb: spikes with gaps between them. For the log density of single values
    each draw is therefore widened by a normal kernel of Silverman's bandwidth.

    Arguments:
        draws: means, `[series, draws, n, channels]`.
        std: standard deviation of the measurement noise, broadcasting to them.
        low: lower end of the 90 % interval, `[series, n, channels]`.
        high: its upper end.
        y: the observations.
        chosen: which of them are scored.
    """
    widened = np.sqrt(std**2 + scores.silverman_bandwidth(draws)[:, None] ** 2)
    noisy = draws + std * np.random.default_rng(0).standard_normal(draws.shape)
    joint, effective = scores.log_density_of_series(draws, std, y, chosen)
    return {"joint": joint, "joint_ess": effective} | _average_by_series(
        chosen,
        mse=(y - draws.mean(1)) ** 2,
        log_likelihood=scores.log_density_mixture(draws, widened, y),
        crps=scores.crps_draws(noisy, y),
        coverage90=scores.coverage(low, high, y),
        width90=high - low,
    )


def _average_by_series(chosen: Any, **values: Any) -> dict[str, np.ndarray]:
    count = chosen.sum((1, 2))
    return {name: np.where(chosen, value, 0.0).sum((1, 2)) / count for name, value in values.items()}
