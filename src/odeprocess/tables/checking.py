"""What is wrong with a table, said once and clearly: which column, which series, which row, and what to do."""

import difflib
from typing import Any

import numpy as np

from .. import checks
from .reading import Table

LARGEST, SMALLEST = 1e100, 1e-100  # of what can be squared, summed and divided without a second thought


class Places:
    """Names the places of a table in messages: column, series and row."""

    def __init__(self, table: Table, series: Any = None):
        self.table, self._series = table, series

    def at(self, column: str, row: Any) -> str:
        """Such as: data.csv, column `y`, series 'b', row 14."""
        who = "" if self._series is None else f", series {self._series[int(row)]!r}"
        return f"{self.table.source}, column `{column}`{who}, {self.table.row(row)}"

    def refuse(self, bad: np.ndarray, column: str, message: str) -> None:
        """Raises if any row is `bad`, naming the first and counting the others."""
        rows = np.flatnonzero(bad)
        if len(rows):
            more = f" ({len(rows)} rows in all)" if len(rows) > 1 else ""
            raise ValueError(f"{self.at(column, rows[0])}: {message}{more}")


def has_columns(table: Table, wanted: dict[str, str]) -> None:
    """Raises unless the columns are there; `wanted` says what each is for."""
    for name, role in wanted.items():
        if name not in table.names:
            near = difflib.get_close_matches(name, table.names, 1, 0.6)
            hint = f" Did you mean `{near[0]}`?" if near else ""
            raise ValueError(
                f"{table.source} has no column `{name}` ({role}); its columns are {', '.join(map(repr, table.names))}.{hint}"
            )
    checks.require(len(table) > 0, f"{table.source} has no rows beneath its header; expected a row for each measurement.")


def numbers(table: Table, column: str, places: Places) -> np.ndarray:
    """A column as float64, NaN where a cell is empty.

    Raises:
        ValueError: at text, and at infinities.
    """
    import pyarrow as pa

    cells = table.column(column)
    kind = cells.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        found = _parsed(cells, column, places)
    elif pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind) or pa.types.is_boolean(kind):
        found = cells.cast(pa.float64(), safe=False).fill_null(np.nan).to_numpy(zero_copy_only=False)
    elif pa.types.is_null(kind):
        found = np.full(len(cells), np.nan)
    else:
        raise ValueError(f"{places.at(column, 0)}: the column holds {_kind_name(kind)}; expected numbers.")
    places.refuse(np.isinf(found), column, "the value is infinite; expected a finite number, or an empty cell.")
    return found


def _parsed(cells: Any, column: str, places: Places) -> np.ndarray:
    texts = [None if text is None else text.strip() for text in cells.to_pylist()]
    found = np.full(len(texts), np.nan)
    for i, text in enumerate(texts):
        if text in (None, ""):
            continue
        try:
            found[i] = float(text) if "_" not in text else float("x")
        except ValueError:
            comma = " Decimals need a point, not a comma." if text.replace(",", ".", 1).replace(".", "", 1).isdigit() else ""
            raise ValueError(
                f"{places.at(column, i)}: {text[:40]!r} is not a number. Write a number, or leave the cell empty.{comma}"
            ) from None
    return found


def _kind_name(kind: Any) -> str:
    import pyarrow as pa

    if pa.types.is_temporal(kind):
        return "dates or times"
    return "lists" if pa.types.is_nested(kind) else f"{kind} cells"


def sensible_values(values: np.ndarray, column: str, places: Places) -> None:
    """Raises where a column of training values has nothing to learn, or a scale that arithmetic cannot bear."""
    seen = np.isfinite(values)
    checks.require(
        bool(seen.any()), f"{places.table.source}, column `{column}` is empty in every row; leave it out of the values."
    )
    places.refuse(
        np.abs(values) > LARGEST, column, f"the value is beyond ±{LARGEST:g}. Use a larger unit: divide the column first."
    )
    low, high = values[seen].min(), values[seen].max()
    checks.require(
        low < high,
        f"{places.at(column, np.flatnonzero(seen)[0])}: the value is {low:g} in every row: nothing to learn. Leave it out.",
    )
    checks.require(
        high - low > max(SMALLEST, 1e-12 * max(abs(low), abs(high))),
        f"{places.at(column, np.flatnonzero(seen)[0])}: all values lie between {low:.17g} and {high:.17g}, too close to be told "
        "apart. Subtract their mean, or use a smaller unit.",
    )


def sensible_times(t: np.ndarray, column: str, places: Places) -> None:
    """Raises where the times of training series say nothing, or are too large."""
    places.refuse(np.abs(t) > LARGEST, column, f"the time is beyond ±{LARGEST:g}. Use a larger unit: divide the column first.")
    checks.require(
        t.max() > t.min(),
        f"{places.at(column, 0)}: every series has one time only, so there is nothing that moves. Is this the time column?",
    )
    checks.require(
        t.max() - t.min() > SMALLEST, f"{places.at(column, 0)}: all times lie within {SMALLEST:g}. Use a smaller unit."
    )
