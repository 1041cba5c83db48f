"""An sktime forecaster (needs the `sktime` extra): a `Forecaster` for panels and forecasting horizons.

sktime forecasts what comes after the end of each series. The model learns from windows of the series, as long as the rows that
are given and those that are predicted together; for a forecast, the last rows of each series are given. Many series have one
window each; of few series, or one, there are several that overlap.
"""

from typing import Any, ClassVar

import numpy as np

from .forecaster import Forecaster
from .prediction_tables import quantile_name

try:
    import pandas as pd
    from sktime.datatypes import update_data
    from sktime.forecasting.base import BaseForecaster
except ImportError as error:
    raise ImportError("The adapter needs sktime: pip install 'odeprocess[sktime]'.") from error

MIN_WINDOW = 4  # rows; two are given then, the fewest that show a trend
INDEX = ["pd.DataFrame", "pd-multiindex", "pd_multiindex_hier"]


class ProcessForecaster(BaseForecaster):
    """Probabilistic forecasts for one series, panels and hierarchies of series, with missing values.

    Arguments:
        window: rows of a window; by default all rows of a series where there are `pieces` series, otherwise half of them.
        pieces: windows to learn from, at least, if the series are long enough.
        options: of `odeprocess.Forecaster`, such as `{"effort": "quick", "seed": 1}`.

    Attributes:
        forecaster_: the trained `Forecaster`.
        window_: rows of a window; half of them are given for a forecast.
    """

    _tags: ClassVar = {
        "authors": "odeprocess developers",
        "maintainers": "odeprocess developers",
        "y_inner_mtype": INDEX,
        "X_inner_mtype": INDEX,
        "capability:multivariate": True,
        "capability:exogenous": False,
        "capability:insample": False,
        "capability:pred_int": True,
        "capability:pred_int:insample": False,
        "capability:missing_values": True,
        "capability:update": True,
        "requires-fh-in-fit": False,
    }
    _config: ClassVar = {"remember_data": False}
    _cur_y: Any

    def __init__(self, window: int | None = None, pieces: int = 40, options: dict[str, Any] | None = None):
        self.window, self.pieces, self.options = window, pieces, options
        super().__init__()
        self._y = self._X = None  # where sktime keeps data of its own, should `remember_data` be turned on

    def _fit(self, y: Any, X: Any = None, fh: Any = None) -> "ProcessForecaster":
        self._cur_y, series = y, _split_series(y)
        rows = int(np.median([len(part) for _, part in series]))
        default = rows if len(series) >= self.pieces else max(MIN_WINDOW, rows // 2)
        self.window_ = default if self.window is None else self.window
        per_series, windows = -(-self.pieces // len(series)), []
        for _, part in series:
            last = max(len(part) - self.window_, 0)
            starts = np.unique(np.linspace(last, 0, per_series).astype(int))
            windows += [part.iloc[start : start + self.window_] for start in starts]
        values = [f"y{j}" for j in range(y.shape[1])]
        self.forecaster_ = Forecaster(**(self.options or {})).fit(_build_table(windows), "series", "time", values)
        return self

    def _update(self, y: Any, X: Any = None, update_params: bool = True) -> "ProcessForecaster":
        """Adds rows to those that forecasts are given; does not train again."""
        self._cur_y = update_data(self._cur_y, y)
        return self

    def _predict(self, fh: Any, X: Any = None) -> Any:
        predictions, index = self._forecast(fh, [])
        return pd.DataFrame(predictions["mean"].to_numpy().reshape(len(index), -1), index, self._cur_y.columns)

    def _predict_quantiles(self, fh: Any, X: Any, alpha: list[float]) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        predictions, index = self._forecast(fh, sorted(set(alpha)))
        columns = pd.MultiIndex.from_product([self._get_varnames(), alpha])
        values = np.stack([predictions[quantile_name(q)].to_numpy().reshape(len(index), -1) for q in alpha], -1)
        return pd.DataFrame(values.reshape(len(index), -1), index, columns)

    def _forecast(self, fh: Any, quantiles: list[float]) -> tuple[Any, Any]:
        """Returns predictions in the order of series, time and variable, and the index of series and time."""
        series, when = _split_series(self._cur_y), fh.to_absolute_index(self.cutoff)
        given = _build_table([part.iloc[-max(self.window_ // 2, 1) :] for _, part in series])
        each = np.repeat(np.arange(len(series)), len(when))
        asked = pd.DataFrame({"series": each, "time": np.tile(_to_numbers(when), len(series))})
        predictions = self.forecaster_.predict(given, asked, quantiles=quantiles)
        if self._cur_y.index.nlevels == 1:
            return predictions, when
        rows = [(*name, time) for name, _ in series for time in when]
        return predictions, pd.MultiIndex.from_tuples(rows, names=self._cur_y.index.names)

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> Any:
        """Returns options for sktime's checks: hardly any training, and few shapes of arrays to compile for."""
        sizes = {"l_dim": 2, "z_dim": 4, "h_dim": 8, "r_dim": 8}
        options = {"model": "ndp-skip", "options": {"epochs": 1, "em_epochs": 0}, "sizes": sizes, "held_out": 0, "draws": 8}
        options |= {"inference": "amortised", "verbose": False}
        return [{"window": 6, "pieces": 12, "options": options}, {"pieces": 2, "options": options}]


def _split_series(y: Any) -> list[tuple[Any, Any]]:
    """Returns the name of each series, and its rows indexed by time alone."""
    if y.index.nlevels == 1:
        return [((), y)]
    levels = list(range(y.index.nlevels - 1))
    return [(name, part.droplevel(levels)) for name, part in y.groupby(level=levels, sort=False)]


def _build_table(parts: list[Any]) -> pd.DataFrame:
    """Returns a long table of numbered series."""
    columns = {"series": np.repeat(np.arange(len(parts)), [len(part) for part in parts])}
    columns["time"] = np.concatenate([_to_numbers(part.index) for part in parts])
    values = np.concatenate([part.to_numpy(np.float64) for part in parts])
    return pd.DataFrame({**columns, **{f"y{j}": values[:, j] for j in range(values.shape[1])}})


def _to_numbers(index: pd.Index) -> np.ndarray:
    """Returns an index of times as numbers: days, periods, or what it counts; whole numbers keep all their digits."""
    if isinstance(index, pd.PeriodIndex):
        return index.astype("int64").to_numpy()
    if isinstance(index, pd.DatetimeIndex):
        return ((index.tz_localize(None) - pd.Timestamp(0)) / pd.Timedelta(days=1)).to_numpy(np.float64)
    return index.to_numpy() if pd.api.types.is_integer_dtype(index.dtype) else np.asarray(index, np.float64)
