"""The baseline for a `Forecaster`: Gaussian processes on a table, fitted to each series and column by itself.

They are given the same rows and scored on the same values. From the training table they use the range of times, and the mean and
standard deviation of each column.
"""

import dataclasses
from typing import Any

import numpy as np
from scipy.special import ndtri

from odeprocess.common import scores
from odeprocess.forecasting.evaluate import given_rows
from odeprocess.forecasting.forecaster import Forecaster
from odeprocess.forecasting.read_table import read
from odeprocess.forecasting.rows import TableRows
from odeprocess.forecasting.table_layout import Layout
from odeprocess.forecasting.transforms import Transform

from .gaussian_processes import predict_each_series

SCORES = ("mse", "nll", "crps", "coverage")
NOISE_FLOOR = 1e-3  # least standard deviation of the noise, in scaled units; chosen by hand
DRAWS = 500  # evenly spaced quantiles that stand for draws in the CRPS
LEVEL = 0.9  # of the intervals whose coverage is scored; as in `Forecaster.evaluate`


@dataclasses.dataclass(frozen=True, eq=False)
class GaussianProcessBaseline:
    """Gaussian processes that read tables in the same way as a forecaster.

    Attributes:
        layout: the roles of the columns.
        transforms: of each column's values, applied before scaling.
        shift: mean of each column's transformed values.
        scale: their standard deviation.
        span: first and last time.
        seed: of the forecaster; it determines which rows `evaluate` gives.
    """

    layout: Layout
    transforms: tuple[Transform, ...]
    shift: np.ndarray
    scale: np.ndarray
    span: tuple[float, float]
    seed: int

    @classmethod
    def from_training_table(cls, forecaster: Forecaster, table: Any, *, transformed: bool = False) -> "GaussianProcessBaseline":
        """Scales by a forecaster's training table; with `transformed` after the forecaster's transforms of values."""
        layout = forecaster.layout_
        long = layout.read(read(table))
        transforms = layout.transforms if transformed else (Transform(),) * len(layout.transforms)
        x = _transform(transforms, long.values)
        span = float(long.t.min()), float(long.t.max())
        return cls(layout, transforms, np.nanmean(x, 0), np.nanstd(x, 0), span, forecaster.seed)

    def predict(self, table: Any, times: Any, quantiles: tuple[float, ...] = (0.05, 0.5, 0.95)) -> Any:
        """Quantiles for every series of a table at the same times after its origin: a data frame like the forecaster's."""
        import pandas as pd

        long = self.layout.read(read(table))
        asked, columns, frames = np.asarray(times, np.float64), self.layout.columns, []
        normals = self._predict_normals(long, long.observed, [asked] * len(long))
        for i, (mean, std) in enumerate(normals):
            when = self.layout.clock.to_arrow(self.layout.clock.after(long.origins[np.full(len(asked), i)], asked)).to_pylist()
            for j, name in enumerate(columns.values):
                found = {f"q{q:g}": self._to_user(mean[:, j] + ndtri(q) * std[:, j], j) for q in quantiles}
                frames.append(pd.DataFrame({columns.series: long.name(i), columns.time: when, "variable": name, **found}))
        return pd.concat(frames, ignore_index=True)

    def evaluate(self, table: Any, context: int, split: str) -> Any:
        """A data frame like that of `Forecaster.evaluate(…, by="series")`: scores, with a row for each series."""
        import pandas as pd

        long = self.layout.read(read(table))
        index, given, asked = given_rows(long, context, split, self.seed)
        normals = self._predict_normals(long, given, [long.t[rows] for rows in asked])
        rows = []
        for i, some, (mean, std) in zip(index, asked, normals, strict=True):
            each = [self._score(mean[:, j], std[:, j], long.values[some, j], j) for j in range(mean.shape[1])]
            means = np.concatenate(each, 1).mean(1)
            rows.append({self.layout.columns.series: long.name(i), **dict(zip(SCORES, means, strict=True))})
        return pd.DataFrame(rows)

    def _predict_normals(
        self, long: TableRows, given: list[np.ndarray], times: list[np.ndarray]
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """Mean and standard deviation of measurements of each series, in scaled units, `[times, channels]` each."""
        low, high = self.span
        most, longest = max(map(len, given)), max(map(len, times))
        x = (_transform(self.transforms, long.values) - self.shift) / self.scale
        t, at = np.zeros((len(given), most)), np.zeros((len(given), longest))
        y = np.full((len(given), most, x.shape[1]), np.nan)
        for i, (rows, asked) in enumerate(zip(given, times, strict=True)):
            t[i, : len(rows)], y[i, : len(rows)], at[i, : len(asked)] = long.t[rows], x[rows], asked
        curve = predict_each_series(4 * (t - low) / (high - low) - 2, y, 4 * (at - low) / (high - low) - 2)
        std = np.sqrt(curve.std**2 + np.maximum(curve.noise, NOISE_FLOOR) ** 2)
        return [(curve.mean[i, : len(asked)], std[i, : len(asked)]) for i, asked in enumerate(times)]

    def _to_user(self, x: np.ndarray, channel: int) -> np.ndarray:
        return self.transforms[channel].inverse(x * self.scale[channel] + self.shift[channel])

    def _score(self, mean: np.ndarray, std: np.ndarray, truth: np.ndarray, channel: int) -> np.ndarray:
        """Scores `[score, values]` of the values that are not missing, in the user's units."""
        seen = np.isfinite(truth)
        mean, std, truth = mean[seen], std[seen], truth[seen]
        transform, shift, scale = self.transforms[channel], self.shift[channel], self.scale[channel]
        scaled = (transform.forward(truth) - shift) / scale
        levels = (np.arange(DRAWS) + 0.5) / DRAWS
        drawn = self._to_user(mean + std * ndtri(levels)[:, None], channel)
        centre, _ = transform.moments((mean * scale + shift)[None], (std * scale)[None])
        nll = -scores.log_density_normal(mean, std, scaled) + np.log(scale) - transform.log_slope(truth)
        covered = scores.coverage(*scores.normal_interval(mean, std, LEVEL), scaled)
        return np.stack([(centre - truth) ** 2, nll, scores.crps_draws(drawn[None], truth[None])[0], covered])


def _transform(transforms: tuple[Transform, ...], values: np.ndarray) -> np.ndarray:
    return np.stack([each.forward(values[:, j]) for j, each in enumerate(transforms)], -1)


def score_gaussian_processes(forecaster: Forecaster, train: Any, test: Any, context: int, split: str = "forecast") -> Any:
    """Scores Gaussian processes on a test table, on untransformed and on transformed values, with a row for each series.

    Arguments:
        forecaster: a trained forecaster; its columns, transforms and choice of given rows are used.
        train: its training table.
        test: series that are not in the training table.
        context: how many rows of each are given.
        split: `"forecast"` or `"interpolation"`, as in `Forecaster.evaluate`.

    Returns:
        A data frame whose column `transformed` tells the two apart; without transforms there is only the first.
    """
    import pandas as pd

    both = [
        GaussianProcessBaseline.from_training_table(forecaster, train, transformed=transformed) for transformed in (False, True)
    ]
    different = both if both[0].transforms != both[1].transforms else both[:1]
    found = [each.evaluate(test, context, split).assign(transformed=bool(i)) for i, each in enumerate(different)]
    return pd.concat(found, ignore_index=True)
