"""Answers as long tables: one row a series, time and variable."""

from typing import Any

import numpy as np

from .predict import AskedTimes, Predictor
from .rows import TableRows
from .table_layout import Layout
from .user_units import UserUnits


def predictions(
    predictor: Predictor, layout: Layout, long: TableRows, times: AskedTimes, quantiles: list[float], advance: Any
) -> Any:
    """Mean, standard deviation and quantiles of new measurements, as an Arrow table."""
    import pyarrow as pa

    spots = _Spots(long, times, len(layout.columns.values))
    found, units = np.full((2 + len(quantiles), spots.size, spots.channels), np.nan), UserUnits.of_layout(layout)
    for part, posterior, asked in predictor.chunks(long, np.arange(len(long)), long.observed, times.t):
        x = np.stack([*units.moments(posterior, asked), *units.quantiles(posterior, asked, quantiles)])
        for k, i in enumerate(part):
            found[:, spots.of(i)] = x[:, k, : len(times.t[i])]
        advance(len(part))
    names = ["mean", "std", *(quantile_name(q) for q in quantiles)]
    columns = {name: pa.array(values.reshape(-1)) for name, values in zip(names, found, strict=True)}
    return pa.table({**spots.columns(layout), **columns})


def draws(predictor: Predictor, layout: Layout, long: TableRows, times: AskedTimes, n: int, of: Any) -> Any:
    """Draws of measurements or of functions, as an Arrow table with a column `draw`."""
    import pyarrow as pa

    spots = _Spots(long, times, len(layout.columns.values))
    found, units = np.full((spots.size, spots.channels, n), np.nan), UserUnits.of_layout(layout)
    for part, posterior, asked in predictor.chunks(long, np.arange(len(long)), long.observed, times.t):
        x = np.moveaxis(units.sample(posterior, asked, n, of), 1, -1)
        for k, i in enumerate(part):
            found[spots.of(i)] = x[k, : len(times.t[i])]
    columns = spots.columns(layout, repeats=n)
    number = np.tile(np.arange(n), spots.size * spots.channels)
    return pa.table({**columns, "draw": pa.array(number), "value": pa.array(found.reshape(-1))})


def observations(layout: Layout, long: TableRows) -> Any:
    """The rows that were given, as an Arrow table: series, time and values."""
    import pyarrow as pa

    who = np.repeat(np.arange(len(long)), np.diff(long.starts))
    columns = {
        layout.columns.series: long.names.take(pa.array(who)),
        layout.columns.time: layout.clock.to_arrow(long.when),
    }
    return pa.table(columns | {name: pa.array(long.values[:, j]) for j, name in enumerate(layout.columns.values)})


def quantile_name(q: float) -> str:
    """What the column of a quantile is called: with all digits, so that no two share a column."""
    return f"q{float(q)!r}"


class _Spots:
    """Where the answers of each series stand: series in the order in which the table names them."""

    def __init__(self, long: TableRows, times: AskedTimes, channels: int):
        self.long, self.times, self.channels = long, times, channels
        self.order = long.appearance
        counts = np.array([len(times.t[i]) for i in self.order])
        self.starts = np.zeros(len(long), np.int64)
        self.starts[self.order] = np.cumsum(counts) - counts
        self.size = int(counts.sum())

    def of(self, i: int) -> slice:
        """The rows of series `i`."""
        return slice(self.starts[i], self.starts[i] + len(self.times.t[i]))

    def columns(self, layout: Layout, repeats: int = 1) -> dict[str, Any]:
        """Series, time and variable of each row."""
        import pyarrow as pa

        lengths = [len(t) for t in self.times.t]
        begins = np.cumsum([0, *lengths]).tolist()
        who = np.repeat(self.order, [lengths[i] for i in self.order])
        rows = [np.arange(begins[i], begins[i + 1]) for i in self.order]
        time = layout.clock.to_arrow(self.times.when[np.concatenate(rows)])
        each = np.repeat(np.arange(self.size), self.channels * repeats)
        variables = np.tile(np.repeat(np.arange(self.channels), repeats), self.size)
        named = pa.DictionaryArray.from_arrays(pa.array(variables, pa.int32()), pa.array(layout.columns.values))
        series = self.long.names.take(pa.array(who)).take(pa.array(each))
        return {
            layout.columns.series: series,
            layout.columns.time: time.take(pa.array(each)),
            "variable": named.dictionary_decode(),
        }
