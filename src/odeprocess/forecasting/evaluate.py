"""How good predictions are on a table: some rows of each series are given, the others are predicted and scored."""

from typing import Any, Literal

import numpy as np

from odeprocess.common import checks
from odeprocess.common.scores import coverage, crps_draws
from odeprocess.posterior.series_keys import hash_name

from .predict import Predictor
from .rows import TableRows
from .table_layout import Layout
from .user_units import UserUnits

Split = Literal["interpolation", "forecast"]
SPLITS = ("interpolation", "forecast")
SCORES = ("mse", "mae", "nll", "crps", "coverage")
LEVEL = 0.9


def given_rows(long: TableRows, context: int, split: str, seed: int) -> tuple[np.ndarray, list[np.ndarray], list[np.ndarray]]:
    """The series that have something left to predict, the rows of each that are given, and those that are not."""
    checks.choice("split", split, SPLITS)
    checks.require(
        isinstance(context, (int, np.integer)) and context >= 0,
        f"`context` is {checks.shown(context)}; expected a whole number, 0 or more.",
    )
    index, given, asked = [], [], []
    for i, rows in enumerate(long.observed):
        if len(rows) > context:
            # A series is cut in the same way whoever else is in the table.
            shuffled = np.random.default_rng([seed, hash_name(long.name(i))]).permutation(len(rows))
            order = shuffled if split == "interpolation" else np.arange(len(rows))
            index.append(i)
            given.append(rows[np.sort(order[:context])])
            asked.append(rows[np.sort(order[context:])])
    checks.require(
        bool(index),
        f"No series of {long.table.source} has more than {context} rows with a value, so nothing is left to predict. "
        "Use a smaller `context` (--context).",
    )
    return np.array(index), given, asked


def scores(predictor: Predictor, layout: Layout, long: TableRows, context: int, split: str, seed: int) -> dict[str, np.ndarray]:
    """Each score of each predicted value, NaN where there is none, `[rows, channels]`, in the user's units; and its series."""
    index, given, asked = given_rows(long, context, split, seed)
    starts = np.cumsum([0] + [len(rows) for rows in asked])
    found = {name: np.full((starts[-1], long.y.shape[1]), np.nan) for name in SCORES}
    for part, posterior, t in predictor.chunks(long, index, given, [long.t[rows] for rows in asked]):
        truth, x = (np.full((*t.shape, long.y.shape[1]), np.nan) for _ in range(2))
        for k, i in enumerate(part):
            truth[k, : len(asked[i])], x[k, : len(asked[i])] = long.values[asked[i]], long.y[asked[i]]
        each = _each(posterior, layout, t, truth, x)
        for k, i in enumerate(part):
            for name in SCORES:
                found[name][starts[i] : starts[i + 1]] = each[name][k, : len(asked[i])]
    return {**found, "series": np.repeat(index, np.diff(starts))}


def _each(posterior: Any, layout: Layout, t: np.ndarray, truth: np.ndarray, x: np.ndarray) -> dict[str, np.ndarray]:
    units, seen = UserUnits.of_layout(layout), np.isfinite(truth)
    mean, _ = units.moments(posterior, t)
    low, high = units.interval(posterior, t, LEVEL)
    log_prob = np.asarray(posterior.log_prob(t, x, joint=False), np.float64) + units.log_slope(truth)
    values = {
        "mse": (truth - mean) ** 2,
        "mae": np.abs(truth - units.to_user(posterior.quantile(t, 0.5))),
        "nll": -log_prob,
        "crps": crps_draws(units.sample(posterior, t), truth),
        "coverage": coverage(low, high, truth),
    }
    return {name: np.where(seen, value, np.nan) for name, value in values.items()}


def summary(layout: Layout, by_split: dict[str, dict[str, np.ndarray]]) -> Any:
    """The scores as an Arrow table: a row for each split and variable, averaged over values."""
    import pyarrow as pa

    rows: list[dict[str, Any]] = []
    for split, found in by_split.items():
        for j, name in enumerate(layout.columns.values):
            means = {
                score: float(np.nanmean(found[score][:, j])) if np.isfinite(found[score][:, j]).any() else None
                for score in SCORES
            }
            rows.append({"split": split, "variable": name, **means, "values": int(np.isfinite(found["mse"][:, j]).sum())})
    return pa.Table.from_pylist(rows)


def by_series(layout: Layout, long: TableRows, by_split: dict[str, dict[str, np.ndarray]]) -> Any:
    """The same for each series by itself, over all its values."""
    import pyarrow as pa

    tables = []
    for split, found in by_split.items():
        index, place = np.unique(found["series"], return_inverse=True)
        counts = np.zeros(len(index))
        sums = {score: np.zeros(len(index)) for score in SCORES}
        np.add.at(counts, place, np.isfinite(found["mse"]).sum(-1))
        for score in SCORES:
            np.add.at(sums[score], place, np.nansum(found[score], -1))
        columns = {"split": pa.array([split] * len(index)), layout.columns.series: long.names.take(pa.array(index))}
        columns |= {score: pa.array(sums[score] / counts) for score in SCORES}
        tables.append(pa.table({**columns, "values": pa.array(counts.astype(np.int64))}))
    return pa.concat_tables(tables)
