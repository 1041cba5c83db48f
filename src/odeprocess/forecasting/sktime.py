"""An sktime forecaster (needs the `sktime` extra): a `Forecaster` behind the contract of panels and forecasting horizons.

sktime asks for what comes after the end of each series. So the model learns from pieces of the series, as long as what is
given and what is asked together, and is given the last rows of each. A panel of many series gives a piece each; few series,
or one, give several that overlap.
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

LEAST_ROWS = 4  # of a piece
INDEX = ["pd.DataFrame", "pd-multiindex", "pd_multiindex_hier"]


class ProcessForecaster(BaseForecaster):
    """Probabilistic forecasts for one series, panels and hierarchies of series, with missing values.

    Arguments:
        window: rows of a piece; by default all rows of a series where there are `pieces` of them, or half as many.
        pieces: how many to learn from, at least, if the series are long enough.
        options: of `odeprocess.Forecaster`, such as `{"epochs": 20, "seed": 1}`.

    Attributes:
        forecaster_: the `Forecaster` that was trained.
        window_: rows of a piece; half of them are given for a forecast.
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
        self._cur_y, parts = y, _series_of(y)
        usual = int(np.median([len(part) for _, part in parts]))
        chosen = usual if len(parts) >= self.pieces else max(LEAST_ROWS, usual // 2)
        self.window_ = chosen if self.window is None else self.window
        each, cut = -(-self.pieces // len(parts)), []
        for _, part in parts:
            last = max(len(part) - self.window_, 0)
            starts = np.unique(np.linspace(last, 0, each).astype(int))
            cut += [part.iloc[start : start + self.window_] for start in starts]
        values = [f"y{j}" for j in range(y.shape[1])]
        self.forecaster_ = Forecaster(**(self.options or {})).fit(_table(cut), "series", "time", values)
        return self

    def _update(self, y: Any, X: Any = None, update_params: bool = True) -> "ProcessForecaster":
        """New rows are given to the model; it is not trained again."""
        self._cur_y = update_data(self._cur_y, y)
        return self

    def _predict(self, fh: Any, X: Any = None) -> Any:
        found, index = self._answers(fh, [])
        return pd.DataFrame(found["mean"].to_numpy().reshape(len(index), -1), index, self._cur_y.columns)

    def _predict_quantiles(self, fh: Any, X: Any, alpha: list[float]) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        found, index = self._answers(fh, sorted(set(alpha)))
        columns = pd.MultiIndex.from_product([self._get_varnames(), alpha])
        values = np.stack([found[quantile_name(q)].to_numpy().reshape(len(index), -1) for q in alpha], -1)
        return pd.DataFrame(values.reshape(len(index), -1), index, columns)

    def _answers(self, fh: Any, quantiles: list[float]) -> tuple[Any, Any]:
        """Predictions in order of series, time and variable, and the index of series and time."""
        parts, when = _series_of(self._cur_y), fh.to_absolute_index(self.cutoff)
        given = _table([part.iloc[-max(self.window_ // 2, 1) :] for _, part in parts])
        asked = pd.DataFrame({"series": np.repeat(np.arange(len(parts)), len(when)), "time": np.tile(_clock(when), len(parts))})
        found = self.forecaster_.predict(given, asked, quantiles=quantiles)
        if self._cur_y.index.nlevels == 1:
            return found, when
        rows = [(*name, time) for name, _ in parts for time in when]
        return found, pd.MultiIndex.from_tuples(rows, names=self._cur_y.index.names)

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> Any:
        """Options for sktime's checks: hardly any training, and tables of the same shape whatever the panel."""
        sizes = {"l_dim": 2, "z_dim": 4, "h_dim": 8, "r_dim": 8}
        options = {"epochs": 1, "em_epochs": 0, "held_out": 0, "draws": 8, "refine": False, "sizes": sizes, "verbose": False}
        return [{"window": 6, "pieces": 12, "options": options}, {"pieces": 2, "options": options}]


def _series_of(y: Any) -> list[tuple[Any, Any]]:
    """The name of each series, and its rows by time alone."""
    if y.index.nlevels == 1:
        return [((), y)]
    levels = list(range(y.index.nlevels - 1))
    return [(name, part.droplevel(levels)) for name, part in y.groupby(level=levels, sort=False)]


def _table(parts: list[Any]) -> pd.DataFrame:
    """A long table, its series numbered."""
    columns = {"series": np.repeat(np.arange(len(parts)), [len(part) for part in parts])}
    columns["time"] = np.concatenate([_clock(part.index) for part in parts])
    values = np.concatenate([part.to_numpy(np.float64) for part in parts])
    return pd.DataFrame({**columns, **{f"y{j}": values[:, j] for j in range(values.shape[1])}})


def _clock(index: pd.Index) -> np.ndarray:
    """Times as numbers: days, periods, or whatever the index counts; whole numbers keep all their digits."""
    if isinstance(index, pd.PeriodIndex):
        return index.astype("int64").to_numpy()
    if isinstance(index, pd.DatetimeIndex):
        return ((index.tz_localize(None) - pd.Timestamp(0)) / pd.Timedelta(days=1)).to_numpy(np.float64)
    return index.to_numpy() if pd.api.types.is_integer_dtype(index.dtype) else np.asarray(index, np.float64)
