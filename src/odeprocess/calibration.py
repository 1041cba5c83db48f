"""Calibration: how much wider or narrower predictions have to be to hold what they promise.

A model is asked about series it has not seen, given more and more of them. Where its 90 % intervals hold too little or
too much, the spread around the mean is multiplied by the factor that puts it right, which depends on the number of
observations and on how far the asked time lies from the nearest of them. The factor is a conformal quantile, so that it
is honest for few series too; where there are hardly any, it leans on its neighbours.
"""

import dataclasses
from typing import Any

import numpy as np

LEVEL = 0.9
COUNTS = np.array([0, 1, 2, 3, 5, 8, 12, 20, 35, 60, 90])  # numbers of observations that are tried
GAPS = np.array([0.01, 0.04, 0.15, 0.5])  # middles of bins of distance, as parts of the training horizon
LEANING = 5.0  # series: a bin with as many counts as much as its neighbours
LEAST, MOST = 0.2, 10.0


@dataclasses.dataclass(frozen=True, eq=False)
class Calibration:
    """Factors of spread by number of observations and by distance from them.

    Attributes:
        factors: `[counts, gaps]`.
        horizon: the span of the training times, in the user's units.
    """

    factors: np.ndarray
    horizon: float

    @classmethod
    def fit(cls, counts: np.ndarray, gaps: np.ndarray, misses: np.ndarray, series: np.ndarray, horizon: float) -> "Calibration":
        """From flat arrays over predictions on unseen series.

        Arguments:
            counts: observations that were given.
            gaps: distance to the nearest of them, in the user's units.
            misses: how far off a prediction was, as a multiple of half its 90 % interval.
            series: which series each is about: values of one series are no independent evidence.
            horizon: the span of the training times.
        """
        rows, columns = nearest_count(counts), _column(gaps / horizon)
        whole = _conformal(misses, series)
        factors = np.empty((len(COUNTS), len(GAPS)))
        last = np.full(len(GAPS), whole)
        for i in range(len(COUNTS)):
            here = rows == i
            row = _leaning(misses[here], series[here], whole if i == 0 else float(np.median(last)))
            for j in range(len(GAPS)):
                bin_ = here & (columns == j)
                factors[i, j] = _leaning(misses[bin_], series[bin_], row)
            if i == 0 or not here.any():
                factors[i] = row if i == 0 else last
            last = factors[i]
        return cls(np.clip(factors, LEAST, MOST), float(horizon))

    def at(self, counts: np.ndarray, gaps: np.ndarray) -> np.ndarray:
        """Factors for series with `counts [series]` observations at times `gaps [series, m]` from the nearest of them."""
        place = np.log(np.clip(gaps / self.horizon, GAPS[0], GAPS[-1]))
        rows = self.factors[nearest_count(counts)]
        return np.stack([np.interp(x, np.log(GAPS), row) for x, row in zip(place, rows, strict=True)])

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {"factors": self.factors.tolist(), "horizon": self.horizon}

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> "Calibration":
        """The inverse of `to_json`."""
        return cls(np.asarray(fields["factors"], np.float64), float(fields["horizon"]))


def nearest_count(counts: Any) -> np.ndarray:
    """The row for a number of observations: the largest tried one that is not above it."""
    return np.searchsorted(COUNTS, np.asarray(counts), side="right") - 1


def distance(t: np.ndarray, seen: np.ndarray, observed: np.ndarray) -> np.ndarray:
    """From times `t [series, m]` to the nearest of `seen [series, n]` that is `observed`; infinite without any."""
    apart = np.abs(t[:, :, None] - seen[:, None, :])
    return np.where(observed[:, None, :], apart, np.inf).min(-1, initial=np.inf)


def _column(parts: np.ndarray) -> np.ndarray:
    return np.abs(np.log(np.clip(parts, GAPS[0], GAPS[-1]))[:, None] - np.log(GAPS)[None]).argmin(-1)


def _conformal(misses: np.ndarray, series: np.ndarray) -> float:
    """The quantile that a new value stays under with probability `LEVEL`, counting series, not values, as evidence."""
    count = len(np.unique(series))
    return float(np.quantile(misses, min(1.0, LEVEL * (1 + 1 / count)))) if count else 1.0


def _leaning(misses: np.ndarray, series: np.ndarray, towards: float) -> float:
    count = len(np.unique(series))
    if not count:
        return towards
    own = np.log(max(_conformal(misses, series), 1e-6))
    return float(np.exp((count * own + LEANING * np.log(max(towards, 1e-6))) / (count + LEANING)))
