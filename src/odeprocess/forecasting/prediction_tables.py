"""Answers as long tables: one row a series, time and variable."""

from typing import Any

import numpy as np

from odeprocess.posterior.posterior import Posterior

from .predict import AskedTimes, Predictor
from .rows import TableRows
from .table_layout import Layout
from .transforms import Transform


def predictions(
    predictor: Predictor, layout: Layout, long: TableRows, times: AskedTimes, quantiles: list[float], advance: Any
) -> Any:
    """Mean, standard deviation and quantiles of new measurements, as an Arrow table."""
    import pyarrow as pa

    spots = _Spots(long, times, len(layout.columns.values))
    found = np.full((2 + len(quantiles), spots.size, spots.channels), np.nan)
    for part, posterior, asked in predictor.chunks(long, np.arange(len(long)), long.observed, times.t):
        x = np.stack([*moments(posterior, asked, layout.transforms), *_quantiles(posterior, asked, quantiles, layout.transforms)])
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
    found = np.full((spots.size, spots.channels, n), np.nan)
    for part, posterior, asked in predictor.chunks(long, np.arange(len(long)), long.observed, times.t):
        x = np.moveaxis(np.asarray(posterior.sample(asked, n, of=of), np.float64), 1, -1)
        for k, i in enumerate(part):
            found[spots.of(i)] = x[k, : len(times.t[i])]
    for j, transform in enumerate(layout.transforms):
        found[:, j] = transform.inverse(found[:, j])
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


def moments(posterior: Posterior, times: np.ndarray, transforms: tuple[Transform, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of new measurements in the user's units, `[series, m, channels]` each."""
    curves = np.asarray(posterior.sample(times, of="function"), np.float64)
    inside, whole = (np.asarray(posterior.std(times, of=of), np.float64) for of in ("function", "observations"))
    noise = np.sqrt(np.maximum(whole**2 - inside**2, 0.0))
    pairs = [transform.moments(np.moveaxis(curves[..., j], 1, 0), noise[None, ..., j]) for j, transform in enumerate(transforms)]
    mean, std = (np.stack(x, -1) for x in zip(*pairs, strict=True))
    return mean, std


def _quantiles(posterior: Posterior, times: np.ndarray, levels: list[float], transforms: tuple[Transform, ...]) -> np.ndarray:
    if not levels:
        return np.zeros((0, *times.shape, len(transforms)))
    found = np.asarray(posterior.quantile(times, levels), np.float64)
    return np.stack([transform.inverse(found[..., j]) for j, transform in enumerate(transforms)], -1)


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
