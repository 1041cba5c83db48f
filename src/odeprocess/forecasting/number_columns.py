"""Columns of numbers as float64: what is read as a number, and the errors for what is none."""

from typing import Any

import numpy as np

from . import arrow as pa
from .check_table import CellPlaces
from .column_types import describe_type, is_number, is_text
from .message_text import quote
from .parse_text import parse_number, parse_numbers
from .read_table import Table


def read_numbers(table: Table, column: str, places: CellPlaces) -> np.ndarray:
    """Returns a column as float64, NaN where a cell is missing.

    Raises:
        ValueError: at text that is no number, and at infinities.
    """
    cells = table.column(column)
    kind = cells.type
    if is_text(kind):
        numbers = _parse(table.text(column), column, places)
    elif pa.types.is_decimal(kind):
        numbers = _parse(cells.cast(pa.string()), column, places)  # the nearest float64, which Arrow's own cast may miss
    elif is_number(kind) or pa.types.is_boolean(kind) or pa.types.is_null(kind):
        numbers = cells.cast(pa.float64(), safe=False).fill_null(np.nan).to_numpy(zero_copy_only=False)
    else:
        raise ValueError(f"{places.at(column, 0)}: the column holds {describe_type(kind)}; expected numbers.")
    message = "the value is infinite, or beyond what a float64 can hold; expected a finite number, or an empty cell."
    places.refuse(np.isinf(numbers), column, message)
    return numbers


def _parse(texts: Any, column: str, places: CellPlaces) -> np.ndarray:
    if (numbers := parse_numbers(texts)) is not None:
        return numbers.fill_null(np.nan).to_numpy(zero_copy_only=False)
    cells = texts.to_pylist()
    found = [np.nan if text is None else parse_number(text) for text in cells]
    row = next((i for i, number in enumerate(found) if number is None), None)
    if row is None:
        return np.array(found, np.float64)
    comma = " Decimals need a point, not a comma." if cells[row].replace(",", ".", 1).replace(".", "", 1).isdigit() else ""
    raise ValueError(
        f"{places.at(column, row)}: {quote(cells[row], 40)} is not a number. Write a number, or leave the cell empty.{comma}"
    )
