"""Checks of tables. Their errors name the column, the series and the row, and say what to do."""

import difflib
from collections.abc import Sequence
from typing import Any

import numpy as np

from odeprocess.common import checks

from .message_text import join_names, name_column, quote, shorten
from .read_table import Table
from .table_limits import MAX_MAGNITUDE, MIN_RANGE


class CellPlaces:
    """Raises errors that name a cell: its column, series and row.

    Arguments:
        table: the table.
        names: of the series, an Arrow array, if they are known.
        codes: the series of each row, as places in `names`.
    """

    def __init__(self, table: Table, names: Any = None, codes: np.ndarray | None = None):
        self.table, self._names, self._codes = table, names, codes

    def at(self, column: str, row: Any) -> str:
        """Returns the name of a cell, such as: data.csv, column `y`, series 'b', row 14."""
        series = "" if self._codes is None else f", series {quote(self._names[int(self._codes[int(row)])].as_py())}"
        return f"{self.table.source}, {name_column(column)}{series}, {self.table.row(row)}"

    def require(self, good: Any, column: str, row: Any, message: str) -> None:
        """Raises unless `good`; the cell is named only then, since finding its line reads the file again."""
        if not good:
            raise ValueError(f"{self.at(column, row)}: {message}")

    def refuse(self, bad: np.ndarray, column: str, message: str) -> None:
        """Raises if any row is `bad`; names the first, and counts them."""
        rows = np.flatnonzero(bad)
        if len(rows):
            more = f" ({len(rows):,} rows in all)" if len(rows) > 1 else ""
            raise ValueError(f"{self.at(column, rows[0])}: {message}{more}")


def require_columns(table: Table, roles: dict[str, str]) -> None:
    """Raises unless a table has rows and these columns; `roles` says what each is for."""
    for name, role in roles.items():
        if name not in table:
            similar = _find_similar(name, table)
            hint = f" Did you mean `{shorten(similar)}`?" if similar is not None else ""
            raise ValueError(f"{table.source} has no {name_column(name)} ({role}); {describe_columns(table)}.{hint}")
    checks.require(len(table) > 0, f"{table.source} has no rows beneath its header; expected a row for each measurement.")


def describe_columns(table: Table) -> str:
    """Returns the names of a table's columns, for a message."""
    return f"its columns are {join_names(table.names)}" if table.names else "it has no columns at all"


def _find_similar(name: str, table: Table) -> str | None:
    """Returns the column that was probably meant; only the first 1000 are compared, since that is slow."""
    lower = name.strip().lower()
    same = next((other for other in table.names if other.strip().lower() == lower), None)
    near = [other for other in table.names[:1000] if len(other) <= 100]
    return same if same is not None else next(iter(difflib.get_close_matches(name[:100], near, 1, 0.6)), None)


def check_magnitude(x: np.ndarray, column: str, places: CellPlaces, what: str) -> None:
    """Raises where a number is too large to be squared and summed."""
    message = f"the {what} ±{MAX_MAGNITUDE:g}. Use a larger unit: divide the column first."
    places.refuse(np.abs(x) > MAX_MAGNITUDE, column, message)


def check_values(values: np.ndarray, column: str, places: CellPlaces) -> None:
    """Raises where a column of training values is empty, constant, or varies by little more than rounding errors."""
    seen = np.isfinite(values)
    checks.require(
        bool(seen.any()), f"{places.table.source}, {name_column(column)} is empty in every row; leave it out of the values."
    )
    low, high, first = float(values[seen].min()), float(values[seen].max()), np.flatnonzero(seen)[0]
    places.require(low < high, column, first, f"the value is {low:g} in every row: nothing to learn. Leave it out.")
    places.require(
        high - low > max(MIN_RANGE, 1e-12 * max(abs(low), abs(high))),  # some 5000 roundings of float64
        column,
        first,
        f"all values lie between {low!r} and {high!r}, too close to be told apart. Subtract their mean, or use a smaller unit.",
    )


def check_times(t: np.ndarray, column: str, places: CellPlaces) -> None:
    """Raises where all times of the training series are the same, or nearly so."""
    same = "every series has one time only, so no change can be learned. Is this the time column?"
    places.require(t.max() > t.min(), column, 0, same)
    places.require(t.max() - t.min() > MIN_RANGE, column, 0, f"all times lie within {MIN_RANGE:g}. Use a smaller unit.")


def check_duplicate_times(codes: np.ndarray, keys: np.ndarray, order: np.ndarray, column: str, places: CellPlaces) -> None:
    """Raises where a series has two rows of one time.

    Arguments:
        codes: the series of each row.
        keys: numbers in the order of the times.
        order: the rows, sorted by series and time.
        column: the column of times.
        places: names the rows.
    """
    codes, keys = codes[order], keys[order]
    same = np.flatnonzero((codes[1:] == codes[:-1]) & (keys[1:] == keys[:-1]))
    if len(same):
        first, second = sorted((order[same[0]], order[same[0] + 1]))
        more = f" ({len(same)} such rows in all)" if len(same) > 1 else ""
        raise ValueError(
            f"{places.at(column, second)}: the series has this time already in {places.table.row(first)}{more}. Drop one or "
            "average them; to keep both, pass ties='keep' (--ties keep)."
        )


def check_series_lengths(
    counts: np.ndarray, first_rows: np.ndarray, series: str, values: Sequence[str], min_points: int, places: CellPlaces
) -> None:
    """Raises where a training series has too few rows with a value, or the table has one series only.

    Arguments:
        counts: the rows with a value, by series.
        first_rows: the first row of each series.
        series: the column of their names.
        values: the columns of values.
        min_points: rows with a value that each must have.
        places: names the rows.
    """
    what = "` or `".join(values[:3])
    for i in np.flatnonzero(counts == 0)[:1]:
        raise ValueError(f"{places.at(what, first_rows[i])}: the series has no value at all. Leave it out.")
    for i in np.flatnonzero(counts < min_points)[:1]:
        raise ValueError(
            f"{places.at(what, first_rows[i])}: the series has {counts[i]} row(s) with a value; expected {min_points} or more "
            f"({np.sum(counts < min_points):,} such series). Leave them out, or set min_points={counts.min()} (--min-points "
            f"{counts.min()})."
        )
    only = "this is the only series. A model learns from many: expected two or more, and five are better."
    places.require(len(counts) > 1, series, first_rows[0], only)
