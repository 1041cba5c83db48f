"""The column that names the series: what may be a name, and which series each row belongs to."""

import math
from typing import Any

import numpy as np

from . import arrow as pa
from .check_table import CellPlaces
from .column_types import describe_type, is_date, is_number, is_text
from .message_text import quote
from .read_table import Table
from .table_limits import MAX_NAME_LENGTH


def read_series_names(table: Table, column: str) -> tuple[Any, np.ndarray]:
    """Returns the names of the series, a sorted Arrow array, and the place of each row's name in it."""
    places, text = CellPlaces(table), table.text(column)
    cells = text if table.csv is not None else table.column(column)
    kind = cells.type
    if not any(test(kind) for test in (is_text, is_number, is_date, pa.types.is_boolean, pa.types.is_null)):
        raise ValueError(f"{places.at(column, 0)}: the column holds {describe_type(kind)}; expected names of series.")
    missing = np.asarray((cells if text is None else text).is_null())
    places.refuse(missing, column, "the row does not say which series it belongs to; fill it in or leave the row out.")
    if pa.types.is_floating(kind):
        cells = pa.array(cells.to_numpy(zero_copy_only=False) + 0.0)  # -0.0 is 0.0
    encoded = cells.dictionary_encode()
    distinct = encoded.dictionary
    try:
        names = distinct.to_pylist()
    except (ValueError, OverflowError, KeyError):  # dates beyond those of Python, or in an unknown time zone
        raise ValueError(f"{places.at(column, 0)}: the column holds dates that cannot be written; expected names.") from None
    places.require(len(set(names)) == len(names), column, 0, "some names cannot be told from each other; write them as text.")
    indices = encoded.indices.to_numpy(zero_copy_only=False)
    if is_text(distinct.type):
        _check_names(names, indices, column, places)
        if table.csv is not None:
            distinct = _convert_numbers(names, distinct)
            names = distinct.to_pylist()
    order = np.array(sorted(range(len(names)), key=names.__getitem__), np.int64)
    return distinct.take(pa.array(order)), np.argsort(order)[indices]


def _check_names(names: list[str], indices: np.ndarray, column: str, places: CellPlaces) -> None:
    """Raises at a long name, one with a line end (a missing quote makes such of whole rows), and two that look alike."""
    known: dict[str, str] = {}
    for i, name in enumerate(names):
        short, message = quote(name, 30), ""
        if len(name) > MAX_NAME_LENGTH or "\n" in name or "\r" in name:
            fault = f"has {len(name):,} characters" if len(name) > MAX_NAME_LENGTH else "holds a line end"
            message = f"the name {short} {fault}; expected a short name. Is a quote missing?"
        elif (other := known.setdefault(name.strip(), name)) != name:
            message = f"{short} and {quote(other, 30)} differ by blanks only; expected one way to write a name."
        if message:
            raise ValueError(f"{places.at(column, np.flatnonzero(indices == i)[0])}: {message}")


def _convert_numbers(names: list[str], texts: Any) -> Any:
    """Returns the names in a CSV file as numbers where they are written back alike; 007 and 7 are two names, so text."""
    for kind, arrow in ((int, pa.int64()), (float, pa.float64())):
        try:
            numbers = [kind(name) for name in names]
            if all(repr(x) == name and math.isfinite(x) for x, name in zip(numbers, names, strict=True)):
                return pa.array(numbers, arrow)
        except (ValueError, OverflowError):
            pass
    return texts
