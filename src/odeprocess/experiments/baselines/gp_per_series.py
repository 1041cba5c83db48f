"""The baseline for a `Forecaster`: Gaussian processes for the series of a table, each series and column on its own.

They see the same rows and are scored on the same values. What they know of the training table is its span of times, and
mean and spread of each column.
"""

import dataclasses
from typing import Any

import numpy as np
from scipy.stats import norm

from odeprocess.forecasting.evaluate import crps, given_rows
from odeprocess.forecasting.forecaster import Forecaster
from odeprocess.forecasting.read_table import read
from odeprocess.forecasting.rows import TableRows
from odeprocess.forecasting.table_layout import Layout
from odeprocess.forecasting.transforms import Transform

from .gaussian_processes import per_series

SCORES = ("mse", "nll", "crps", "coverage")
FLOOR = 1e-3  # of the noise, in scaled units
DRAWS = 500  # evenly spaced quantiles, for the CRPS
LEVEL = 0.9


@dataclasses.dataclass(frozen=True, eq=False)
class GaussianBaseline:
    """Gaussian processes that read tables as a forecaster does.

    Attributes:
        layout: which column is what.
        transforms: of each column's values, before they are scaled.
        shift: mean of each column's transformed values.
        scale: their standard deviation.
        span: first and last time.
        seed: the forecaster's, which decides about the rows that `evaluate` gives.
    """

    layout: Layout
    transforms: tuple[Transform, ...]
    shift: np.ndarray
    scale: np.ndarray
    span: tuple[float, float]
    seed: int

    @classmethod
    def learn(cls, forecaster: Forecaster, table: Any, *, transformed: bool = False) -> "GaussianBaseline":
        """From the training table of a forecaster; on its transformed values, or on values as they are."""
        layout = forecaster.layout_
        long = layout.read(read(table))
        transforms = layout.transforms if transformed else (Transform(),) * len(layout.transforms)
        x = _forward(transforms, long.values)
        span = float(long.t.min()), float(long.t.max())
        return cls(layout, transforms, np.nanmean(x, 0), np.nanstd(x, 0), span, forecaster.seed)

    def predict(self, table: Any, times: Any, quantiles: tuple[float, ...] = (0.05, 0.5, 0.95)) -> Any:
        """Quantiles for every series of a table at the same times from its origin: a data frame like the forecaster's."""
        import pandas as pd

        long = self.layout.read(read(table))
        asked, columns, frames = np.asarray(times, np.float64), self.layout.columns, []
        normals = self._normals(long, long.observed, [asked] * len(long))
        for i, (mean, std) in enumerate(normals):
            when = self.layout.clock.to_arrow(self.layout.clock.after(long.origins[np.full(len(asked), i)], asked)).to_pylist()
            for j, name in enumerate(columns.values):
                found = {f"q{q:g}": self._value(mean[:, j] + norm.ppf(q) * std[:, j], j) for q in quantiles}
                frames.append(pd.DataFrame({columns.series: long.name(i), columns.time: when, "variable": name, **found}))
        return pd.concat(frames, ignore_index=True)

    def evaluate(self, table: Any, context: int, split: str) -> Any:
        """What `Forecaster.evaluate(…, by="series")` says of the forecaster: a data frame with a row for each series."""
        import pandas as pd

        long = self.layout.read(read(table))
        index, given, asked = given_rows(long, context, split, self.seed)
        normals = self._normals(long, given, [long.t[rows] for rows in asked])
        rows = []
        for i, some, (mean, std) in zip(index, asked, normals, strict=True):
            scores = [self._scored(mean[:, j], std[:, j], long.values[some, j], j) for j in range(mean.shape[1])]
            means = np.concatenate(scores, 1).mean(1)
            rows.append({self.layout.columns.series: long.name(i), **dict(zip(SCORES, means, strict=True))})
        return pd.DataFrame(rows)

    def _normals(self, long: TableRows, given: list[np.ndarray], times: list[np.ndarray]) -> list[tuple[np.ndarray, np.ndarray]]:
        """Mean and standard deviation of each series' scaled values, noise included, `[times, channels]` each."""
        low, high = self.span
        most, longest = max(map(len, given)), max(map(len, times))
        x = (_forward(self.transforms, long.values) - self.shift) / self.scale
        t, at = np.zeros((len(given), most)), np.zeros((len(given), longest))
        y = np.full((len(given), most, x.shape[1]), np.nan)
        for i, (rows, asked) in enumerate(zip(given, times, strict=True)):
            t[i, : len(rows)], y[i, : len(rows)], at[i, : len(asked)] = long.t[rows], x[rows], asked
        curve = per_series(4 * (t - low) / (high - low) - 2, y, 4 * (at - low) / (high - low) - 2)
        std = np.sqrt(curve.std**2 + np.maximum(curve.noise, FLOOR) ** 2)
        return [(curve.mean[i, : len(asked)], std[i, : len(asked)]) for i, asked in enumerate(times)]

    def _value(self, x: np.ndarray, channel: int) -> np.ndarray:
        return self.transforms[channel].inverse(x * self.scale[channel] + self.shift[channel])

    def _scored(self, mean: np.ndarray, std: np.ndarray, truth: np.ndarray, channel: int) -> np.ndarray:
        """Scores `[score, values]` in the user's units, of the values that are there."""
        seen = np.isfinite(truth)
        mean, std, truth = mean[seen], std[seen], truth[seen]
        transform, shift, scale = self.transforms[channel], self.shift[channel], self.scale[channel]
        far = ((transform.forward(truth) - shift) / scale - mean) / std
        levels = (np.arange(DRAWS) + 0.5) / DRAWS
        drawn = self._value(mean + std * norm.ppf(levels)[:, None], channel)
        centre, _ = transform.moments((mean * scale + shift)[None], (std * scale)[None])
        nll = -norm.logpdf(far) + np.log(std * scale) - transform.log_slope(truth)
        covered = np.abs(far) <= norm.ppf(0.5 + LEVEL / 2)
        return np.stack([(centre - truth) ** 2, nll, crps(drawn[None], truth[None])[0], covered.astype(np.float64)])


def _forward(transforms: tuple[Transform, ...], values: np.ndarray) -> np.ndarray:
    return np.stack([each.forward(values[:, j]) for j, each in enumerate(transforms)], -1)


def baseline_scores(forecaster: Forecaster, train: Any, test: Any, context: int, split: str = "forecast") -> Any:
    """Scores by series of Gaussian processes on values as they are and on transformed ones.

    Arguments:
        forecaster: whose reading of tables and choice of given rows they share.
        train: its training table.
        test: whole series that it has not seen.
        context: how many rows of each are given.
        split: `"forecast"` or `"interpolation"`, as in `Forecaster.evaluate`.

    Returns:
        A data frame whose column `transformed` tells the two apart; values that need no transform have no second one.
    """
    import pandas as pd

    both = [GaussianBaseline.learn(forecaster, train, transformed=transformed) for transformed in (False, True)]
    different = both if both[0].transforms != both[1].transforms else both[:1]
    found = [each.evaluate(test, context, split).assign(transformed=bool(i)) for i, each in enumerate(different)]
    return pd.concat(found, ignore_index=True)
