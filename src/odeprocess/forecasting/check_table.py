"""What is wrong with a table, said once and clearly: which column, which series, which row, and what to do."""

import difflib
from typing import Any

import numpy as np

from odeprocess.common import checks

from . import column_types
from .message_text import column_name, cut, listed, quoted
from .parse_text import as_number, as_numbers
from .read_table import Table

LARGEST, SMALLEST = 1e100, 1e-100  # of what can be squared, summed and divided without a second thought


class CellPlaces:
    """Names the places of a table in messages: column, series and row."""

    def __init__(self, table: Table, series: Any = None):
        self.table, self._series = table, series

    def at(self, column: str, row: Any) -> str:
        """Such as: data.csv, column `y`, series 'b', row 14."""
        who = "" if self._series is None else f", series {quoted(self._series[int(row)])}"
        return f"{self.table.source}, {column_name(column)}{who}, {self.table.row(row)}"

    def require(self, good: Any, column: str, row: Any, message: str) -> None:
        """Raises unless all is good, naming a place; finding out what a row is called takes long, so it waits until then."""
        if not good:
            raise ValueError(f"{self.at(column, row)}: {message}")

    def refuse(self, bad: np.ndarray, column: str, message: str) -> None:
        """Raises if any row is `bad`, naming the first and counting the others."""
        rows = np.flatnonzero(bad)
        if len(rows):
            more = f" ({len(rows):,} rows in all)" if len(rows) > 1 else ""
            raise ValueError(f"{self.at(column, rows[0])}: {message}{more}")


def has_columns(table: Table, wanted: dict[str, str]) -> None:
    """Raises unless the columns are there; `wanted` says what each is for."""
    for name, role in wanted.items():
        if name not in table:
            near = _nearest(name, table)
            hint = f" Did you mean `{cut(near)}`?" if near is not None else ""
            raise ValueError(f"{table.source} has no {column_name(name)} ({role}); {its_columns(table)}.{hint}")
    checks.require(len(table) > 0, f"{table.source} has no rows beneath its header; expected a row for each measurement.")


def its_columns(table: Table) -> str:
    """What the columns of a table are, for a message."""
    return f"its columns are {listed(table.names)}" if table.names else "it has no columns at all"


def _nearest(name: str, table: Table) -> str | None:
    """The column that was meant, perhaps: of very many only the first are looked at, since that takes long."""
    like = name.strip().lower()
    same = next((other for other in table.names if other.strip().lower() == like), None)
    near = [other for other in table.names[:1000] if len(other) <= 100]
    return same if same is not None else next(iter(difflib.get_close_matches(name[:100], near, 1, 0.6)), None)


def numbers(table: Table, column: str, places: CellPlaces) -> np.ndarray:
    """A column as float64, NaN where a cell is empty.

    Raises:
        ValueError: at text, and at infinities.
    """
    import pyarrow as pa

    given = table.column(column)
    kind = given.type
    if column_types.is_text(kind):
        found = _parsed(table.text(column), column, places)
    elif pa.types.is_decimal(kind):
        found = _parsed(given.cast(pa.string()), column, places)  # the nearest float64, which Arrow's own cast may miss
    elif column_types.is_number(kind) or pa.types.is_boolean(kind):
        found = given.cast(pa.float64(), safe=False).fill_null(np.nan).to_numpy(zero_copy_only=False)
    elif pa.types.is_null(kind):
        found = np.full(len(given), np.nan)
    else:
        raise ValueError(f"{places.at(column, 0)}: the column holds {column_types.kind_name(kind)}; expected numbers.")
    message = "the value is infinite, or beyond what a float64 can hold; expected a finite number, or an empty cell."
    places.refuse(np.isinf(found), column, message)
    return found


def _parsed(texts: Any, column: str, places: CellPlaces) -> np.ndarray:
    """Trimmed text as numbers."""
    found = as_numbers(texts)
    if found is not None:
        return found.fill_null(np.nan).to_numpy(zero_copy_only=False)
    for i, text in enumerate(texts.to_pylist()):
        if text is not None and as_number(text) is None:
            comma = " Decimals need a point, not a comma." if text.replace(",", ".", 1).replace(".", "", 1).isdigit() else ""
            raise ValueError(
                f"{places.at(column, i)}: {quoted(text, 40)} is not a number. Write a number, or leave the cell empty.{comma}"
            )
    return np.array([np.nan if text is None else as_number(text) for text in texts.to_pylist()], np.float64)


def sensible_values(values: np.ndarray, column: str, places: CellPlaces) -> None:
    """Raises where a column of training values has nothing to learn, or a scale that arithmetic cannot bear."""
    seen = np.isfinite(values)
    checks.require(
        bool(seen.any()), f"{places.table.source}, {column_name(column)} is empty in every row; leave it out of the values."
    )
    places.refuse(
        np.abs(values) > LARGEST, column, f"the value is beyond ±{LARGEST:g}. Use a larger unit: divide the column first."
    )
    low, high, first = float(values[seen].min()), float(values[seen].max()), np.flatnonzero(seen)[0]
    places.require(low < high, column, first, f"the value is {low:g} in every row: nothing to learn. Leave it out.")
    places.require(
        high - low > max(SMALLEST, 1e-12 * max(abs(low), abs(high))),
        column,
        first,
        f"all values lie between {low!r} and {high!r}, too close to be told apart. Subtract their mean, or use a smaller unit.",
    )


def sensible_times(t: np.ndarray, column: str, places: CellPlaces) -> None:
    """Raises where the times of training series say nothing, or are too large."""
    places.refuse(np.abs(t) > LARGEST, column, f"the time is beyond ±{LARGEST:g}. Use a larger unit: divide the column first.")
    still = "every series has one time only, so there is nothing that moves. Is this the time column?"
    places.require(t.max() > t.min(), column, 0, still)
    places.require(t.max() - t.min() > SMALLEST, column, 0, f"all times lie within {SMALLEST:g}. Use a smaller unit.")
